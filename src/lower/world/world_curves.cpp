// Curves of a world: those that priced its kernels and collectives, and blends of them.
#include "stepcast/base/diagnostics.h"
#include "world_draft.h"

namespace stepcast::lower {

void make_curves(WorldDraft& w, const std::vector<program::Curve>& host_curves) {
  for (const cost::Curve& c : w.prices.curves->curves()) {
    w.world.curves.push_back({c.name, c.file, c.residual, {}});
  }
  w.world.curves.insert(w.world.curves.end(), host_curves.begin(), host_curves.end());
  const auto base = program::CurveId::at(w.world.curves.size());
  STEPCAST_CHECK(base + w.blends.all().size() < WorldDraft::kBlendBase, "too many curves");
  for (const auto& parts : w.blends.all()) {
    w.world.curves.push_back({"merged kernels", "", 0, parts});
  }
  for (program::Program& p : w.world.programs) {
    if (base == w.blends_from) {  // as in the world before
      break;
    }
    for (program::Task& t : p.tasks) {
      if (t.curve >= w.blends_from) {
        t.curve = program::CurveId::at(t.curve - w.blends_from + base);
      }
    }
  }
  w.blends_from = base;
  for (program::Slowdown& s : w.world.slowdowns) {
    if (s.curve >= WorldDraft::kBlendBase && s.curve != program::kNoCurve) {
      s.curve = program::CurveId::at(s.curve - WorldDraft::kBlendBase + base);
    }
  }
}

}  // namespace stepcast::lower
