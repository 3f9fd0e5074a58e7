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
  std::vector<PassTimes> stages;  // per micro-batch, seconds
  std::vector<double> live;  // [stage] number of micro-batches that its memory can hold, at least 1
  int micro_batches = 1;
  double comm = 0;  // seconds of a message between neighbouring stages
  // Share of a micro-batch's activations that is kept for its weight gradient.
  double weight_memory = 1;
  bool splits_backward = true;
};

struct MadeOrder {
  double makespan = 0;  // seconds, without optimizer and gradient reduction
  schedule::Order order;
  std::vector<double> peak;  // [stage] maximum number of micro-batches held
};

// Returns the shortest of several list schedules. They differ in how far forward passes run ahead,
// in which of two ready passes goes first, and in whether a weight gradient may delay a pass whose
// input arrives meanwhile.
MadeOrder make_order(const OrderProblem& problem);

}  // namespace stepcast::automatic
