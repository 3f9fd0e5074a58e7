// Any order on any placement. A send follows the pass that made the message. A receive is posted at
// the time at which the message exists when the order is played ahead (order_times.h). Each kind of
// message has a stream of its own. PyTorch's pipelining runtime and the zero-bubble runtime place
// their receives so. (A posted receive holds SMs, so it must not be posted earlier.)
//
// A channel pairs in order, so a rank posts its receives in the order in which the sender's own
// order makes them. That keeps any valid order free of deadlock: what a pass waits for was sent by
// passes that an order of unlimited buffers runs before it, and a send never holds up its sender.
#include <algorithm>

#include "../stage/feature_list.h"
#include "pipeline.h"

namespace stepcast::lower {

using schedule::Pass;
using schedule::Placement;
using schedule::Slot;

namespace {

bool makes_message(Pass pass) {
  return pass == Pass::forward || pass == Pass::input_grad || pass == Pass::backward;
}

// Channel roles, by [backward][up].
constexpr ChannelRole kSends[2][2] = {{kSendForward, kSendForwardUp},
                                      {kSendBackward, kSendBackwardUp}};
constexpr ChannelRole kReceives[2][2] = {{kReceiveForward, kReceiveForwardUp},
                                         {kReceiveBackward, kReceiveBackwardUp}};
constexpr const char* kSendNames[2][2] = {{"send forward", "send forward up"},
                                          {"send backward", "send backward up"}};
constexpr const char* kReceiveNames[2][2] = {{"receive forward", "receive forward up"},
                                             {"receive backward", "receive backward up"}};

struct Inbound {
  std::size_t sent = 0;  // the sender's slot
  std::size_t slot = 0;  // this rank's slot that waits for the message
  std::size_t at = 0;    // this rank's slot before which the receive is posted
};
struct Inbox {  // of a channel, in the sender's order
  std::vector<Inbound> messages;
  std::size_t posted = 0;
};

struct Neighbour {
  bool exists = false;
  int rank = 0;
  int chunk = 0;
};

class AnyOrder final : public Feature {
 public:
  void before_step(Stage& stage) override;
  void before_slot(Stage& stage, std::size_t slot, std::size_t last) override;
  void before_pass(Stage& stage, std::size_t slot) override;
  void after_pass(Stage& stage, std::size_t slot) override;

 private:
  program::StreamIndex channel_stream(Stage& stage, std::uint32_t role, const char* name);

