#include "host_memory.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace stepcast::forecast {

void fill_host(const job::Node& node, const cluster::Topology& topology,
               const std::vector<std::uint32_t>& class_of, const program::Timeline& timeline,
               result::Report& report) {
  struct Use {
    Bytes host;
    Bytes nvme;
  };
  std::vector<Use> nodes;
  const std::size_t ranks = class_of.empty() ? timeline.ranks.size() : class_of.size();
  for (std::size_t r = 0; r < ranks; ++r) {
    const program::RankResult& one = timeline.ranks[class_of.empty() ? r : class_of[r]];
    const auto at = static_cast<std::size_t>(topology.node_of(static_cast<int>(r)));
    nodes.resize(std::max(nodes.size(), at + 1));
    nodes[at].host += one.host_peak;
    nodes[at].nvme += one.nvme_peak;
  }
  report.host_capacity = node.host_memory;
  report.nvme_capacity = node.nvme;
  for (const Use& use : nodes) {
    report.host_used = std::max(report.host_used, use.host);
    report.nvme_used = std::max(report.nvme_used, use.nvme);
  }
  for (const auto& [used, capacity] : {std::pair{report.host_used, report.host_capacity},
                                       std::pair{report.nvme_used, report.nvme_capacity}}) {
    if (used > Bytes(0) && used > capacity) {
      report.fits.fits = false;
      report.fits.probability = 0.0;
      report.fits.spare = std::min(report.fits.spare, capacity - used);
      report.fits.frees_cache = false;
    }
  }
}

}  // namespace stepcast::forecast
