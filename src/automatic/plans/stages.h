// Which consecutive blocks of layers go to which sub-mesh: inter-operator parallelism by dynamic
// programming.
//
// LAW  Alpa (Zheng et al., OSDI 2022, section 5.2): step = sum_i t_i + (B - 1) max_i t_i, with t_i
//      the forward and backward of stage i for one micro-batch. For each cap t_max on a stage,
//      f[s, i, d] = min over j, sub-mesh n of t(i..j, n) + f[s - 1, j, d - n], t <= t_max: the
//      least sum of s stages that hold blocks i.. on d devices. nnScaler (Lin et al., OSDI 2024):
//      step = (B - 1 + s) max_i t_i. With v virtual stages, what is waited for is 1 / v of that
//      (Narayanan et al., SC 2021): B max_i t_i + (sum_i t_i - max_i t_i) / v.
//
// Caps go down from what the best plan so far allows (Alpa stops its rising ones there), each to
// just below the slowest stage of the plan under the one before: between the two lies no better
// plan. Where only bounds of times are known, the best plan under them is made exact stage by stage
// until it is exact as a whole: nothing that was not asked for can then be faster.
#pragma once

#include <functional>
#include <limits>
#include <vector>

#include "../infinity.h"

namespace stepcast::automatic {

struct StageProblem {
  int blocks = 1;
  int devices = 1;          // all are used
  std::vector<int> shapes;  // devices of a sub-mesh that a stage may have
  int micro_batches = 1;    // B
  enum class Latency { sum_and_slowest, slowest } latency = Latency::sum_and_slowest;
  int most_stages = std::numeric_limits<int>::max();
  int stages = 0;          // exactly so many; 0: any number
  int virtual_stages = 1;  // interleaved: what stages wait for each other shrinks by so much
  // Seconds of blocks first..last-1 on shapes[shape] with so many stages behind it; infinity: does
  // not fit. Called at most once for each.
  using Of = double(int first, int last, int shape, int later);
  std::function<Of> time;
  // Where times are dear: seconds that they are not below. Then only those are asked for that the
  // answer hangs on. `alike`: a number that stages share whose times are equal.
  std::function<Of> least;
  std::function<int(int first, int last, int shape, int later)> alike;
  double limit = kInfinity;  // no latency as long is of use
};

struct PlannedStage {
  int first = 0;
  int last = 0;  // one past
  int shape = 0;
  double time = 0;
};

struct StagePlan {
  double latency = kInfinity;  // infinity: none below the limit
  std::vector<PlannedStage> stages;
};

double latency_of(const StageProblem& problem, const std::vector<PlannedStage>& stages);
StagePlan plan_stages(const StageProblem& problem);
// No plan is faster: the best by `least` alone. Infinity: there is none.
double least_latency(const StageProblem& problem);

}  // namespace stepcast::automatic
