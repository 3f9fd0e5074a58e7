// Sends and receives block the compute stream. Where the pass changes (forward to backward and
// back) both are posted together, as send_forward_recv_backward does; that is what keeps the steady
// phase free of deadlock. Orders of posting follow Megatron-LM's pipeline_parallel/schedules.py.
#include <algorithm>

#include "../stage/feature_list.h"
#include "pipeline.h"

namespace stepcast::lower {

using schedule::Pass;

namespace {

bool is_forward(const schedule::Slot& slot) { return slot.pass == Pass::forward; }

// Whether the next rank cannot return the gradient that this rank wants first until it has this
// rank's last activation: where fewer micro-batches run than stages follow. DeepSpeed sends an
// activation in the step behind its forward pass and receives a gradient in the step of its
// backward pass (0.18.2 runtime/pipe/schedule.py:189, TrainSchedule.steps); such a rank has idle
// steps between.
bool awaited_by_next(const Stage& stage, std::size_t slot) {
  const auto& slots = slots_of(stage);
  const auto turn = slots.begin() + static_cast<std::ptrdiff_t>(slot);
  const auto next = static_cast<std::size_t>(stage.number) + 1;
  if (next >= stage.plan.order.ranks.size() || !std::all_of(slots.begin(), turn + 1, is_forward)) {
    return false;
  }
  for (const schedule::Slot& other : stage.plan.order.ranks[next]) {
    if (is_forward(other) && other.micro_batch == turn->micro_batch) {
      return true;
    }
    if (!is_forward(other) && other.micro_batch == (turn + 1)->micro_batch) {
      return false;
    }
  }
  return false;
}

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
    const bool turns =
        slot + 1 < slots.size() && is_forward(slots[slot]) != is_forward(slots[slot + 1]);
    const strategy::StageTransport& transport = stage.plan.stage_transport;
    // One at a time, some have to receive first, or all would wait to send: odd stages, or those
    // behind a backward pass, whose neighbours are behind a forward pass (nanotron 0.4,
    // pipeline_parallel/state.py:124, run_communication).
    const bool receives_first =
        transport.follows_pass ? !is_forward(slots[slot])
                               : stage.number % 2 == 1 && !(turns && awaited_by_next(stage, slot));
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
