#include "bus.h"

#include <numeric>

namespace stepcast::report {

int ranks_of(const result::CollectiveTable& table) {
  return std::accumulate(table.ranks_per_node.begin(), table.ranks_per_node.end(), 0);
}

bool sharded(const std::string& op) {
  return op == "all_gather" || op == "reduce_scatter" || op == "alltoall" || op == "gather" ||
         op == "scatter";
}

double bus_bandwidth(const result::CollectiveTable& table, std::int64_t bytes, double seconds) {
  const double n = ranks_of(table);
  const double factor = table.op == "all_reduce" ? 2 * (n - 1) / n
                        : sharded(table.op)      ? (n - 1) / n
                                                 : 1;
  return static_cast<double>(bytes) / seconds * factor;
}

}  // namespace stepcast::report
