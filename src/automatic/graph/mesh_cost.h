// Times of collectives over the axes of a mesh, each without other traffic, and of resharding an
// activation.
#pragma once

#include <cmath>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "graph_model.h"
#include "stepcast/cluster/topology.h"
#include "stepcast/cost/collectives.h"

namespace stepcast::automatic {

// The share of an activation that a rank holds, by its cuts along both axes. `share_beside` leaves
// out the cut along axis `a`.
double share_of(const View& view, const Cuts& cuts);
double share_beside(const View& view, const Cuts& cuts, std::size_t a);

// Whole bytes, at least one.
inline Bytes bytes_of(double b) { return Bytes(std::max<std::int64_t>(1, std::llround(b))); }

class MeshCost {
 public:
  // `curves` is shared with other readers of the calibration and must outlive this object.
  MeshCost(const job::Job& job, const std::filesystem::path& calibration,
           const std::vector<std::string>& files, cost::CurveTable& curves);

  // Returns seconds. Bit k of `axes` is set if the group spans axis k.
  double collective(const View& view, int axes, cost::Collective op, double bytes);
  // Seconds to reshard an activation of that size from one cut to another, and its gradient back.
  // Infinity if that is impossible.
  double reshard(const View& view, const Cuts& have, const Cuts& want, double bytes);

 private:
  double reshard_anew(const View& view, const Cuts& have, const Cuts& want, double bytes);

  std::unique_ptr<cluster::Topology> topology_;
  std::unique_ptr<cost::Collectives> collectives_;
  std::map<std::pair<View, int>, cluster::GroupShape> shapes_;
  // Prices that were computed before; reshards_ by view and bytes, then by both cuts.
  std::map<std::tuple<View, int, cost::Collective, double>, double> prices_;
  std::map<std::pair<View, double>, std::vector<double>> reshards_;
};

}  // namespace stepcast::automatic
