// How many micro-batches of a step each data-parallel rank takes where the ranks are not alike.
//
// LAW  rank d ends its micro-batches after fixed_d + n_d t_d, and gradients are reduced when the
//      last has: step = max_d (fixed_d + n_d t_d) + reduction, sum_d n_d = B.
#pragma once

#include <vector>

namespace stepcast::automatic {

struct BatchProblem {
  std::vector<double> fixed;  // [rank] seconds to fill and drain its pipeline
  std::vector<double> each;   // [rank] seconds of one further micro-batch, above 0
  int micro_batches = 1;      // B
  int grain = 1;              // each share is a multiple of it (groups of interleaved stages)
};

double last_end(const BatchProblem& problem, const std::vector<int>& micro_batches);

// Returns the share of each rank, at least one grain, that minimises the last end time. It gives
// one grain after the other to the rank that would end first with it. This is exact, as each rank's
// end time grows with its share. Empty if B is not a multiple of the grain, or is too small.
std::vector<int> share_batches(const BatchProblem& problem);

// Moves one grain from every rank of kind `from` to the ranks of kind `to` with the smallest
// shares. The total stays the same. Empty if a rank would have no micro-batch left.
std::vector<int> shift_batches(const std::vector<int>& micro_batches, const std::vector<int>& kind,
                               int from, int to, int grain);

}  // namespace stepcast::automatic
