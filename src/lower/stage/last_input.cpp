// A Megatron-LM chunk keeps the last tensor that it received (TransformerBlock.set_input_tensor)
// and, through it, that tensor's gradient (backward_step retains it), until it receives the next
// one: in the next step, or where stages have several chunks, in a later group of micro-batches.
//
// Of stages with one chunk, both stand through the next forward pass as well: the loop's name for
// the result (output_tensor) is bound to the next one only then, and the graph of the one before
// holds its input (megatron-core 0.16.1, pipeline_parallel/schedules.py:1972,
// forward_backward_pipelining_without_interleaving).
#include "../pipeline/pipeline.h"
#include "feature_list.h"

namespace stepcast::lower {

using program::kNone;
using program::MemoryCategory;

namespace {

class LastInput final : public Feature {
 public:
  void make_states(Stage& stage) override;
  void before_unit(Stage& stage, const Run& run) override;
  void backward_ended(Stage& stage, int chunk) override;
  void after_pass(Stage& stage, std::size_t slot) override;

 private:
  void give_up(Stage& stage, std::size_t chunk) {
    stage.builder.release(within_[chunk]);
    within_[chunk] = kNone;
  }

  std::vector<program::BufferIndex> buffers_;  // by chunk: from one step to the next
  std::vector<program::BufferIndex> within_;   // likewise, within a step
};

bool through_forward(const Stage& stage) {
  return stage.units.size() == 1 && transport_of(stage.plan) == Transport::blocking &&
         !stage.passes.splits;
}

void LastInput::make_states(Stage& stage) {
  buffers_.assign(stage.units.size(), kNone);
  within_.assign(stage.units.size(), kNone);
  for (std::size_t c = 0; c < stage.units.size(); ++c) {
    const bool receives =
        c < stage.plan.stages[stage.number].size() && stage.plan.stages[stage.number][c].stage > 0;
    if (stage.plan.stage_transport.keeps_last_received && stage.plan.grid.pipeline > 1 &&
        receives) {
      const std::int64_t tensor_ranks =
          stage.plan.stage_transport.scatter_gather && !stage.plan.shard.sequence_parallel
              ? stage.plan.shard.tensor
              : 1;
      const double bytes = static_cast<double>(message_bytes(stage.plan) * tensor_ranks);
      buffers_[c] = stage.builder.declare(2 * whole_blocks(bytes), MemoryCategory::activations,
                                          label_of(stage, "last input and its gradient"));
    }
  }
}

// A forward pass has received the next one.
void LastInput::before_unit(Stage& stage, const Run& run) {
  const auto chunk = static_cast<std::size_t>(run.slot.chunk);
  if (run.slot.pass != schedule::Pass::forward || run.unit > 0) {
    return;
  }
  if (stage.passes.turns[chunk].forwards_begun == 0) {
    stage.builder.release(buffers_[chunk]);
  }
  if (!through_forward(stage)) {
    give_up(stage, chunk);
  }
}

void LastInput::after_pass(Stage& stage, std::size_t slot) {
  const schedule::Slot& s = slots_of(stage)[slot];
  if (s.pass == schedule::Pass::forward) {
    give_up(stage, static_cast<std::size_t>(s.chunk));
  }
}

void LastInput::backward_ended(Stage& stage, int chunk) {
  const auto c = static_cast<std::size_t>(chunk);
  const Turns& turns = stage.passes.turns[c];
  give_up(stage, c);
  if (turns.backwards_ended == turns.backwards) {
    stage.builder.allocate(buffers_[c]);
  } else if (buffers_[c] != kNone &&
             (through_forward(stage) || turns.forwards_begun == turns.backwards_ended)) {
    const program::Buffer& whole = stage.builder.program.buffers[buffers_[c]];
    within_[c] = stage.builder.allocate(whole.bytes.count(), MemoryCategory::activations,
                                        label_of(stage, "last input and its gradient"));
  }
}

}  // namespace

std::unique_ptr<Feature> make_last_input() { return std::make_unique<LastInput>(); }

}  // namespace stepcast::lower
