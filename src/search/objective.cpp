#include "stepcast/search/objective.h"

namespace stepcast::search {

double per_second(Objective objective, const job::Cluster& cluster) {
  switch (objective) {
    case Objective::time:
      return 1;
    case Objective::cost:
      return cluster.ranks();
    case Objective::energy: {
      double watts = cluster.nodes * cluster.device.power.count();
      for (const auto& o : cluster.overrides) {
        watts += o.count * (o.device.power.count() - cluster.device.power.count());
      }
      return watts * cluster.node.gpus;
    }
  }
  return 1;
}

}  // namespace stepcast::search
