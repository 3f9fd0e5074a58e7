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
  int devices = 1;          // number of devices, all of which are used
  std::vector<int> shapes;  // numbers of devices that a stage's sub-mesh may have
  int micro_batches = 1;    // B
  enum class Latency { sum_and_slowest, slowest } latency = Latency::sum_and_slowest;
  int most_stages = std::numeric_limits<int>::max();
  int stages = 0;          // exact number of stages; 0: any number
  int virtual_stages = 1;  // interleaving divides the time that stages wait for each other by this
  // Seconds of blocks first..last-1 on shapes[shape] with `later` stages after it; infinity: does
  // not fit. Called at most once for each.
  using Of = double(int first, int last, int shape, int later);
  std::function<Of> time;
  // Lower bounds of the times, for times that are expensive to compute. Only the times on which the
  // answer depends are then requested. Stages with equal times have the same number `alike`.
  std::function<Of> least;
  std::function<int(int first, int last, int shape, int later)> alike;
  double limit = kInfinity;  // plans whose latency is not below this are of no use
};

struct PlannedStage {
  int first = 0;
  int last = 0;  // one past
  int shape = 0;
  double time = 0;
};

struct StagePlan {
  double latency = kInfinity;  // infinity: no plan is below the limit
  std::vector<PlannedStage> stages;
};

double latency_of(const StageProblem& problem, const std::vector<PlannedStage>& stages);
StagePlan plan_stages(const StageProblem& problem);
// A lower bound of the latency of all plans: the best by `least` alone. Infinity: there is no plan.
double least_latency(const StageProblem& problem);

}  // namespace stepcast::automatic
