// How many micro-batches of a step each data-parallel rank takes where the ranks are not alike.
//
// LAW  rank d ends its micro-batches after fixed_d + n_d t_d, and gradients are reduced when the
//      last has: step = max_d (fixed_d + n_d t_d) + reduction, sum_d n_d = B.
#pragma once

#include <vector>

namespace stepcast::automatic {

struct BatchProblem {
  std::vector<double> fixed;  // [rank] seconds: filling and draining its pipeline
  std::vector<double> each;   // [rank] seconds of one micro-batch more, above 0
  int micro_batches = 1;      // B
  int grain = 1;              // a rank takes a multiple of it (groups of interleaved stages)
};

double last_end(const BatchProblem& problem, const std::vector<int>& micro_batches);

// The share of each rank, at least one grain, with the earliest last end: grain by grain to the
// rank that ends first with it, which is exact as every rank's end grows with its share. Empty
// where B is no multiple of the grain, or too few.
std::vector<int> share_batches(const BatchProblem& problem);

// The same total with one grain less on every rank of kind `from`, and as many more on those of
// kind `to` that have least. Empty where a rank would be left without any.
std::vector<int> shift_batches(const std::vector<int>& micro_batches, const std::vector<int>& kind,
                               int from, int to, int grain);

}  // namespace stepcast::automatic
