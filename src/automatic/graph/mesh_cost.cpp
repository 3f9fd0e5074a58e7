#include "mesh_cost.h"

#include <algorithm>

#include "../infinity.h"
#include "stepcast/base/diagnostics.h"

namespace stepcast::automatic {
namespace {

using cost::Collective;

int ranks_of(const View& view, int axes) {
  return ((axes & 1) != 0 ? view.ranks[0] : 1) * ((axes & 2) != 0 ? view.ranks[1] : 1);
}

}  // namespace

double share_of(const View& view, const Cuts& cuts) {
  double out = 1;
  for (std::size_t a = 0; a < 2; ++a) {
    out /= cuts[a] == Cut::whole ? 1 : view.ranks[a];
  }
  return out;
}

double share_beside(const View& view, const Cuts& cuts, std::size_t a) {
  Cuts others = cuts;
  others[a] = Cut::whole;
  return share_of(view, others);
}

MeshCost::MeshCost(const job::Job& job, const std::filesystem::path& calibration,
                   const std::vector<std::string>& files, cost::CurveTable& curves) {
  auto topology = cluster::Topology::build(job.cluster, job.seed);
  if (const auto* why = std::get_if<Infeasible>(&topology)) {
    throw InputError({{why->key, 0, 0}, why->reason});
  }
  topology_ = std::make_unique<cluster::Topology>(std::get<cluster::Topology>(std::move(topology)));
  collectives_ =
      std::make_unique<cost::Collectives>(job.cluster, job.nccl, calibration, files, curves);
}

double MeshCost::collective(const View& view, int axes, Collective op, double bytes) {
  if (ranks_of(view, axes) == 1 || bytes <= 0) {
    return 0;
  }
  const auto [known, unknown] = prices_.try_emplace({view, axes, op, bytes}, 0.0);
  if (!unknown) {
    return known->second;
  }
  const auto [at, fresh] = shapes_.try_emplace({view, axes});
  if (fresh) {
    std::vector<int> slots;
    for (int r = 0; r < ((axes & 1) != 0 ? view.ranks[0] : 1); ++r) {
      for (int c = 0; c < ((axes & 2) != 0 ? view.ranks[1] : 1); ++c) {
        slots.push_back(r * view.ranks[1] + c);
      }
    }
    at->second = topology_->shape(slots);
  }
  const auto price = collectives_->price(op, bytes_of(bytes), at->second);
  known->second = to_seconds(price.latency + price.fluid);
  return known->second;
}

double MeshCost::reshard(const View& view, const Cuts& have, const Cuts& want, double bytes) {
  std::vector<double>& table = reshards_[{view, bytes}];
  if (table.empty()) {
    table.assign(kCuts * kCuts * kCuts * kCuts, -1.0);
  }
  std::size_t at = 0;
  for (const Cut c : {have[0], have[1], want[0], want[1]}) {
    at = at * kCuts + static_cast<std::size_t>(c);
  }
  if (table[at] < 0) {
    table[at] = reshard_anew(view, have, want, bytes);
  }
  return table[at];
}

double MeshCost::reshard_anew(const View& view, const Cuts& have, const Cuts& want, double bytes) {
  double out = 0;
  Cuts now = have;
  // Operations that make the tensor smaller come first.
  std::array<std::size_t, 2> order = {0, 1};
  if (want[1] != Cut::whole && want[0] == Cut::whole) {
    order = {1, 0};
  }
  for (const std::size_t a : order) {
    if (now[a] == want[a] || view.ranks[a] == 1) {
      continue;
    }
    if (now[a] == Cut::expert || want[a] == Cut::expert) {
      return kInfinity;  // only dispatch and combine do that
    }
    const int axis = 1 << a;
    const double whole = bytes * share_beside(view, now, a);
    if (now[a] == Cut::whole || want[a] == Cut::whole) {
      // Slicing needs no communication, but its gradient needs a gather, and the other way round.
      out += collective(view, axis, Collective::all_gather, whole);
    } else {
      out += 2 * collective(view, axis, Collective::all_to_all, whole / view.ranks[a]);
    }
    now[a] = want[a];
  }
  return out;
}

}  // namespace stepcast::automatic
