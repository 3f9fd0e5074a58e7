// The answers of several search algorithms for one job.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "stepcast/result/search.h"

namespace stepcast::result {

// The decision of one step of an algorithm that works in steps, and the figures it rests on.
struct AlgorithmStep {
  std::string name;  // "optimizer states"
  std::string decision;
  std::vector<std::string> details;
};

// One operator of the model, unsharded: one micro-batch on one device.
struct AnalysedOperator {
  std::string unit;  // "embedding", "layer", "layer 2" (the second kind), "head"
  int times = 1;     // number of units of this kind
  std::string name;
  double forward_flops = 0, backward_flops = 0;
  double moved = 0;       // bytes read and written in device memory, forward
  double saved = 0;       // bytes kept from forward to backward; a tensor that two operators keep counts for the first
  double parameters = 0;  // elements
  double intensity = 0;   // FLOP per byte, forward; 0: the operator multiplies nothing
  bool critical = false;  // on its unit's longest path by roofline
};

// Seconds of a step, mean over stages, of the same strategy by the algorithm's own cost model.
struct OwnEstimate {
  double step = 0;                                                    // 0: no estimate
  double compute = 0, recompute = 0, communication = 0, waiting = 0;  // add up to it
  double memory = 0;                                                  // bytes of the fullest device
};

enum class Proof { none, open, proven };  // open: a better answer is possible

struct AlgorithmAnswer {
  std::string name;  // "alpa"
  bool found = false;
  Strategy strategy;                        // the nearest strategy that a job can state, forecast by the engine
  double predicted = 0;                     // seconds of a step by the algorithm's own cost model; 0: it has none
  std::string plan;                         // in the algorithm's own terms: "8 stages of 128 GPUs"
  OwnEstimate own;                          // of the strategy that is forecast; `predicted` is of the plan itself
  Proof proof = Proof::none;                // of each stage's cut, or of the whole answer (exact)
  std::vector<std::string> notes;           // how the strategy was found, such as plans that did not fit
  std::vector<std::string> losses;          // features of the plan that a job cannot state
  std::int64_t tried = 0;                   // number of programs solved, moves or candidates
  std::string tried_unit;                   // "integer programs"
  double seconds = 0;                       // time the search took on this machine; not part of saved answers
  std::string why_not;                      // reason that nothing was found
  std::vector<AlgorithmStep> steps;         // of the algorithm ahp only
  std::vector<AnalysedOperator> operators;  // from the first step of ahp
  std::string schedule;                     // from the last step of ahp: the generated order as CSV; empty: none
};

struct Algorithms {
  std::string title;
  std::string objective;
  std::vector<AlgorithmAnswer> answers;  // in the order of the request
};

}  // namespace stepcast::result