  std::vector<program::StreamIndex> channel_streams_;  // by role; 0: none yet
  std::vector<Inbox> inboxes_;                         // by channel role
  std::vector<Mark> received_;                         // by slot
};

bool sends_in_any_order(const Stage& stage) {
  return transport_of(stage.plan) == Transport::any_order;
}

bool goes_up(const strategy::Plan& plan, int chunk) {
  return plan.order.placement != Placement::loop && chunk % 2 == 1;
}

// Where the next (or previous) stage of a rank's chunk runs, in the same replica of the model.
Neighbour neighbour(const strategy::Plan& plan, int rank, int chunk, bool next) {
  const int p = plan.grid.pipeline;
  const int chunks = static_cast<int>(plan.stages[rank].size());
  const bool twice = plan.order.placement == Placement::bidirectional;
  const int stages = twice ? p : p * chunks;
  const int stage = plan.stages[rank][chunk].stage + (next ? 1 : -1);
  if (stage < 0 || stage >= stages) {
    return {};
  }
  Neighbour out{true, stage % p, twice ? chunk : stage / p};
  if (goes_up(plan, out.chunk)) {
    out.rank = p - 1 - out.rank;
  }
  return out;
}

std::uint32_t message_key(const Stage& stage, int rank, const Slot& slot) {
  return static_cast<std::uint32_t>(
      stage.plan.stages[rank][slot.chunk].stage * stage.plan.micro_batches + slot.micro_batch);
}

program::StreamIndex AnyOrder::channel_stream(Stage& stage, std::uint32_t role, const char* name) {
  if (channel_streams_.empty()) {
    channel_streams_.assign(kChannelRoles, 0);
  }
  if (channel_streams_[role] == 0) {
    channel_streams_[role] = stage.builder.stream(name);
  }
  return channel_streams_[role];
}

// The messages that this rank's slots wait for, by channel, in their sender's order.
void AnyOrder::before_step(Stage& stage) {
  if (!sends_in_any_order(stage)) {
    return;
  }
  const auto& slots = slots_of(stage);
  inboxes_.resize(kChannelRoles);
  received_.assign(slots.size(), {});
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const Slot& slot = slots[i];
    if (!makes_message(slot.pass)) {
      continue;
    }
    const bool is_forward = slot.pass == Pass::forward;
    const Neighbour from = neighbour(stage.plan, stage.number, slot.chunk, !is_forward);
    if (!from.exists || from.rank == stage.number) {
      continue;  // nothing, or handed over on the rank itself
    }
    const auto& theirs = stage.plan.order.ranks[from.rank];
    const auto made = std::find_if(theirs.begin(), theirs.end(), [&](const Slot& s) {
      return s.chunk == from.chunk && s.micro_batch == slot.micro_batch && makes_message(s.pass) &&
             (s.pass == Pass::forward) == is_forward;
    });
    const std::uint32_t role =
        kReceives[is_forward ? 0 : 1][goes_up(stage.plan, slot.chunk) ? 1 : 0];
    const auto sent = static_cast<std::size_t>(made - theirs.begin());
    const double end = stage.context.times->end[from.rank][sent];
    const auto& starts = stage.context.times->start[stage.number];
    const auto at = static_cast<std::size_t>(std::lower_bound(starts.begin(), starts.end(), end) -
                                             starts.begin());
    inboxes_[role].messages.push_back({sent, i, std::min(at, i)});
  }
  for (Inbox& box : inboxes_) {
    auto& all = box.messages;
    std::sort(all.begin(), all.end(),
              [](const Inbound& a, const Inbound& b) { return a.sent < b.sent; });
    for (std::size_t n = all.size(); n-- > 1;) {
      all[n - 1].at = std::min(all[n - 1].at, all[n].at);
    }
  }
}

// Posts the receives that are due before a slot, or the two that run side by side, begins.
void AnyOrder::before_slot(Stage& stage, std::size_t, std::size_t last) {
  const auto& slots = slots_of(stage);
  for (std::uint32_t role = 0; role < inboxes_.size(); ++role) {
    Inbox& box = inboxes_[role];
    for (; box.posted < box.messages.size() && box.messages[box.posted].at <= last; ++box.posted) {
      const std::size_t for_slot = box.messages[box.posted].slot;
      const Slot& s = slots[for_slot];
      const int backward = s.pass == Pass::forward ? 0 : 1;
      const char* name = kReceiveNames[backward][goes_up(stage.plan, s.chunk) ? 1 : 0];
      const auto stream = channel_stream(stage, role, name);
      received_[for_slot] =
          receive_beside(stage, stream,
                         {program::ChannelRole::at(role), message_key(stage, stage.number, s),
                          message_price(stage, s.chunk, backward == 0, false), false},
                         s);
    }
  }
}

void AnyOrder::before_pass(Stage& stage, std::size_t slot) {
  if (!sends_in_any_order(stage) || received_[slot].position == 0) {
    return;
  }
  await_received(stage, received_[slot]);
}

void AnyOrder::after_pass(Stage& stage, std::size_t index) {
  const Slot& slot = slots_of(stage)[index];
  if (!sends_in_any_order(stage) || !makes_message(slot.pass)) {
    return;
  }
  const bool is_forward = slot.pass == Pass::forward;
  const Neighbour to = neighbour(stage.plan, stage.number, slot.chunk, is_forward);
  if (!to.exists || to.rank == stage.number) {
    return;
  }
  const int backward = is_forward ? 0 : 1;
  const int up = goes_up(stage.plan, slot.chunk) ? 1 : 0;
  const std::uint32_t role = kSends[backward][up];
  const auto stream = channel_stream(stage, role, kSendNames[backward][up]);
  stage.builder.set_micro_batch(slot.micro_batch, slot.chunk);
  Slot there = slot;
  there.chunk = to.chunk;
  send_beside(stage, stream,
              {program::ChannelRole::at(role), message_key(stage, to.rank, there),
               message_price(stage, slot.chunk, is_forward, true), true},
              slot.pass);
}

}  // namespace

std::unique_ptr<Feature> make_messages_of_any_order() { return std::make_unique<AnyOrder>(); }

}  // namespace stepcast::lower
