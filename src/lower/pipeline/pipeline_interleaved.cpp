// Interleaved without overlap: messages hold the compute stream up, and are posted together
// (stepcast/lower/exchanges.h).
#include <algorithm>

#include "../stage/feature_list.h"
#include "pipeline.h"
#include "stepcast/lower/exchanges.h"

namespace stepcast::lower {

using schedule::Pass;
using schedule::Slot;

namespace {

// Lists a rank's exchanges in the order in which Megatron-LM posts them.
class Posts {
 public:
  Posts(const strategy::Plan& plan, int rank)
      : slots_(plan.order.ranks[static_cast<std::size_t>(rank)]), rank_(rank) {
    ranks_ = plan.grid.pipeline;
    const int chunks = static_cast<int>(plan.stages[static_cast<std::size_t>(rank)].size());
    last_ = ranks_ * chunks - 1;
    forwards_ = static_cast<std::size_t>(std::count_if(
        slots_.begin(), slots_.end(), [](const Slot& s) { return s.pass == Pass::forward; }));
    const int formula = 2 * (ranks_ - 1 - rank) + (chunks - 1) * plan.stage_transport.group +
                        plan.stage_transport.extra_warmup;
    warmup_ = plan.stage_transport.forwards_first
                  ? forwards_
                  : std::min(static_cast<std::size_t>(formula), forwards_);
  }

  std::vector<Exchange> all() {
    post(0, {receive(0)});
    if (warmup_ == 0 && forwards_ > 0) {
      post(0, {receive(1)});
    }
    for (std::size_t slot = 0; slot < slots_.size(); ++slot) {
      if (slot < warmup_) {
        behind_warmup(slot);
      } else {
        behind_steady(slot);
      }
    }
    return std::move(out_);
  }

 private:
  static Exchange::Message send(std::size_t slot) { return {slot, true}; }
  static Exchange::Message receive(std::size_t slot) { return {slot, false}; }

  bool is_forward(std::size_t slot) const {
    return slot < slots_.size() && slots_[slot].pass == Pass::forward;
  }

  bool exists(const Exchange::Message& m) const {
    if (m.slot >= slots_.size()) {
      return false;
    }
    const int here = slots_[m.slot].chunk * ranks_ + rank_;
    return is_forward(m.slot) == m.sends ? here < last_ : here > 0;
  }

  void post(std::size_t behind, std::initializer_list<Exchange::Message> messages) {
    Exchange e{behind, {}};
    std::copy_if(messages.begin(), messages.end(), std::back_inserter(e.messages),
                 [this](const Exchange::Message& m) { return exists(m); });
    if (!e.messages.empty()) {
      out_.push_back(std::move(e));
    }
  }

  void behind_warmup(std::size_t slot) {
    if (slot + 1 < warmup_) {
      post(slot + 1, {send(slot), receive(slot + 1)});
    } else if (warmup_ == forwards_) {  // no steady phase
      post(slot + 1, {send(slot)});
      post(slot + 1, {receive(slot + 1)});
    } else {  // the next forward, and the first backward behind it
      post(slot + 1, {send(slot), receive(slot + 1), receive(slot + 2)});
    }
  }

  void behind_steady(std::size_t slot) {
    const bool second = (slot - warmup_) % 2 == 1;  // of a pair
    if (!is_forward(second ? slot - 1 : slot)) {
      post(slot + 1, {send(slot), receive(slot + 1)});
    } else if (second && is_forward(slot + 1)) {
      post(slot + 1, {send(slot - 1), receive(slot + 1), send(slot), receive(slot + 2)});
    } else if (second) {
      post(slot + 1, {send(slot - 1), send(slot), receive(slot + 1)});
    }
  }

  const std::vector<Slot>& slots_;
  int rank_;
  int ranks_ = 1;
  int last_ = 0;              // stage
  std::size_t forwards_ = 0;  // of the rank
  std::size_t warmup_ = 0;    // of these, before the steady phase
  std::vector<Exchange> out_;
};

class InterleavedMessages final : public Feature {
 public:
  void before_step(Stage& stage) override {
    if (transport_of(stage.plan) == Transport::interleaved_blocking) {
      exchanges_ = interleaved_exchanges(stage.plan, stage.number);
      next_ = 0;
      post(stage, 0);
    }
  }

  void after_pass(Stage& stage, std::size_t slot) override { post(stage, slot + 1); }

 private:
  void post(Stage& stage, std::size_t behind) {
    for (; next_ < exchanges_.size() && exchanges_[next_].behind == behind; ++next_) {
      std::vector<Message> messages;
      for (const auto& [slot, sends] : exchanges_[next_].messages) {
        const Slot& of = slots_of(stage)[slot];
        messages.push_back(sends ? send_of(stage, of) : receive_of(stage, of));
      }
      lower::exchange(stage, messages);  // not the one of std
    }
  }

  std::vector<Exchange> exchanges_;
  std::size_t next_ = 0;
};

}  // namespace

std::vector<Exchange> interleaved_exchanges(const strategy::Plan& plan, int rank) {
  return Posts(plan, rank).all();
}

std::unique_ptr<Feature> make_interleaved_messages() {
  return std::make_unique<InterleavedMessages>();
}

}  // namespace stepcast::lower
