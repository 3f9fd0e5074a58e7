// Whole strategies on the operator graph: stages, their meshes, and how each operator is cut there.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "../graph/graph_model.h"
#include "../infinity.h"
#include "forms.h"
#include "stages.h"

namespace stepcast::automatic {

// A user's rule (op-assign): these layers are of this stage.
struct LayersAt {
  int first = 0;
  int last = 0;  // itself included
  int stage = 0;
};

// What is searched beside the graph: the same for all algorithms.
struct Frame {
  std::vector<std::int64_t> micro_batches;  // samples that a data-parallel rank takes at once
  std::vector<Redo> redos;
  std::vector<job::Sharding> shardings;
  double reserve = -1;                       // bytes of a device that stay free (StageAsk)
  std::vector<LayersAt> layers_at;           // of the user
  bool all_in_flight = false;                // GPipe: every micro-batch waits for its backward pass
  int virtual_stages = 1;                    // of each stage
  std::vector<int> counts_of_micro_batches;  // of the user; empty: any
};

// One point of the frame.
struct Setting {
  int micro_batches = 1;  // of the step
  Redo redo = Redo::none;
  std::vector<job::Sharding> shardings;
  double reserve = -1;
  std::vector<LayersAt> layers_at;  // only with `stages`
  bool all_in_flight = false;
  int virtual_stages = 1;
  int stages = 0;     // 0: any number
  bool form = false;  // every stage has this mesh, its axes these roles
  View view;
  Roles roles{};
};
Setting setting_of(const Frame& frame, int micro_batches, Redo redo);
Setting setting_of(const Frame& frame, const Form& form);

// A stage with so many behind it.
StageAsk stage_ask(const Setting& setting, int first_layer, int layers, int all_layers,
                   const View& view, int later);
// Layers of like kinds in like order make like stages.
std::string content_of(const job::Model& model, const StageAsk& ask);
// Whether the user's layers are in it, or in others, as they shall be.
bool holds(const Setting& setting, const StageAsk& ask, int later);

struct GraphStage {
  int first_layer = 0;
  int layers = 0;
  View view;
  double time = 0;    // forward and backward of a micro-batch
  double memory = 0;  // bytes
  std::vector<Meaning> meanings;
  std::vector<int> choice;
  double compute = 0;    // of `time`, kernels
  double recompute = 0;  // of it, kernels that run again; the rest is communication
};
GraphStage stage_of(GraphModel& model, const StageAsk& ask, const std::vector<int>& choice);

struct GraphPlan {
  double latency = kInfinity;  // by the algorithm's own law
  int micro_batches = 1;       // of the step
  Redo redo = Redo::none;
  Setting setting;
  std::optional<Form> form;  // that it has, where it was held to one
  std::vector<GraphStage> stages;
  std::int64_t solved = 0;  // stage problems, or moves that were tried
  bool proven = false;      // every stage of it is cut at its optimum
};

// Alpa: stages by dynamic programming over sub-meshes, each operator by integer program.
// nnScaler: the same graph under the user's rules, with its own latency and its bound on bubbles.
struct StageSearch {
  StageProblem::Latency latency = StageProblem::Latency::sum_and_slowest;
  double most_bubble = 1;  // share of a step that stages may wait; 1: any
};
int most_stages(const StageSearch& search, int micro_batches);

// `forms`: where given, the plan has one of them; else each stage and operator is free. `memo`: of
// plans of the same model before this one (stage_planner.h).
struct StageMemo;
GraphPlan plan_by_ilp(GraphModel& model, const Frame& frame, const StageSearch& search,
                      const std::vector<Form>* forms = nullptr, StageMemo* memo = nullptr);

// FlexFlow: random changes of single operators, kept when they help and now and then when not. It
// walks at one temperature; here that falls to nothing, or small graphs are left beside their best.
struct Walk {
  std::uint64_t seed = 1;
  int moves = 4000;           // of each combination of stages, mesh, micro-batches, recomputation
  double temperature = 0.05;  // of the present cost, of the first move
};
GraphPlan plan_by_walk(GraphModel& model, const Frame& frame, const Walk& walk,
                       const std::vector<Form>* forms = nullptr);

// Micro-batches of a step that some data size makes of these sizes; most first.
std::vector<int> counts_of_micro_batches(const job::Job& job, const Frame& frame);
std::vector<View> views_of(const job::Job& job, int devices);

// The nearest job: keys and values as a user would set them, and what was lost on the way.
struct Represented {
  std::vector<std::string> overrides;
  std::vector<std::string> losses;
};
Represented represent(const job::Job& job, const GraphPlan& plan);

}  // namespace stepcast::automatic
