#include "stepcast/lower/lattices.h"
#include "stepcast/lower/lower.h"
#include "world_draft.h"

namespace stepcast::lower {

program::World build_world(const strategy::Plan& plan, const cluster::Topology& topology,
                           const Prices& prices, const Options& options) {
  WorldDraft w(plan, topology, prices, options);
  make_programs(w);
  const RankLayout layout = rank_layout(plan);
  make_ranks(w, options.lattices != nullptr ? options.lattices->of(layout, topology)
                                            : make_lattice(layout, topology));
  price_shapes(w);
  const std::vector<program::Curve> host_curves = add_host_side(w);
  weigh_outside(w);
  w.world.labels = w.labels.all();
  for (program::Program& p : w.world.programs) {
    p.labels = w.world.labels;
  }
  make_curves(w, host_curves);
  if (w.key != nullptr) {
    w.lowered->blends_from = w.blends_from;
    options.programs->lend(std::move(*w.key), std::move(w.lowered));
  }
  return std::move(w.world);
}

}  // namespace stepcast::lower
