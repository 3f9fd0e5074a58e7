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

// A user's rule (op-assign): these layers belong to this stage.
struct LayersAt {
  int first = 0;
  int last = 0;  // inclusive
  int stage = 0;
};

// The dimensions of the search beside the graph: the same for all algorithms.
struct Frame {
  std::vector<std::int64_t> micro_batches;  // sizes of a micro-batch in samples
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
  bool form = false;  // every stage has this mesh, and its axes have these roles
  View view;
  Roles roles{};
};
Setting setting_of(const Frame& frame, int micro_batches, Redo redo);
Setting setting_of(const Frame& frame, const Form& form);

// The problem of a stage with `later` stages behind it.
StageAsk stage_ask(const Setting& setting, int first_layer, int layers, int all_layers,
                   const View& view, int later);
// A key of the stage's layers: stages with equal kinds of layers in equal order cost the same.
std::string content_of(const job::Model& model, const StageAsk& ask);
// Whether the stage holds the layers that the user's rules assign to it, and no layer of another's.
bool holds(const Setting& setting, const StageAsk& ask, int later);

struct GraphStage {
  int first_layer = 0;
  int layers = 0;
  View view;
  double time = 0;    // forward and backward of a micro-batch
  double memory = 0;  // bytes
  std::vector<Meaning> meanings;
  std::vector<int> choice;
  double compute = 0;    // seconds of `time` in kernels
  double recompute = 0;  // seconds of `time` in recomputation; the rest is communication
};
GraphStage stage_of(GraphModel& model, const StageAsk& ask, const std::vector<int>& choice);

struct GraphPlan {
  double latency = kInfinity;  // by the algorithm's own law
  int micro_batches = 1;       // of the step
  Redo redo = Redo::none;
  Setting setting;
  std::optional<Form> form;  // the plan's form, where it was held to one
  std::vector<GraphStage> stages;
  std::int64_t solved = 0;  // stage problems, or moves that were tried
  bool proven = false;      // every stage of it is cut at its optimum
};

// Alpa: stages by dynamic programming over sub-meshes, each operator by integer program.
// nnScaler: the same graph under the user's rules, with its own latency and its bound on bubbles.
struct StageSearch {
  StageProblem::Latency latency = StageProblem::Latency::sum_and_slowest;
  double most_bubble = 1;  // largest share of a step that stages may wait; 1: any
};
int most_stages(const StageSearch& search, int micro_batches);

// `forms`: where given, the plan has one of them; else each stage and operator is free. `memo`:
// stages of earlier plans of the same model (stage_planner.h).
struct StageMemo;
GraphPlan plan_by_ilp(GraphModel& model, const Frame& frame, const StageSearch& search,
                      const std::vector<Form>* forms = nullptr, StageMemo* memo = nullptr);

// FlexFlow: random changes of single operators, kept when they help and now and then when not.
// FlexFlow walks at one temperature; here it falls to zero, since a walk on a small graph would
// else end beside its optimum.
struct Walk {
  std::uint64_t seed = 1;
  int moves = 4000;           // for each combination of stages, mesh, micro-batches, recomputation
  double temperature = 0.05;  // at the first move, relative to the present cost
};
GraphPlan plan_by_walk(GraphModel& model, const Frame& frame, const Walk& walk,
                       const std::vector<Form>* forms = nullptr);

// Numbers of micro-batches of a step that some data size makes with the frame's sizes; most first.
std::vector<int> counts_of_micro_batches(const job::Job& job, const Frame& frame);
std::vector<View> views_of(const job::Job& job, int devices);

// The nearest job: keys and values as a user would set them, and what was lost on the way.
struct Represented {
  std::vector<std::string> overrides;
  std::vector<std::string> losses;
};
Represented represent(const job::Job& job, const GraphPlan& plan);

}  // namespace stepcast::automatic
