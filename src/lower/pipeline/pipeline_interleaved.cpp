// Interleaved without overlap: after each warm-up forward the send and the next receive go
// together; in the steady phase all four messages go together after each forward-backward pair.
// Orders of posting follow Megatron-LM's pipeline_parallel/schedules.py.
#include <algorithm>

#include "../stage/feature_list.h"
#include "pipeline.h"

namespace stepcast::lower {

using schedule::Pass;
using schedule::Slot;

namespace {

bool is_forward(const Stage& stage, std::size_t slot) {
  const auto& slots = slots_of(stage);
  return slot < slots.size() && slots[slot].pass == Pass::forward;
}

class InterleavedMessages final : public Feature {
 public:
  void before_step(Stage& stage) override {
    if (transport_of(stage.plan) != Transport::interleaved_blocking) {
      return;
    }
    const auto& slots = slots_of(stage);
    forwards_ = static_cast<std::size_t>(std::count_if(
        slots.begin(), slots.end(), [](const Slot& s) { return s.pass == Pass::forward; }));
    const int p = stage.plan.grid.pipeline;
    const int chunks = static_cast<int>(stage.plan.stages[stage.number].size());
    const int group = stage.plan.stage_transport.group;
    const int formula =
        2 * (p - 1 - stage.number) + (chunks - 1) * group + stage.plan.stage_transport.extra_warmup;
    warmup_ = std::min(static_cast<std::size_t>(formula), forwards_);
    exchange(stage, {receive_at(stage, 0)});
    if (warmup_ == 0 && forwards_ > 0) {
      exchange(stage, {receive_at(stage, 1)});
    }
  }

  void after_pass(Stage& stage, std::size_t slot) override {
    if (transport_of(stage.plan) != Transport::interleaved_blocking) {
      return;
    }
    const auto& slots = slots_of(stage);
    const Message send = send_of(stage, slots[slot]);
    if (slot < warmup_) {
      if (slot + 1 < warmup_) {
        exchange(stage, {send, receive_at(stage, slot + 1)});
      } else if (warmup_ == forwards_) {  // no steady phase
        exchange(stage, {send});
        exchange(stage, {receive_at(stage, slot + 1)});
      } else {  // the next forward, and the first backward behind it
        exchange(stage, {send, receive_at(stage, slot + 1), receive_at(stage, slot + 2)});
      }
      return;
    }
    const bool second = (slot - warmup_) % 2 == 1;  // of a pair
    if (!is_forward(stage, second ? slot - 1 : slot)) {
      exchange(stage, {send, receive_at(stage, slot + 1)});
    } else if (second) {
      const bool more = is_forward(stage, slot + 1);
      exchange(stage,
               {send_of(stage, slots[slot - 1]), more ? receive_at(stage, slot + 1) : Message{},
                send, receive_at(stage, more ? slot + 2 : slot + 1)});
    }
  }

 private:
  std::size_t forwards_ = 0;  // of the rank
  std::size_t warmup_ = 0;    // of these, before the steady phase
};

}  // namespace

std::unique_ptr<Feature> make_interleaved_messages() {
  return std::make_unique<InterleavedMessages>();
}

}  // namespace stepcast::lower
