// What several search algorithms find for one job.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "stepcast/result/search.h"

namespace stepcast::result {

// What one step of an algorithm in several steps decided, and by which figures.
struct AlgorithmStep {
  std::string name;  // "optimizer states"
  std::string decision;
  std::vector<std::string> details;
};

// An operator of the model, of one micro-batch on one device, whole.
struct AnalysedOperator {
  std::string unit;  // "embedding", "layer", "layer 2" (the second kind), "head"
  int times = 1;     // units of that kind
  std::string name;
  double forward_flops = 0, backward_flops = 0;
  double moved = 0;       // bytes read and written in device memory, forward
  double saved = 0;       // bytes from forward to backward; what two operators keep counts at the first
  double parameters = 0;  // elements
  double intensity = 0;   // FLOP a byte, forward; 0: no product
  bool critical = false;  // on its unit's longest path by roofline
};

// Seconds of a step, mean over stages: what the same strategy takes by an algorithm's own cost model.
struct OwnEstimate {
  double step = 0;                                                    // 0: there is none
  double compute = 0, recompute = 0, communication = 0, waiting = 0;  // add up to it
  double memory = 0;                                                  // bytes of the fullest device
};

enum class Proof { none, open, proven };  // open: a better answer was not ruled out

struct AlgorithmAnswer {
  std::string name;  // "alpa"
  bool found = false;
  Strategy strategy;                        // the nearest job, forecast by the engine
  double predicted = 0;                     // seconds of a step by the algorithm's own cost model; 0: none of its own
  std::string plan;                         // in its own terms: "8 stages of 128 GPUs"
  OwnEstimate own;                          // of the strategy that is forecast; `predicted` is of the plan, job or none
  Proof proof = Proof::none;                // of each stage's cut, or of the whole answer (exact)
  std::vector<std::string> notes;           // how the strategy was come by: plans that did not fit
  std::vector<std::string> losses;          // what a job cannot say of that
  std::int64_t tried = 0;                   // programs solved, moves, candidates
  std::string tried_unit;                   // "integer programs"
  double seconds = 0;                       // that it took; of this machine, in no saved answer
  std::string why_not;                      // nothing found: why
  std::vector<AlgorithmStep> steps;         // of ahp
  std::vector<AnalysedOperator> operators;  // of ahp's first step
  std::string schedule;                     // of ahp's last: the generated order as CSV; empty: none
};

struct Algorithms {
  std::string title;
  std::string objective;
  std::vector<AlgorithmAnswer> answers;  // in the order asked for
};

}  // namespace stepcast::result
