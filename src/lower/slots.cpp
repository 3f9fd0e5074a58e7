// Passes of a chunk: forward, backward, and the two halves of a split backward pass. I makes the
// gradient of the chunk's input, W that of its weights; what the products of W read stays until W,
// everything else is released behind I.
#include <algorithm>

#include "stage_builder.h"

namespace stepcast::lower {

using program::Category;
using program::kNone;
using program::MemoryCategory;
using schedule::Pass;
using schedule::Slot;

void StageBuilder::count_passes() {
  const auto& slots = plan_.order.ranks[stage_];
  turns_.assign(units_.size(), {});
  for (const Slot& slot : slots) {
    Turns& t = turns_[slot.chunk];
    const bool weights = slot.pass == Pass::weight_grad || slot.pass == Pass::backward;
    t.weights += weights ? 1 : 0;
    splits_ = splits_ || slot.pass == Pass::input_grad;
  }
}

int StageBuilder::last_is(int done, int all) const {
  return done + 1 == all ? plan_.micro_batches - 1 : done;
}

void StageBuilder::run_slot(const Slot& slot) {
  Run run{slot};
  if (job_.system.sync_micro_batch && slot.pass == Pass::forward) {
    b_.host_sync(b_.mark(compute_));
  }
  while (next_unit(run)) {
    replay(*run.items);
    end_unit(run);
  }
  end_of_pass(run);
}

// Opens the run's next unit: what precedes its kernels. False: there is none left.
bool StageBuilder::next_unit(Run& run) {
  const int chunk = run.slot.chunk;
  const auto& units = units_of(chunk, run.slot.micro_batch);
  if (run.units == units.size()) {
    return false;
  }
  b_.set_micro_batch(run.slot.micro_batch, chunk);
  const bool is_forward = run.slot.pass == Pass::forward;
  run.unit = is_forward ? run.units : units.size() - 1 - run.units;
  ++run.units;
  run.next = 0;
  activations_before(run);
  switch (run.slot.pass) {
    case Pass::forward:
      open_forward(run);
      break;
    case Pass::weight_grad:
      make_fresh_gradients(run.slot.chunk, run.unit);
      run.items = &units[run.unit].passes->weight_grad;
      run.temporary =
          b_.allocate(units[run.unit].passes->memory.weight_grad, MemoryCategory::activations,
                      context_.passes.labels->id("weight gradients"), true);
      break;
    default:
      open_backward(run);
      break;
  }
  return true;
}

void StageBuilder::open_forward(Run& run) {
  const int chunk = run.slot.chunk;
  const int micro_batch = run.slot.micro_batch;
  const Unit& unit = units_of(chunk, micro_batch)[run.unit];
  const std::uint32_t label = context_.passes.labels->id("activations");
  if (run.unit == 0 && turns_[chunk].forward == 0) {
    b_.release(kept_inputs_[chunk]);
  }
  before_forward(chunk, run.unit, turns_[chunk].forward);
  Kept& kept = kept_[chunk][run.unit][micro_batch];
  const UnitMemory& memory = unit.passes->memory;
  if (const Journey* moves = journey(chunk, run.unit, micro_batch)) {
    const std::int64_t inputs = unit.recomputed ? 0 : weight_inputs(unit);
    kept.activations = allocate_for_unit(kept_bytes(unit) - inputs - moves->bytes,
                                         MemoryCategory::activations, label);
    kept.moved = allocate_for_unit(moves->bytes, MemoryCategory::activations, label);
    kept.inputs = allocate_for_unit(inputs - moves->inputs, MemoryCategory::activations, label);
    kept.moved_inputs = allocate_for_unit(moves->inputs, MemoryCategory::activations, label);
  } else if (unit.recomputed) {
    kept.activations = allocate_for_unit(kept_bytes(unit), MemoryCategory::activations, label);
  } else if (splits_) {
    kept.activations = allocate_for_unit(memory.kept, MemoryCategory::activations, label, false);
    kept.inputs =
        allocate_for_unit(memory.weight_inputs, MemoryCategory::activations, label, false);
  } else {
    kept.activations = allocate_for_unit(memory.saved, MemoryCategory::activations, label, false);
  }
  run.temporary = allocate_for_unit(unit.recomputed ? memory.unkept : memory.forward,
                                    MemoryCategory::activations,
                                    context_.passes.labels->id("forward temporaries"), true);
  run.items = &unit.passes->forward;
}

void StageBuilder::open_backward(Run& run) {
  const int chunk = run.slot.chunk;
  const std::size_t u = run.unit;
  const Unit& unit = units_of(chunk, run.slot.micro_batch)[u];
  const bool split = run.slot.pass == Pass::input_grad;
  before_backward(chunk, u);
  if (!split) {
    make_fresh_gradients(chunk, u);
  }
  if (!unit.again.empty()) {
    recompute(chunk, unit, run.slot.micro_batch);
    before_second_use(chunk, u);
  }
  make_again(unit, kept_[chunk][u][run.slot.micro_batch]);
  if (split) {
    kept_[chunk][u][run.slot.micro_batch].gradients =
        allocate_for_unit(unit.passes->memory.output_gradients, MemoryCategory::activations,
                          context_.passes.labels->id("output gradients"), false);
  }
  run.temporary = allocate_for_unit(
      split ? unit.passes->memory.input_grad : unit.passes->memory.backward,
      MemoryCategory::activations, context_.passes.labels->id("backward temporaries"), true);
  run.items = split ? &unit.passes->input_grad : &unit.passes->backward;
}

void StageBuilder::end_unit(Run& run) {
  const int chunk = run.slot.chunk;
  b_.release(run.temporary);
  run.temporary = kNone;
  if (run.slot.pass == Pass::forward) {
    after_forward(chunk, run.unit);
    activations_after(run);
    return;
  }
  Kept& kept = kept_[chunk][run.unit][run.slot.micro_batch];
  if (run.slot.pass != Pass::weight_grad) {
    b_.release(kept.activations);
    b_.release(kept.moved, users_of_moved(run));
    b_.release(kept.recomputed);
  }
  if (run.slot.pass != Pass::input_grad) {
    b_.release(kept.inputs);
    b_.release(kept.moved_inputs, users_of_moved(run));
    b_.release(kept.gradients);
    b_.release(kept.remade_inputs);
    kept = {};
    const Turns& t = turns_[chunk];
    after_backward(chunk, run.unit, last_is(t.weights_done, t.weights));
  }
  activations_after(run);
}

void StageBuilder::end_of_pass(Run& run) {
  const int chunk = run.slot.chunk;
  Turns& t = turns_[chunk];
  if (run.slot.pass == Pass::forward) {
    ++t.forward;
  } else if (run.slot.pass != Pass::input_grad) {
    end_of_backward(chunk, last_is(t.weights_done, t.weights));
    if (++t.weights_done == t.weights) {
      b_.allocate(kept_inputs_[chunk]);
    }
  }
}

// ---------------------------------------------------------------- two passes side by side
// Both passes share the compute stream. Where one meets a collective that it has to wait for, the
// collective goes to its own stream and the other pass goes on: DualPipe's overlapped pair,
// Megatron-LM's --overlap-moe-expert-parallel-comm.
bool StageBuilder::advance(Run& run) {
  b_.set_micro_batch(run.slot.micro_batch, run.slot.chunk);
  if (run.awaits.position > 0) {
    b_.wait(compute_, run.awaits);
    run.awaits = {};
  }
  for (;;) {
    if (run.items == nullptr) {
      if (!next_unit(run)) {
        end_of_pass(run);
        return false;
      }
    }
    pace(*run.items);
    while (run.next < run.items->size()) {
      Item item = (*run.items)[run.next++];
      if (item.kind == Item::Kind::collective) {
        item.kind = Item::Kind::async;
        issue(item);
        run.awaits = b_.mark(stream_of(item.role));
        return true;
      }
      if (item.kind == Item::Kind::join) {
        b_.wait(compute_, run.posted);
        continue;
      }
      issue(item);
      if (item.kind != Item::Kind::kernel && item.kind != Item::Kind::sync &&
          item.kind != Item::Kind::host) {
        run.posted = b_.mark(stream_of(item.role));
      }
    }
    run.items = nullptr;
    end_unit(run);
  }
}

}  // namespace stepcast::lower
