// Units whose forward pass runs again: which, when, and the buffers of both times.
#include "recomputation.h"

#include <algorithm>

#include "feature_list.h"

namespace stepcast::lower {

using program::kNone;
using program::MemoryCategory;
using schedule::Pass;
using schedule::Slot;
using Keep = strategy::ChainStep::Kind;

int in_flight(const Stage& stage, int chunk) {
  const auto& slots = slots_of(stage);
  int now = 0;
  int most = 1;
  for (const Slot& s : slots) {
    if (chunk >= 0 && s.chunk != chunk) {
      continue;
    }
    now += s.pass == Pass::forward ? 1 : 0;
    most = std::max(most, now);
    now -= s.pass == Pass::weight_grad || s.pass == Pass::backward ? 1 : 0;
  }
  return most;
}

LayerAgain layer_again(RecomputeKind kind, int layers, int n, int layer) {
  const int every = std::max(1, layers);
  switch (kind) {
    case RecomputeKind::full:
    case RecomputeKind::optimal:
      return {true, true};
    case RecomputeKind::every:
      // torchtitan 0.2.2 counts a rank's layers from one (distributed/activation_checkpoint.py:38).
      return {(layer + 1) % every == 0, (layer + 1) % every == 0};
    case RecomputeKind::uniform:
      return {true, n % every == 0};
    case RecomputeKind::block:
      return {n < layers, n < layers};
    default:
      return {};
  }
}

namespace {

class Recomputation final : public Feature {
 public:
  void make_units(Stage& stage) override;
  void run_again(Stage& stage, const Run& run) override;
  void before_unit(Stage& stage, const Run& run) override;
};

void mark_recomputed(Stage& stage, int chunk) {
  auto& units = stage.units[chunk];
  const auto& recompute = stage.plan.recompute;
  if (recompute.kind == RecomputeKind::optimal && !stage.again.orders.empty()) {
    // Units run forward once in order; what comes then belongs to the backward passes.
    const auto& steps = stage.again.orders[static_cast<std::size_t>(chunk)];
    std::vector<Again> before;
    for (std::size_t n = 0; n < steps.size(); ++n) {
      const auto u = static_cast<std::size_t>(steps[n].stage);
      if (n < units.size()) {
        units[u].recomputed = steps[n].kind != Keep::keep_all;
        units[u].keeps_input = steps[n].kind == Keep::keep_input;
      } else if (steps[n].kind == Keep::backward) {
        units[u].again = std::move(before);
        before.clear();
      } else {
        before.push_back({u, steps[n].kind});
      }
    }
    return;
  }
  const int ahead =
      stage.plan.stages[static_cast<std::size_t>(stage.number)][static_cast<std::size_t>(chunk)]
          .ahead;
  int n = 0;                                         // layers of the chunk
  const int model_layers = stage.plan.model.layers;  // prediction layers run again by operators
  const bool by_operators = recompute.kind != RecomputeKind::every;
  for (Unit& unit : units) {
    if (unit.kind == Unit::Kind::layer && (unit.layer < model_layers || !by_operators)) {
      const LayerAgain of = layer_again(recompute.kind, recompute.layers, n, ahead + n);
      ++n;
      unit.recomputed = of.again;
      unit.keeps_input = of.keeps_input;
    }
  }
  // A group runs again before the backward pass of its last unit.
  std::size_t first = 0;
  for (std::size_t u = 0; u < units.size(); ++u) {
    if (!units[u].recomputed) {
      continue;
    }
    first = units[u].keeps_input ? u : first;
    const bool ends = u + 1 == units.size() || !units[u + 1].recomputed || units[u + 1].keeps_input;
    for (std::size_t v = first; ends && v <= u; ++v) {
      units[u].again.push_back({v, Keep::keep_all});
    }
  }
}

// Which micro-batches keep all: `whole_micro_batches` of those in flight (Megatron-LM,
// core/pipeline_parallel/schedules.py: max_outstanding_backprops,
// num_microbatches_with_partial_activation_checkpoints).
void choose_whole(Stage& stage) {
  stage.again.keeps_whole.assign(stage.units.size(),
                                 std::vector<bool>(stage.plan.micro_batches, false));
  const int window = in_flight(stage, -1);
  int n = 0;
  for (const Slot& s : slots_of(stage)) {
    if (s.pass == Pass::forward) {
      stage.again.keeps_whole[s.chunk][s.micro_batch] =
          n % window < stage.plan.recompute.whole_micro_batches;
      ++n;
    }
  }
}

void Recomputation::make_units(Stage& stage) {
  const std::size_t chunks = stage.plan.stages[static_cast<std::size_t>(stage.number)].size();
  for (std::size_t c = 0; c < chunks; ++c) {
    mark_recomputed(stage, static_cast<int>(c));
  }
  if (stage.plan.recompute.whole_micro_batches == 0) {
    return;
  }
  stage.again.whole = stage.units;
  for (std::size_t c = 0; c < chunks; ++c) {
    for (Unit& u : stage.again.whole[c]) {
      u.recomputed = u.keeps_input = false;
      u.again.clear();
      u.passes = u.whole != nullptr ? u.whole : u.passes;
    }
  }
  choose_whole(stage);
}

// Forward passes that run again before the backward pass of `unit`.
void recompute(Stage& stage, int chunk, const Unit& unit, int micro_batch) {
  const auto& units = units_of(stage, chunk, micro_batch);
  const program::LabelIndex label = label_of(stage, "recomputed activations");
  for (const Again& again : unit.again) {
    const Unit& v = units[again.unit];
    Kept& kept = stage.passes.kept[chunk][again.unit][micro_batch];
    const bool holds_input = kept.activations != kNone || kept.moved != kNone;
    program::BufferIndex passing = kNone;
    if (again.keeps == Keep::keep_all) {
      const UnitMemory& memory = v.passes->memory;
      if (stage.passes.splits) {
        kept.inputs = allocate_for_unit(stage, memory.weight_inputs, MemoryCategory::activations,
                                        label, false);
      }
      const TensorList& made = holds_input
                                   ? (stage.passes.splits ? memory.again.kept : memory.again.saved)
                                   : (stage.passes.splits ? memory.kept : memory.saved);
      kept.recomputed = allocate_for_unit(stage, made, MemoryCategory::activations, label, false);
      passing = allocate_for_unit(stage, memory.again.forward, MemoryCategory::activations,
                                  label_of(stage, "forward temporaries"), true);
    } else {
      if (again.keeps == Keep::keep_input && !holds_input) {
        kept.activations = allocate_for_unit(stage, v.passes->input, MemoryCategory::activations,
                                             label_of(stage, "activations"));
      }
      passing = allocate_for_unit(stage, v.passes->memory.unkept, MemoryCategory::activations,
                                  label_of(stage, "forward temporaries"), true);
    }
    if (passing != kNone) {  // what it hands on is the next backward pass's no more
      stage.builder.program.buffers[passing].handed = program::Buffer::kNoTensor;
    }
    if (kept.recomputed != kNone) {
      stage.builder.program.buffers[kept.recomputed].taken = program::Buffer::kNoTensor;
    }
    stage.again.flops += v.passes->again_flops;
    replay(stage, v.passes->recompute);
    stage.builder.release(passing);
  }
}

// Tensors that single operators make again for the backward pass: those that weight gradients read
// stay until W, the others are temporaries of the pass.
void make_again(Stage& stage, const Unit& unit, Kept& kept) {
  kept.remade_inputs =
      allocate_for_unit(stage, stage.passes.splits ? unit.passes->memory.remade_inputs.bytes : 0,
                        MemoryCategory::activations, label_of(stage, "recomputed activations"));
  stage.again.flops += unit.passes->redone_flops;
}

void Recomputation::run_again(Stage& stage, const Run& run) {
  const int chunk = run.slot.chunk;
  const Unit& unit = units_of(stage, chunk, run.slot.micro_batch)[run.unit];
  if (!unit.again.empty()) {
    if (run.slot.pass == Pass::backward) {
      Kept& kept = stage.passes.kept[chunk][run.unit][run.slot.micro_batch];
      kept.gradients =
          allocate_for_unit(stage, unit.passes->memory.again.narrowed, MemoryCategory::activations,
                            label_of(stage, "output gradients"), false);
    }
    recompute(stage, chunk, unit, run.slot.micro_batch);
    if (stage.plan.recompute.holds_result) {
      Kept& kept = stage.passes.kept[chunk][run.unit][run.slot.micro_batch];
      kept.result =
          allocate_for_unit(stage, unit.passes->memory.input.bytes, MemoryCategory::activations,
                            label_of(stage, "recomputed result"));
    }
    each<&Feature::before_second_use>(stage, chunk, run.unit);
  }
  make_again(stage, unit, stage.passes.kept[chunk][run.unit][run.slot.micro_batch]);
}

// The gradient of each weight is a call of autograd, which unpacks what a checkpoint saved: a layer
// of seven weights runs again seven times (torch 2.15, distributed/pipelining/_backward.py:344, 2.7
// :254). What it makes then is not counted beside the first time's.
void Recomputation::before_unit(Stage& stage, const Run& run) {
  if (run.slot.pass != Pass::weight_grad || !stage.plan.recompute.for_each_weight) {
    return;
  }
  const auto& units = units_of(stage, run.slot.chunk, run.slot.micro_batch);
  for (const Again& again : units[run.unit].again) {
    const Passes& passes = *units[again.unit].passes;
    for (std::size_t n = 0; n < passes.arrays.size(); ++n) {
      stage.again.flops += passes.again_flops;
      replay(stage, passes.recompute);
    }
  }
}

}  // namespace

std::unique_ptr<Feature> make_recomputation() { return std::make_unique<Recomputation>(); }

}  // namespace stepcast::lower
