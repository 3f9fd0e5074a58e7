// Interleaved with overlap: sends leave beside compute, and the receive for the next pass of a
// direction is posted behind the current one's compute (send_forward_recv_forward and
// send_backward_recv_backward with overlap), each direction on its own stream. A posted receive
// holds SMs, so it must not be posted earlier than Megatron-LM does.
//
// Their tensors stand between the passes (megatron-core 0.16.1, pipeline_parallel/schedules.py, the
// steady state): what a receive fills from its posting on (fwd_recv_buffer); a chunk's result until
// the next forward pass gives it up (pp_pre_forward: deallocate_output_tensor); the gradient of a
// chunk's input until the name is bound to the next one (input_tensor_grad).
#include "../stage/feature_list.h"
#include "pipeline.h"

namespace stepcast::lower {

using schedule::Pass;
using schedule::Slot;

namespace {

class OverlappedMessages final : public Feature {
 public:
  void make_streams(Stage& stage) override {
    if (stage.plan.interleaved && stage.plan.stage_transport.overlaps) {
      forward_.send = stage.builder.stream("send forward");
      forward_.receive = stage.builder.stream("receive forward");
      backward_.send = stage.builder.stream("send backward");
      backward_.receive = stage.builder.stream("receive backward");
    }
  }

  void before_step(Stage& stage) override {
    if (!applies(stage)) {
      return;
    }
    const auto& slots = slots_of(stage);
    received_.assign(slots.size(), {});
    filled_.assign(slots.size(), program::kNone);
    first_backward_ = next_of(stage, 0, false);
    receive(stage, 0);
  }

  void before_pass(Stage& stage, std::size_t slot) override {
    if (!applies(stage)) {
      return;
    }
    // The first backward's gradient is asked for behind the last warm-up forward.
    if (slot + 1 == first_backward_ && slot > 0) {
      receive(stage, first_backward_);
    }
    if (received_[slot].position > 0) {
      await_received(stage, received_[slot]);
    }
    give_up(stage, filled_[slot]);  // the pass has it as its input, or as its result's gradient
    if (slots_of(stage)[slot].pass == Pass::forward) {
      give_up(stage, result_);
    }
  }

  void after_pass(Stage& stage, std::size_t slot) override {
    if (!applies(stage)) {
      return;
    }
    const Slot& s = slots_of(stage)[slot];
    const Message send = send_of(stage, s);
    const bool forward = s.pass == Pass::forward;
    if (!forward) {
      give_up(stage, gradient_);
    }
    if (send.needed) {
      (forward ? result_ : gradient_) =
          message_tensor(stage, forward ? "sent result" : "sent gradient");
      stage.builder.program.buffers[forward ? result_ : gradient_].taken = 0;  // the pass's own
      send_beside(stage, streams_of(s).send, send.transfer, s.pass);
    }
    if (slot == 0 && first_backward_ == 1) {
      receive(stage, 1);
    }
    const std::size_t next = next_of(stage, slot + 1, forward);
    receive(stage, next);
    if (!forward && next_of(stage, slot + 1, true) >= slots_of(stage).size()) {
      give_up(stage, result_);  // no forward pass follows that would
    }
  }

  void end_of_step(Stage& stage, StepEnd part) override {
    if (part == StepEnd::reduce && applies(stage)) {
      give_up(stage, result_);
      give_up(stage, gradient_);
    }
  }

 private:
  struct Direction {
    program::StreamIndex send = 0;
    program::StreamIndex receive = 0;
  };

  static bool applies(const Stage& stage) {
    return transport_of(stage.plan) == Transport::overlapped;
  }

  // The first slot of a direction from `slot` on.
  static std::size_t next_of(const Stage& stage, std::size_t slot, bool forward) {
    const auto& slots = slots_of(stage);
    while (slot < slots.size() && (slots[slot].pass == Pass::forward) != forward) {
      ++slot;
    }
    return slot;
  }

  const Direction& streams_of(const Slot& slot) const {
    return slot.pass == Pass::forward ? forward_ : backward_;
  }

  void receive(Stage& stage, std::size_t slot) {
    const Message message = receive_at(stage, slot);
    if (message.needed) {
      const Slot& s = slots_of(stage)[slot];
      filled_[slot] = message_tensor(stage, "received");
      received_[slot] = receive_beside(stage, streams_of(s).receive, message.transfer, s);
    }
  }

  static program::BufferIndex message_tensor(Stage& stage, const char* label) {
    return stage.builder.allocate(message_bytes(stage.plan), program::MemoryCategory::communication,
                                  label_of(stage, label));
  }
  static void give_up(Stage& stage, program::BufferIndex& buffer) {
    stage.builder.release(buffer);
    buffer = program::kNone;
  }

  Direction forward_;
  Direction backward_;
  std::vector<Mark> received_;                // posted receives, by slot
  std::vector<program::BufferIndex> filled_;  // what they fill
  program::BufferIndex result_ = program::kNone, gradient_ = program::kNone;  // that are being sent
  std::size_t first_backward_ = 0;                                            // slot
};

}  // namespace

std::unique_ptr<Feature> make_overlapped_messages() {
  return std::make_unique<OverlappedMessages>();
}

}  // namespace stepcast::lower
