// Passes of a chunk: forward, backward, and the two halves of a split backward pass. I makes the
// gradient of the chunk's input, W that of its weights; what the products of W read stays until W,
// everything else is released behind I.
#include "slots.h"

#include "feature_list.h"

namespace stepcast::lower {

using program::BufferIndex;
using program::kNone;
using program::MemoryCategory;
using schedule::Pass;
using schedule::Slot;

void before_forward(Stage& stage, int chunk, std::size_t unit) {
  if (unit == 0) {
    ++stage.passes.turns[static_cast<std::size_t>(chunk)].forwards_begun;
  }
  each<&Feature::before_forward>(stage, chunk, unit);
}

void end_of_backward(Stage& stage, int chunk) {
  each<&Feature::end_of_backward>(stage, chunk);
  ++stage.passes.turns[static_cast<std::size_t>(chunk)].backwards_ended;
  each<&Feature::backward_ended>(stage, chunk);
}

namespace {

// In the first pass through a layer of the first step.
void first_time(Stage& stage, const Run& run, BufferIndex buffer, const TensorList& list) {
  if (run.slot.micro_batch == 0 && !list.first_time.empty()) {
    stage.builder.in_first_step(buffer, list.first_time.front());
  }
}

// A pass's first unit is handed nothing by another unit, its last hands nothing on; beside another
// pass, tensors of both would be taken for each other's.
void end_of_chain(Stage& stage, const Run& run, BufferIndex buffer) {
  if (buffer == kNone) {
    return;
  }
  const std::size_t count = units_of(stage, run.slot.chunk, run.slot.micro_batch).size();
  program::Buffer& b = stage.builder.program.buffers[buffer];
  if (run.units == 1 || run.side_by_side) {
    b.taken = program::Buffer::kNoTensor;
  }
  if ((run.units == count && stage.plan.grid.pipeline == 1) || run.side_by_side) {
    b.handed = program::Buffer::kNoTensor;
  }
  if (b.first_step != kNone) {
    program::FirstStepBuffer& first = stage.builder.program.first_steps[b.first_step];
    first.taken = b.taken == program::Buffer::kNoTensor ? b.taken : first.taken;
    first.handed = b.handed == program::Buffer::kNoTensor ? b.handed : first.handed;
  }
}

void open_forward(Stage& stage, Run& run) {
  const int chunk = run.slot.chunk;
  const int micro_batch = run.slot.micro_batch;
  const Unit& unit = units_of(stage, chunk, micro_batch)[run.unit];
  const program::LabelIndex label = label_of(stage, "activations");
  before_forward(stage, chunk, run.unit);
  Kept& kept = stage.passes.kept[chunk][run.unit][micro_batch];
  const UnitMemory& memory = unit.passes->memory;
  if (kept.moved_bytes > 0) {
    const std::int64_t inputs = unit.recomputed ? 0 : weight_inputs(stage, unit);
    kept.activations = allocate_for_unit(stage, kept_bytes(unit) - inputs - kept.moved_bytes,
                                         MemoryCategory::activations, label);
    kept.moved = allocate_for_unit(stage, kept.moved_bytes, MemoryCategory::activations, label);
    kept.inputs = allocate_for_unit(stage, inputs - kept.moved_input_bytes,
                                    MemoryCategory::activations, label);
    kept.moved_inputs =
        allocate_for_unit(stage, kept.moved_input_bytes, MemoryCategory::activations, label);
  } else if (unit.recomputed) {
    // torch's checkpoint holds its input no longer than what it made again (2.15,
    // utils/checkpoint.py:1848, _checkpoint_without_reentrant_generator).
    const bool alone = kept_bytes(unit) == memory.input.bytes;
    if (alone && stage.plan.recompute.frees_input) {
      kept.activations =
          allocate_for_unit(stage, memory.input, MemoryCategory::activations, label, false);
    } else {
      kept.activations =
          allocate_for_unit(stage, kept_bytes(unit), MemoryCategory::activations, label);
      if (alone && kept.activations != kNone) {
        stage.builder.program.buffers[kept.activations].taken = 0;
      }
    }
  } else if (stage.passes.splits || defers(stage, chunk, run.unit, micro_batch)) {
    kept.activations =
        allocate_for_unit(stage, memory.kept, MemoryCategory::activations, label, false);
    first_time(stage, run, kept.activations, memory.kept);
    kept.inputs =
        allocate_for_unit(stage, memory.weight_inputs, MemoryCategory::activations, label, false);
    first_time(stage, run, kept.inputs, memory.weight_inputs);
  } else {
    kept.activations =
        allocate_for_unit(stage, memory.saved, MemoryCategory::activations, label, false);
    first_time(stage, run, kept.activations, memory.saved);
  }
  const TensorList& temporaries = unit.recomputed ? memory.unkept : memory.forward;
  run.temporary = allocate_for_unit(stage, temporaries, MemoryCategory::activations,
                                    label_of(stage, "forward temporaries"), true);
  first_time(stage, run, run.temporary, temporaries);
  end_of_chain(stage, run, kept.activations);
  end_of_chain(stage, run, kept.inputs);
  end_of_chain(stage, run, run.temporary);
  run.items = &unit.passes->forward;
}

void open_backward(Stage& stage, Run& run) {
  const int chunk = run.slot.chunk;
  const std::size_t u = run.unit;
  const Unit& unit = units_of(stage, chunk, run.slot.micro_batch)[u];
  const bool split =
      run.slot.pass == Pass::input_grad || defers(stage, chunk, u, run.slot.micro_batch);
  each<&Feature::before_backward>(stage, chunk, u);
  each<&Feature::run_again>(stage, run);
  if (split) {
    const TensorList& gradients = unit.passes->memory.output_gradients;
    BufferIndex& made = stage.passes.kept[chunk][u][run.slot.micro_batch].gradients;
    made = allocate_for_unit(stage, gradients, MemoryCategory::activations,
                             label_of(stage, "output gradients"), false);
    first_time(stage, run, made, gradients);
  }
  if (run.slot.pass != Pass::input_grad) {
    each<&Feature::before_weight_gradients>(stage, chunk, u);
  }
  const UnitMemory& memory = unit.passes->memory;
  const TensorList& whole = unit.again.empty() ? memory.backward : memory.again.backward;
  const TensorList& temporaries = split ? memory.input_grad : whole;
  run.temporary = allocate_for_unit(stage, temporaries, MemoryCategory::activations,
                                    label_of(stage, "backward temporaries"), true);
  first_time(stage, run, run.temporary, temporaries);
  end_of_chain(stage, run, run.temporary);
  run.items = split ? &unit.passes->input_grad : &unit.passes->backward;
}

// Opens the run's next unit: what precedes its kernels. False: there is none left.
bool next_unit(Stage& stage, Run& run) {
  const int chunk = run.slot.chunk;
  const auto& units = units_of(stage, chunk, run.slot.micro_batch);
  if (run.units == units.size()) {
    return false;
  }
  stage.builder.set_micro_batch(run.slot.micro_batch, chunk);
  const bool is_forward = run.slot.pass == Pass::forward;
  run.unit = is_forward ? run.units : units.size() - 1 - run.units;
  ++run.units;
  run.next = 0;
  each<&Feature::before_unit>(stage, run);
  switch (run.slot.pass) {
    case Pass::forward:
      open_forward(stage, run);
      break;
    case Pass::weight_grad:
      each<&Feature::before_weight_gradients>(stage, chunk, run.unit);
      run.items = &units[run.unit].passes->weight_grad;
      run.temporary = stage.builder.allocate(units[run.unit].passes->memory.weight_grad,
                                             MemoryCategory::activations,
                                             label_of(stage, "weight gradients"), true);
      first_time(stage, run, run.temporary, units[run.unit].passes->memory.weight_grad);
      break;
    default:
      open_backward(stage, run);
      break;
  }
  return true;
}

void end_unit(Stage& stage, Run& run) {
  const int chunk = run.slot.chunk;
  stage.builder.release(run.temporary);
  run.temporary = kNone;
  if (run.slot.pass == Pass::forward) {
    each<&Feature::after_forward>(stage, chunk, run.unit);
    each<&Feature::after_unit>(stage, run);
    return;
  }
  Kept& kept = stage.passes.kept[chunk][run.unit][run.slot.micro_batch];
  if (run.slot.pass != Pass::weight_grad) {
    stage.builder.release(kept.activations);
    stage.builder.release(kept.moved, kept.moved_users);
    stage.builder.release(kept.recomputed);
    stage.builder.release(kept.result);
  }
  if (run.slot.pass != Pass::input_grad) {
    if (!defers(stage, chunk, run.unit, run.slot.micro_batch)) {
      stage.builder.release(kept.inputs);
      stage.builder.release(kept.moved_inputs, kept.moved_users);
      stage.builder.release(kept.gradients);
      stage.builder.release(kept.remade_inputs);
      kept = {};
    }
    each<&Feature::after_backward>(stage, chunk, run.unit);
  }
  each<&Feature::after_unit>(stage, run);
}

void end_of_pass(Stage& stage, const Run& run) {
  if (run.slot.pass == Pass::weight_grad || run.slot.pass == Pass::backward) {
    end_of_backward(stage, run.slot.chunk);
  }
}

// Runs on to the next collective that the pass has to wait for. False: the pass is over.
bool advance(Stage& stage, Run& run) {
  stage.builder.set_micro_batch(run.slot.micro_batch, run.slot.chunk);
  if (run.awaits.position > 0) {
    stage.builder.wait(stage.streams.compute, run.awaits);
    run.awaits = {};
  }
  for (;;) {
    if (run.items == nullptr) {
      if (!next_unit(stage, run)) {
        end_of_pass(stage, run);
        return false;
      }
    }
    pace(stage, *run.items);
    while (run.next < run.items->size()) {
      Item item = (*run.items)[run.next++];
      if (item.kind == Item::Kind::collective) {
        item.kind = Item::Kind::async;
        issue(stage, item);
        run.awaits = stage.builder.mark(stream_of(stage, item.role));
        return true;
      }
      if (item.kind == Item::Kind::join) {
        stage.builder.wait(stage.streams.compute, run.posted);
        continue;
      }
      issue(stage, item);
      if (item.kind != Item::Kind::kernel && item.kind != Item::Kind::sync &&
          item.kind != Item::Kind::host && item.kind != Item::Kind::model) {
        run.posted = stage.builder.mark(stream_of(stage, item.role));
      }
    }
    run.items = nullptr;
    end_unit(stage, run);
  }
}

}  // namespace

void run_slot(Stage& stage, const Slot& slot) {
  Run run{slot};
  if (stage.plan.host.waits_each_micro_batch && slot.pass == Pass::forward) {
    stage.builder.host_sync(stage.builder.mark(stage.streams.compute));
  }
  if (slot.pass != Pass::weight_grad) {  // which has no messages, and runs from a list of products
    stage.builder.host_work(stage.plan.host.pass_overhead);
  }
  while (next_unit(stage, run)) {
    replay(stage, *run.items);
    end_unit(stage, run);
  }
  end_of_pass(stage, run);
}

// Both passes share the compute stream. Where one meets a collective that it has to wait for, the
// collective goes to its own stream and the other pass goes on: DualPipe's overlapped pair,
// Megatron-LM's --overlap-moe-expert-parallel-comm. The backward pass sends first, so that each
// message has the other pass's block behind it: gradients to the experts beside the forward's
// attention, tokens beside the backward's experts, gradients back beside the forward's experts,
// results back beside the backward's attention (profile of DeepSeek-V3's training,
// deepseek-ai/profile-data; Megatron-LM core 0.16.0,
// models/common/model_chunk_schedule_plan.py:191, TransformerLayerSchedulePlan.run).
void run_pair(Stage& stage, const Slot& first, const Slot& second) {
  if (!stage.plan.stage_transport
           .pairs_side_by_side) {  // PyTorch's OVERLAP_F_B: one after the other
    run_slot(stage, first);
    run_slot(stage, second);
    return;
  }
  const bool forward_first = first.pass == Pass::forward && second.pass != Pass::forward;
  Run one{forward_first ? second : first};
  Run other{forward_first ? first : second};
  one.side_by_side = other.side_by_side = true;
  for (bool more = true, left = true; more || left;) {
    more = more && advance(stage, one);
    left = left && advance(stage, other);
  }
}

}  // namespace stepcast::lower
