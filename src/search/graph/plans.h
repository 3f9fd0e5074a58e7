// Whole strategies on the operator graph: stages, their meshes, and how each operator is cut there.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "graph_model.h"
#include "stages.h"

namespace stepcast::search {

// What is searched beside the graph: the same for all algorithms.
struct Frame {
  std::vector<std::int64_t> micro_batches;  // samples that a data-parallel rank takes at once
  std::vector<Redo> redos;
  std::vector<job::Sharding> shardings;
  int most_pipeline = 0;  // stages; 0: any number
};

struct GraphStage {
  int first_layer = 0;
  int layers = 0;
  View view;
  double time = 0;    // forward and backward of a micro-batch
  double memory = 0;  // bytes
  std::vector<Meaning> meanings;
  std::vector<int> choice;
};

struct GraphPlan {
  double latency = std::numeric_limits<double>::infinity();  // by the algorithm's own law
  int micro_batches = 1;                                     // of the step
  Redo redo = Redo::none;
  std::vector<GraphStage> stages;
  std::int64_t solved = 0;  // stage problems, or moves that were tried
  bool proven = true;       // every stage problem to its optimum
};

// Alpa: stages by dynamic programming over sub-meshes, each operator by integer program.
// nnScaler: the same graph under the user's rules, with its own latency and its bound on bubbles.
struct StageSearch {
  StageProblem::Latency latency = StageProblem::Latency::sum_and_slowest;
  double most_bubble = 1;  // share of a step that stages may wait; 1: any
};
GraphPlan plan_by_ilp(GraphModel& model, const Frame& frame, const StageSearch& search);

// FlexFlow: random changes of single operators, kept when they help and now and then when not.
struct Walk {
  std::uint64_t seed = 1;
  int moves = 4000;           // of each combination of stages, mesh, micro-batches, recomputation
  double temperature = 0.05;  // of the present cost
};
GraphPlan plan_by_walk(GraphModel& model, const Frame& frame, const Walk& walk);

// Micro-batches of a step that some data size makes of these sizes; most first.
std::vector<int> counts_of_micro_batches(const job::Job& job, const Frame& frame);
std::vector<View> views_of(const job::Job& job, int devices);

// The nearest job: keys and values as a user would set them, and what was lost on the way.
struct Represented {
  std::vector<std::string> overrides;
  std::vector<std::string> losses;
};
Represented represent(const job::Job& job, const GraphPlan& plan);

}  // namespace stepcast::search
