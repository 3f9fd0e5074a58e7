// Sends and receives block the compute stream. Where the pass changes (forward to backward and
// back) both are posted together, as send_forward_recv_backward does; that is what keeps the steady
// phase free of deadlock. Orders of posting follow Megatron-LM's pipeline_parallel/schedules.py.
#include "feature_list.h"
#include "pipeline.h"

namespace stepcast::lower {

using schedule::Pass;

namespace {

class BlockingMessages final : public Feature {
 public:
  void before_step(Stage& stage) override {
    if (transport_of(stage.plan) == Transport::blocking) {
      exchange(stage, {receive_at(stage, 0)});
    }
  }

  void after_pass(Stage& stage, std::size_t slot) override {
    if (transport_of(stage.plan) != Transport::blocking) {
      return;
    }
    const auto& slots = slots_of(stage);
    const Message send = send_of(stage, slots[slot]);
    const Message receive = receive_at(stage, slot + 1);
    const bool turns = slot + 1 < slots.size() && (slots[slot].pass == Pass::forward) !=
                                                      (slots[slot + 1].pass == Pass::forward);
    const strategy::StageTransport& transport = stage.plan.stage_transport;
    // One at a time, some have to receive first, or all would wait to send: odd stages, or those
    // behind a backward pass, whose neighbours are behind a forward pass (nanotron 0.4,
    // pipeline_parallel/state.py:124, run_communication).
    const bool receives_first = transport.follows_pass ? slots[slot].pass != Pass::forward
                                                       : stage.number % 2 == 1;
    if (turns && transport.batched) {
      exchange(stage, {send, receive});
    } else if (turns && receives_first) {
      exchange(stage, {receive});
      exchange(stage, {send});
    } else {
      exchange(stage, {send});
      exchange(stage, {receive});
    }
  }
};

}  // namespace

std::unique_ptr<Feature> make_blocking_messages() { return std::make_unique<BlockingMessages>(); }

}  // namespace stepcast::lower
