// A pipeline order made for stages of unlike times: every pass of every micro-batch is a task of a
// directed acyclic graph, and list scheduling places the tasks on the pipeline's ranks (step 6 of
// AHP).
//
// LAW  F(s, b) after F(s - 1, b) and a message; I(s, b) after F(s, b), and I(s + 1, b) and a
// message; W(s, b) after I(s, b).
//      A rank runs one task at a time and keeps at most `live` micro-batches' activations: F takes
//      one, I gives back all but weight_memory of it, W the rest.
#pragma once

#include <variant>
#include <vector>

#include "stepcast/schedule/schedule.h"

namespace stepcast::automatic {

struct PassTimes {
  double forward = 0;
  double input_grad = 0;
  double weight_grad = 0;
};

struct OrderProblem {
  std::vector<PassTimes> stages;  // a micro-batch, seconds
  std::vector<double> live;       // [stage] micro-batches that its memory holds, at least 1
  int micro_batches = 1;
  double comm = 0;  // of a message between neighbours, seconds
  double weight_memory =
      1;  // share of a micro-batch's activations that waits for its weight gradient
  bool splits_backward = true;
};

struct MadeOrder {
  double makespan = 0;  // seconds, without optimizer and gradient sums
  schedule::Order order;
  std::vector<double> peak;  // [stage] micro-batches kept at most
};

// The shortest of a few list schedules: how far forwards run ahead, which of two ready passes goes
// first, and whether a weight gradient may keep an arrival waiting are tried each way.
MadeOrder make_order(const OrderProblem& problem);

}  // namespace stepcast::automatic
