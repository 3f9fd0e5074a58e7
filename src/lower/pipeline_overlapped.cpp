// Interleaved with overlap: sends leave beside compute, and the receive for the next pass of a
// direction is posted behind the current one's compute (send_forward_recv_forward and
// send_backward_recv_backward with overlap), each direction on its own stream. A posted receive
// holds its SMs, so that it is not posted earlier than Megatron does matters.
#include <algorithm>

#include "features.h"
#include "pipeline.h"

namespace stepcast::lower {

using schedule::Pass;
using schedule::Slot;

namespace {

class OverlappedMessages final : public Feature {
 public:
  void make_streams(Stage& stage) override;
  void before_step(Stage& stage) override;
  void before_pass(Stage& stage, std::size_t slot) override;
  void after_pass(Stage& stage, std::size_t slot) override;

 private:
  void post(Stage& stage, program::StreamIndex stream, const Message& message, const char* label);
  void receive(Stage& stage, std::size_t slot);

  program::StreamIndex send_forward_ = 0;
  program::StreamIndex receive_forward_ = 0;
  program::StreamIndex send_backward_ = 0;
  program::StreamIndex receive_backward_ = 0;
  std::vector<Mark> received_;      // posted receives, by slot
  std::size_t first_backward_ = 0;  // slot
};

bool applies(const Stage& stage) { return transport_of(stage.plan) == Transport::overlapped; }

void OverlappedMessages::make_streams(Stage& stage) {
  if (stage.plan.interleaved && stage.plan.stage_transport.overlaps) {
    send_forward_ = stage.builder.stream("send forward");
    receive_forward_ = stage.builder.stream("receive forward");
    send_backward_ = stage.builder.stream("send backward");
    receive_backward_ = stage.builder.stream("receive backward");
  }
}

void OverlappedMessages::post(Stage& stage, program::StreamIndex stream, const Message& message,
                              const char* label) {
  stage.builder.exchange(stream, {message.transfer}, label_of(stage, label), stage.host.launch);
}

void OverlappedMessages::receive(Stage& stage, std::size_t slot) {
  const Slot& s = stage.plan.order.ranks[static_cast<std::size_t>(stage.number)][slot];
  const Message message = receive_of(stage, s);
  if (!message.needed) {
    return;
  }
  const bool is_forward = s.pass == Pass::forward;
  const auto stream = is_forward ? receive_forward_ : receive_backward_;
  stage.builder.set_micro_batch(s.micro_batch, s.chunk);
  follow_compute(stage, stream);
  post(stage, stream, message, is_forward ? "receive forward" : "receive backward");
  received_[slot] = stage.builder.mark(stream);
}

void OverlappedMessages::before_step(Stage& stage) {
  if (!applies(stage)) {
    return;
  }
  const auto& slots = stage.plan.order.ranks[static_cast<std::size_t>(stage.number)];
  received_.assign(slots.size(), {});
  const auto backward = std::find_if(slots.begin(), slots.end(),
                                     [](const Slot& s) { return s.pass != Pass::forward; });
  first_backward_ = static_cast<std::size_t>(backward - slots.begin());
  if (!slots.empty()) {
    receive(stage, 0);
  }
}

void OverlappedMessages::before_pass(Stage& stage, std::size_t slot) {
  if (!applies(stage)) {
    return;
  }
  // The first backward's gradient is asked for behind the last warm-up forward.
  if (slot + 1 == first_backward_ && slot > 0) {
    receive(stage, first_backward_);
  }
  if (received_[slot].position > 0) {
    const auto& slots = stage.plan.order.ranks[static_cast<std::size_t>(stage.number)];
    stage.builder.wait(stage.streams.compute, received_[slot]);
    after_receive(stage, {receive_of(stage, slots[slot])});
  }
}

void OverlappedMessages::after_pass(Stage& stage, std::size_t slot) {
  if (!applies(stage)) {
    return;
  }
  const auto& slots = stage.plan.order.ranks[static_cast<std::size_t>(stage.number)];
  const bool is_forward = slots[slot].pass == Pass::forward;
  const Message send = send_of(stage, slots[slot]);
  if (send.needed) {
    const auto stream = is_forward ? send_forward_ : send_backward_;
    stage.builder.wait(stream, stage.builder.mark(stage.streams.compute));
    stage.builder.wait(stream, stage.builder.mark(stage.streams.tensor));
    post(stage, stream, send, is_forward ? "send forward" : "send backward");
  }
  if (slot == 0 && first_backward_ == 1) {
    receive(stage, 1);
  }
  std::size_t next = slot + 1;
  while (next < slots.size() && slots[next].pass != slots[slot].pass) {
    ++next;
  }
  if (next < slots.size()) {
    receive(stage, next);
  }
}

}  // namespace

std::unique_ptr<Feature> make_overlapped_messages() {
  return std::make_unique<OverlappedMessages>();
}

}  // namespace stepcast::lower
