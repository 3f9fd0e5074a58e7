#include "batch_shares.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <utility>

namespace stepcast::automatic {

double last_end(const BatchProblem& p, const std::vector<int>& micro_batches) {
  double last = 0;
  for (std::size_t d = 0; d < micro_batches.size(); ++d) {
    last = std::max(last, p.fixed[d] + micro_batches[d] * p.each[d]);
  }
  return last;
}

std::vector<int> share_batches(const BatchProblem& p) {
  const auto ranks = static_cast<int>(p.each.size());
  if (p.micro_batches % p.grain != 0 || p.micro_batches / p.grain < ranks) {
    return {};
  }
  std::vector<int> out(p.each.size(), p.grain);
  // (end time with one more grain, rank); ties go to the lower rank
  using Next = std::pair<double, std::size_t>;
  std::priority_queue<Next, std::vector<Next>, std::greater<>> queue;
  const auto put = [&](std::size_t d) {
    queue.emplace(p.fixed[d] + (out[d] + p.grain) * p.each[d], d);
  };
  for (std::size_t d = 0; d < out.size(); ++d) {
    put(d);
  }
  for (int left = p.micro_batches / p.grain - ranks; left > 0; --left) {
    const std::size_t d = queue.top().second;
    queue.pop();
    out[d] += p.grain;
    put(d);
  }
  return out;
}

std::vector<int> shift_batches(const std::vector<int>& micro_batches, const std::vector<int>& kind,
                               int from, int to, int grain) {
  std::vector<int> out = micro_batches;
  int moved = 0;
  for (std::size_t d = 0; d < out.size(); ++d) {
    if (kind[d] != from) {
      continue;
    }
    if (out[d] <= grain) {
      return {};
    }
    out[d] -= grain;
    ++moved;
  }
  for (; moved > 0; --moved) {
    std::size_t least = out.size();
    for (std::size_t d = 0; d < out.size(); ++d) {
      if (kind[d] == to && (least == out.size() || out[d] < out[least])) {
        least = d;
      }
    }
    if (least == out.size()) {
      return {};
    }
    out[least] += grain;
  }
  return out;
}

}  // namespace stepcast::automatic
