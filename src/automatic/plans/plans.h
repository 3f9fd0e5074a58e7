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

// Dimensions of the search other than the graph. They are the same for all algorithms.
struct Frame {
  std::vector<std::int64_t> micro_batches;  // sizes of a micro-batch in samples
  std::vector<Redo> redos;
  std::vector<job::Sharding> shardings;
  double reserve = -1;              // bytes of a device to leave free (StageAsk)
  std::vector<LayersAt> layers_at;  // from the user's rules
  bool all_in_flight = false;       // GPipe: every micro-batch is held until its backward pass
  int virtual_stages = 1;           // per device
  std::vector<int> counts_of_micro_batches;  // from the user's rules; empty: any
};

// One combination of the frame's dimensions.
struct Setting {
  int micro_batches = 1;  // in the step
  Redo redo = Redo::none;
  std::vector<job::Sharding> shardings;
  double reserve = -1;
  std::vector<LayersAt> layers_at;  // only with `stages`
  bool all_in_flight = false;
  int virtual_stages = 1;
  int stages = 0;     // 0: any number
  bool form = false;  // every stage has this mesh, with these roles of its axes
  View view;
  Roles roles{};
};
Setting setting_of(const Frame& frame, int micro_batches, Redo redo);
Setting setting_of(const Frame& frame, const Form& form);

// The problem of a stage that has `later` stages after it.
StageAsk stage_ask(const Setting& setting, int first_layer, int layers, int all_layers,
                   const View& view, int later);
// A key of the stage's layers: stages with the same kinds of layers in the same order cost the
// same.
std::string content_of(const job::Model& model, const StageAsk& ask);
// True if the stage contains all layers that the user's rules assign to it, and none that they
// assign to another stage.
bool holds(const Setting& setting, const StageAsk& ask, int later);

struct GraphStage {
  int first_layer = 0;
  int layers = 0;
  View view;
  double time = 0;    // seconds of the forward and backward pass of a micro-batch
  double memory = 0;  // bytes
  std::vector<Meaning> meanings;
  std::vector<int> choice;
  double compute = 0;    // seconds of `time` that kernels take
  double recompute = 0;  // seconds of `time` that recomputation takes; the rest is communication
};
GraphStage stage_of(GraphModel& model, const StageAsk& ask, const std::vector<int>& choice);

struct GraphPlan {
  double latency = kInfinity;  // by the algorithm's own latency law
  int micro_batches = 1;       // in the step
  Redo redo = Redo::none;
  Setting setting;
  std::optional<Form> form;  // the form to which the plan was restricted, if any
  std::vector<GraphStage> stages;
  std::int64_t solved = 0;  // number of stage problems solved, or of moves tried
  bool proven = false;      // every stage of it is split optimally
};

// Parameters of Alpa (stages by dynamic programming over sub-meshes, operators by integer programs)
// and of nnScaler (the same graph under the user's rules, with its own latency law and its limit on
// bubbles).
struct StageSearch {
  StageProblem::Latency latency = StageProblem::Latency::sum_and_slowest;
  double most_bubble = 1;  // largest bubble fraction of a step; 1: any
};
int most_stages(const StageSearch& search, int micro_batches);

// If `forms` is given, the plan has one of them; otherwise each stage and operator is free. `memo`
// has the stages of earlier plans of the same model (stage_planner.h).
struct StageMemo;
GraphPlan plan_by_ilp(GraphModel& model, const Frame& frame, const StageSearch& search,
                      const std::vector<Form>* forms = nullptr, StageMemo* memo = nullptr);

// Parameters of FlexFlow: random changes of single operators, which are kept if they help and
// sometimes if they do not. FlexFlow walks at one temperature. Here it falls to zero, since a walk
// on a small graph would otherwise miss its optimum narrowly.
struct Walk {
  std::uint64_t seed = 1;
  int moves = 4000;           // for each combination of stages, mesh, micro-batches, recomputation
  double temperature = 0.05;  // at the first move, relative to the current cost
};
GraphPlan plan_by_walk(GraphModel& model, const Frame& frame, const Walk& walk,
                       const std::vector<Form>* forms = nullptr);

// The numbers of micro-batches per step that some data-parallel size gives with the frame's
// micro-batch sizes, in descending order.
std::vector<int> counts_of_micro_batches(const job::Job& job, const Frame& frame);
std::vector<View> views_of(const job::Job& job, int devices);

// The nearest job: keys and values as a user would set them, and the parts of the plan that they do
// not express.
struct Represented {
  std::vector<std::string> overrides;
  std::vector<std::string> losses;
};
Represented represent(const job::Job& job, const GraphPlan& plan);

}  // namespace stepcast::automatic
