// Sends and receives block the compute stream. Where the pass changes (forward to backward and
// back) both are posted together, as send_forward_recv_backward does; that is what keeps the steady
// phase free of deadlock. Orders of posting follow Megatron-LM's pipeline_parallel/schedules.py.
#include "features.h"
#include "pipeline.h"

namespace stepcast::lower {

using schedule::Pass;

namespace {

class BlockingMessages final : public Feature {
 public:
  void before_step(Stage& stage) override;
  void after_pass(Stage& stage, std::size_t slot) override;
};

void BlockingMessages::before_step(Stage& stage) {
  const auto& slots = stage.plan.order.ranks[static_cast<std::size_t>(stage.number)];
  if (transport_of(stage.plan) == Transport::blocking && !slots.empty()) {
    exchange(stage, {receive_of(stage, slots.front())});
  }
}

void BlockingMessages::after_pass(Stage& stage, std::size_t slot) {
  if (transport_of(stage.plan) != Transport::blocking) {
    return;
  }
  const auto& slots = stage.plan.order.ranks[static_cast<std::size_t>(stage.number)];
  const Message send = send_of(stage, slots[slot]);
  if (slot + 1 == slots.size()) {
    exchange(stage, {send});
    return;
  }
  const Message receive = receive_of(stage, slots[slot + 1]);
  const bool turns = (slots[slot].pass == Pass::forward) != (slots[slot + 1].pass == Pass::forward);
  if (turns && stage.plan.stage_transport.batched) {
    exchange(stage, {send, receive});
  } else if (turns &&
             stage.number % 2 ==
                 1) {  // one at a time: odd stages receive first, or all would wait to send
    exchange(stage, {receive});
    exchange(stage, {send});
  } else {
    exchange(stage, {send});
    exchange(stage, {receive});
  }
}

}  // namespace

std::unique_ptr<Feature> make_blocking_messages() { return std::make_unique<BlockingMessages>(); }

}  // namespace stepcast::lower
