// Decides which GPUs take part in a case. Every process computes the same answer without
// communication.
#include <map>
#include <numeric>
#include <string>

#include "mpi.h"

namespace stepcast::harness::cuda {

std::vector<Seat> seats(const std::vector<Member>& processes, int ranks, int nodes) {
  if (ranks < 1 || nodes < 1 || ranks % nodes != 0) {
    throw Unsupported(std::to_string(ranks) + " ranks do not spread evenly over " +
                      std::to_string(nodes) + " nodes");
  }
  std::map<int, std::vector<Seat>> of_node;
  for (std::size_t p = 0; p < processes.size(); ++p) {
    for (int g = 0; g < processes[p].gpus; ++g) {
      of_node[processes[p].node].push_back({static_cast<int>(p), g});
    }
  }
  const auto each = static_cast<std::size_t>(ranks / nodes);
  std::vector<Seat> out;
  for (const auto& [node, gpus] : of_node) {
    if (static_cast<int>(out.size()) == ranks) {
      break;
    }
    if (gpus.size() < each) {
      throw Unsupported("a node has " + std::to_string(gpus.size()) + " GPUs; " +
                        std::to_string(each) + " are asked for");
    }
    out.insert(out.end(), gpus.begin(), gpus.begin() + static_cast<std::ptrdiff_t>(each));
  }
  if (static_cast<int>(out.size()) != ranks) {
    throw Unsupported("there are " + std::to_string(of_node.size()) + " nodes; " +
                      std::to_string(nodes) + " are asked for");
  }
  return out;
}

std::vector<int> own_gpus(const World& world, int visible) {
  if (visible < 1) {
    throw NoDevice("no NVIDIA GPU is visible");
  }
  if (world.local_size == 1) {
    std::vector<int> all(static_cast<std::size_t>(visible));
    std::iota(all.begin(), all.end(), 0);
    return all;
  }
  if (visible == 1) {  // the launcher assigned one GPU to each process
    return {0};
  }
  if (world.local_rank >= visible) {
    throw NoDevice(std::to_string(world.local_size) + " processes share a node with " +
                   std::to_string(visible) + " GPUs; expected one process a GPU or one a node");
  }
  return {world.local_rank};
}

}  // namespace stepcast::harness::cuda
