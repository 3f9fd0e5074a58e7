// Plan to program: the kernels, collectives, exchanges and buffers of one training step on every
// rank.
#pragma once

#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "stepcast/cluster/topology.h"
#include "stepcast/cost/collectives.h"
#include "stepcast/cost/curve.h"
#include "stepcast/cost/kernels.h"
#include "stepcast/program/program.h"
#include "stepcast/strategy/plan.h"

namespace stepcast::lower {

// Prices of everything that a job runs, by device.
struct Prices {
  std::map<std::string, const cost::Kernels*> kernels;  // by device name
  const cost::Collectives* collectives = nullptr;
  cost::CurveTable* curves = nullptr;
};

// What recomputation comes to, by program of the world.
struct Recomputed {
  std::vector<double> flops;  // of products and attention that run again, each rank and step
  Bytes least_budget;         // of optimal recomputation, where the stated one is too little; else 0
};

// Tasks of all programs of a world, for each of which a forecast takes some 400 bytes.
constexpr std::size_t kMostTasks = 8'000'000;

// Thrown by build_world() before memory runs out: more tasks than Options::most_tasks. `key`: what has to shrink.
struct TooLarge : std::runtime_error {
  TooLarge(std::string what_to_change, const std::string& why) : std::runtime_error(why), key(std::move(what_to_change)) {}
  std::string key;
};

// A feature of a training step that adds tasks and buffers to a stage's program.
struct FeatureEntry;
class LatticeMemo;  // lattices.h
class ProgramMemo;  // programs.h

struct Options {
  std::size_t most_tasks = kMostTasks;          // of all programs together
  bool merge = true;                            // consecutive kernels of a stream with nothing between them run as one task
  Recomputed* recomputed = nullptr;             // filled where given
  std::span<const FeatureEntry> features = {};  // of a stage; empty: all (src/lower/stage/feature_list.h)
  LatticeMemo* lattices = nullptr;              // of jobs before; none: nothing is kept
  ProgramMemo* programs = nullptr;              // likewise, where all features are asked
};

// The world of all ranks: programs per (stage, device), tables per rank. Links that cannot bind are
// no resources. Cost: linear in ranks plus tasks of the distinct programs.
program::World build_world(const strategy::Plan& plan, const cluster::Topology& topology, const Prices& prices,
                           const Options& options = {});

// What a program's communicator role is called in reports: "tensor", "expert data".
const char* group_name(std::uint32_t role);

// Persistent bytes of a rank that holds `parameters` elements. Gradients are 0 where the framework
// makes them in the backward pass (DDP, FSDP2). Regimes: facts of each system, tests/laws/plan.cpp.
struct StateBytes {
  std::int64_t parameters = 0;
  std::int64_t gradients = 0;
  std::int64_t optimizer = 0;
};
StateBytes state_bytes(const strategy::Plan& plan, strategy::DataComm comm, int shard_ranks, std::int64_t parameters);

// What a process holds of a device's memory outside the framework's allocator, at least: all but the buffers of
// communicators.
Bytes least_outside(const strategy::Plan& plan, const job::Device& device);

// FLOPs of products and attention that run again in one step, all ranks together, by rule: of recomputation
// for a budget, nothing. `Recomputed` counts what programs do.
double recomputed_flops(const strategy::Plan& plan);

// Whether recomputation of whole units runs a layer's forward pass again, and whether the layer's input is what is kept
// for that. `layers`: Recompute::layers. `n`: number of the layer in its chunk; `layer`: on its rank.
struct LayerAgain {
  bool again = false;
  bool keeps_input = false;
};
LayerAgain layer_again(RecomputeKind kind, int layers, int n, int layer);

// One unit (a layer, the embedding, the head) alone on one rank, micro-batch by micro-batch: what
// closed forms add up.
struct UnitTime {
  Time forward{0};   // kernels and the messages that they wait for
  Time backward{0};  // with what single operators recompute
  Time kernels{0};   // of both, without messages
  Time host{0};      // of both: launches, work, waits for kernels that it launched itself
  Time issue{0};     // of both: of `host`, launches and work
  Time expert{0};    // of both: messages between experts' ranks, waited for or not
  // Where the unit runs forward again before its backward pass: that, likewise.
  Time again{0}, again_kernels{0}, again_host{0}, again_issue{0}, again_expert{0};
  Time weight_grad{0};                 // of `backward`, kernels of the weight gradient
  std::int64_t parameters = 0;         // elements on this rank, experts apart
  std::int64_t expert_parameters = 0;  // of experts that not every data-parallel rank holds
  std::int64_t kept = 0;               // bytes from forward to backward when nothing, or the attention core, is recomputed
  std::int64_t input = 0;              // bytes kept when the unit is recomputed whole
  // Bytes of temporaries at most, beside what is kept: of each pass; of a forward pass that keeps its input alone; and of
  // the backward pass behind it, what it makes again included.
  std::int64_t forward_temporaries = 0, backward_temporaries = 0, unkept = 0, remade = 0;
  std::map<cost::CurveId, Time> curves;  // time under each curve, both passes
};
struct UnitTimes {
  UnitTime embedding, head;
  std::vector<std::pair<model::LayerKind, UnitTime>> layers;  // each kind of the model once
  const UnitTime& layer(const model::LayerKind& kind) const;
};
// Messages are those of rank 0. Reads neither order nor stages.
UnitTimes unit_times(const strategy::Plan& plan, const cluster::Topology& topology, const Prices& prices,
                     const job::Device& device);

// A layer alone, or only its mixture of experts (router to return, shared experts; neither norm nor residual), as
// benchmarks time them: from an idle GPU, with the host's launches, waits and work, and the collectives that the layer
// itself makes. Rings of context and tensor parallelism are left out.
enum class LayerPart { whole, experts };
struct LayerTime {
  Time forward{0};
  Time backward{0};  // with recomputation
  std::map<cost::CurveId, Time> forward_curves, backward_curves;
};
LayerTime layer_time(const strategy::Plan& plan, const cluster::Topology& topology, const Prices& prices,
                     const job::Device& device, model::LayerKind kind, LayerPart part);

}  // namespace stepcast::lower
