// The operator graph of a stage on a mesh of devices, every way to cut its operators, and what each
// costs: one cost model for all algorithms on graphs.
//
// LAW  Kernels of the local shapes and collectives alone on the machine, both by the curves that
//      forecasts use; a micro-batch's forward and backward pass, with the step's gradient sum
//      spread over its micro-batches. Left out, as Alpa and nnScaler do: overlap, transfers between
//      stages, the optimizer, the host. Layers of one kind are cut alike.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "../choice/choice.h"
#include "roles.h"
#include "splits.h"
#include "stepcast/job/job.h"

namespace stepcast::automatic {

// Devices of a sub-mesh as two axes; the ranks of the second are nearest to each other (consecutive
// slots).
struct View {
  std::array<int, 2> ranks = {1, 1};
  int devices() const { return ranks[0] * ranks[1]; }
  auto operator<=>(const View&) const = default;
};

// What the backward pass recomputes.
enum class Redo { none, selective, full };

struct StageAsk {
  int first_layer = 0;
  int layers = 0;
  bool embedding = false;
  bool head = false;
  View view;
  int micro_batches = 1;  // in the step
  int in_flight = 1;  // maximum number of micro-batches whose activations a device keeps at once
  Redo redo = Redo::none;
  std::vector<job::Sharding> shardings = {job::Sharding::none};  // allowed shardings of parameters
  Roles roles{};        // roles of the view's axes; Use::any: each operator is cut independently
  double reserve = -1;  // bytes of a device to leave free; below 0: the share that kUsable leaves
};

struct Option {
  Splits splits{};
  job::Sharding sharding = job::Sharding::none;
  double compute = 0;    // seconds of the cost that kernels take
  double recompute = 0;  // seconds of the cost that recomputation takes
};

// The operator of a node of the choice problem.
struct Meaning {
  std::string name;  // of the operator
  model::OpKind kind = model::OpKind::elementwise;
  double flops = 0;  // forward, all ranks
  double parameters = 0;
  std::vector<Option> options;
};

struct StageGraph {
  ChoiceProblem problem;
  std::vector<Meaning> meanings;  // one for each node
};

// One row of a model's analysis: an undivided operator on one sequence.
struct Analysed {
  std::string unit;  // "embedding", "layer", "layer 2" (the second kind), "head"
  int times = 1;     // layers of that kind
  model::Operator op;
};

// True if the user's rules allow this split of an operator.
using Allowed =
    std::function<bool(const model::Operator& op, const Splits& splits, const View& view)>;

class GraphModel {
 public:
  GraphModel(const job::Job& job, const std::filesystem::path& data_directory,
             Allowed allowed = {});
  ~GraphModel();

  // The problem includes the memory limit: kUsable of a device's memory.
  StageGraph stage(const StageAsk& ask);
  std::vector<Analysed> analyse() const;
  const job::Job& job() const;
  double capacity() const;  // bytes of a device
  // The part of them that states and activations may use.
  double memory_limit(double reserve = -1) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The share of a device's memory that states and activations may take: Alpa leaves the rest to
// workspaces and fragmentation, as XLA does by default (XLA_PYTHON_CLIENT_MEM_FRACTION, 0.9 in its
// benchmarks).
inline constexpr double kUsable = 0.9;

}  // namespace stepcast::automatic
