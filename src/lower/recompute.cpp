// Units whose forward pass runs again: which, when, and the buffers of both times.
#include <algorithm>

#include "stage_builder.h"

namespace stepcast::lower {

using program::kNone;
using program::MemoryCategory;
using schedule::Pass;
using schedule::Slot;
using Keep = strategy::ChainStep::Kind;

void StageBuilder::mark_recomputed(int chunk) {
  auto& units = units_[chunk];
  const auto& recompute = job_.memory.recompute;
  using Kind = job::Recompute::Kind;
  if (recompute.kind == Kind::optimal && !orders_.empty()) {
    // Units run forward once in order; what comes then belongs to the backward passes.
    const auto& steps = orders_[static_cast<std::size_t>(chunk)];
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
  int n = 0;  // layers of the chunk
  const int every = std::max(1, recompute.layers);
  for (Unit& unit : units) {
    if (unit.kind != Unit::Kind::layer) {
      continue;
    }
    switch (recompute.kind) {
      case Kind::full:
      case Kind::optimal:
        unit.recomputed = unit.keeps_input = true;
        break;
      case Kind::every:
        unit.recomputed = unit.keeps_input = unit.layer % every == 0;
        break;
      case Kind::uniform:
        unit.recomputed = true;
        unit.keeps_input = n % every == 0;
        break;
      case Kind::block:
        unit.recomputed = unit.keeps_input = n < recompute.layers;
        break;
      default:
        break;
    }
    ++n;
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

int StageBuilder::in_flight(int chunk) const {
  const auto& slots = plan_.order.ranks[stage_];
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

// Of the forward passes in flight, every so many-th keeps all (Megatron-LM, core/pipeline_parallel/
// schedules.py: max_outstanding_backprops, num_microbatches_with_partial_activation_checkpoints).
void StageBuilder::choose_whole() {
  keeps_whole_.assign(units_.size(), std::vector<bool>(plan_.micro_batches, false));
  const int window = in_flight(-1);
  int n = 0;
  for (const Slot& s : plan_.order.ranks[stage_]) {
    if (s.pass == Pass::forward) {
      keeps_whole_[s.chunk][s.micro_batch] = n % window < job_.memory.whole_micro_batches;
      ++n;
    }
  }
}

const std::vector<Unit>& StageBuilder::units_of(int chunk, int micro_batch) const {
  const bool whole = !keeps_whole_.empty() && keeps_whole_[chunk][micro_batch];
  return whole ? whole_[chunk] : units_[chunk];
}

// Bytes beside the input while a unit's forward pass runs of which nothing is kept.
std::int64_t StageBuilder::while_sweeping(const Unit& unit) const {
  return unit.passes->memory.unkept.bytes;
}

// What single operators that run again make for the backward pass.
void StageBuilder::make_again(const Unit& unit, Kept& kept) {
  // The others are temporaries of the backward pass.
  kept.remade_inputs =
      allocate_for_unit(splits_ ? unit.passes->remade_inputs : 0, MemoryCategory::activations,
                        context_.passes.labels->id("recomputed activations"));
  recomputed_flops_ += unit.passes->redone_flops;
}

// Forward passes that run again before the backward pass of `unit`.
void StageBuilder::recompute(int chunk, const Unit& unit, int micro_batch) {
  const auto& units = units_of(chunk, micro_batch);
  const std::uint32_t label = context_.passes.labels->id("recomputed activations");
  for (const Again& again : unit.again) {
    const Unit& v = units[again.unit];
    Kept& kept = kept_[chunk][again.unit][micro_batch];
    const bool holds_input = kept.activations != kNone || kept.moved != kNone;
    std::uint32_t passing = kNone;
    if (again.keeps == Keep::keep_all) {
      const UnitMemory& memory = v.passes->memory;
      if (splits_) {
        kept.inputs =
            allocate_for_unit(memory.weight_inputs, MemoryCategory::activations, label, false);
      }
      const TensorList& made = holds_input ? (splits_ ? memory.kept_again : memory.saved_again)
                                           : (splits_ ? memory.kept : memory.saved);
      kept.recomputed = allocate_for_unit(made, MemoryCategory::activations, label, false);
      passing = allocate_for_unit(memory.forward, MemoryCategory::activations,
                                  context_.passes.labels->id("forward temporaries"), true);
    } else {
      if (again.keeps == Keep::keep_input && !holds_input) {
        kept.activations = allocate_for_unit(v.passes->input, MemoryCategory::activations,
                                             context_.passes.labels->id("activations"));
      }
      passing = allocate_for_unit(v.passes->memory.unkept, MemoryCategory::activations,
                                  context_.passes.labels->id("forward temporaries"), true);
    }
    recomputed_flops_ += v.passes->flops;
    replay(v.passes->recompute);
    b_.release(passing);
  }
}

}  // namespace stepcast::lower
