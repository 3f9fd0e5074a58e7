#include "collective_check.h"

namespace stepcast::harness::cuda {
namespace {

float sum_of(int ranks, std::size_t index) {
  float sum = 0;
  for (int r = 0; r < ranks; ++r) {
    sum += sent(r, index);
  }
  return sum;
}

}  // namespace

float sent(int rank, std::size_t index) {
  return static_cast<float>((static_cast<std::size_t>(rank) * 31 + index * 7) % 101);
}

std::vector<float> expected(const std::string& op, int ranks, int rank, std::size_t count) {
  const auto n = static_cast<std::size_t>(ranks);
  const auto me = static_cast<std::size_t>(rank);
  std::vector<float> out;
  if (op == "reduce" && rank != 0) {
    return out;
  }
  const bool whole = op == "all_gather" || op == "alltoall";
  out.resize(whole ? n * count : count);
  for (std::size_t i = 0; i < out.size(); ++i) {
    const int from = static_cast<int>(i / count);
    if (op == "all_reduce" || op == "reduce") {
      out[i] = sum_of(ranks, i);
    } else if (op == "reduce_scatter") {
      out[i] = sum_of(ranks, me * count + i);
    } else if (op == "all_gather") {
      out[i] = sent(from, i % count);
    } else if (op == "alltoall") {
      out[i] = sent(from, me * count + i % count);
    } else if (op == "broadcast") {
      out[i] = sent(0, i);
    } else {  // sendrecv: data come from the left neighbour in a ring
      out[i] = sent((rank + ranks - 1) % ranks, i);
    }
  }
  return out;
}

}  // namespace stepcast::harness::cuda
