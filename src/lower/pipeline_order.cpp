// Any order on any placement: sends leave behind the pass that made them, receives are posted when
// the order, played ahead, has the message made; each kind of message on a stream of its own.
// PyTorch's pipelining runtime and the zero-bubble runtime place their receives so. (A posted
// receive holds its SMs, so that it is not posted earlier matters.)
//
// A channel pairs in order, so a rank posts its receives in the order in which the sender's own
// order makes them. That keeps any valid order free of deadlock: what a pass waits for was sent by
// passes that an order of unlimited buffers runs before it, and a send never holds up its sender.
#include <algorithm>

#include "stage_builder.h"

namespace stepcast::lower {

using schedule::Pass;
using schedule::Placement;
using schedule::Slot;

namespace {

bool makes_message(Pass pass) {
  return pass == Pass::forward || pass == Pass::input_grad || pass == Pass::backward;
}

// Channel roles, by [backward][up].
constexpr std::uint32_t kSends[2][2] = {{kSendForward, kSendForwardUp},
                                        {kSendBackward, kSendBackwardUp}};
constexpr std::uint32_t kReceives[2][2] = {{kReceiveForward, kReceiveForwardUp},
                                           {kReceiveBackward, kReceiveBackwardUp}};
constexpr const char* kSendNames[2][2] = {{"send forward", "send forward up"},
                                          {"send backward", "send backward up"}};
constexpr const char* kReceiveNames[2][2] = {{"receive forward", "receive forward up"},
                                             {"receive backward", "receive backward up"}};

}  // namespace

// Megatron-LM's own loops: their messages hold the compute stream up in the forms of pipeline.cpp.
bool StageBuilder::megatron_forms() const {
  const auto& asked = job_.parallelism.schedule;
  const std::string name = asked ? asked->name : plan_.interleaved ? "interleaved_1f1b" : "1f1b";
  return plan_.order.barriers == 0 && !strategy::pairs_passes(job_) &&
         (name == "1f1b" || name == "gpipe" || name == "interleaved_1f1b");
}

bool StageBuilder::goes_up(int chunk) const {
  return plan_.order.placement != Placement::loop && chunk % 2 == 1;
}

// Where the next (or previous) stage of a rank's chunk runs, in the same replica of the model.
StageBuilder::Neighbour StageBuilder::neighbour(int rank, int chunk, bool next) const {
  const int p = plan_.grid.pipeline;
  const int chunks = static_cast<int>(plan_.stages[rank].size());
  const bool twice = plan_.order.placement == Placement::bidirectional;
  const int stages = twice ? p : p * chunks;
  const int stage = plan_.stages[rank][chunk].stage + (next ? 1 : -1);
  if (stage < 0 || stage >= stages) {
    return {};
  }
  Neighbour out{true, stage % p, twice ? chunk : stage / p};
  if (goes_up(out.chunk)) {
    out.rank = p - 1 - out.rank;
  }
  return out;
}

program::StreamIndex StageBuilder::channel_stream(std::uint32_t role, const char* name) {
  if (channel_streams_.empty()) {
    channel_streams_.assign(kChannelRoles, 0);
  }
  if (channel_streams_[role] == 0) {
    channel_streams_[role] = b_.stream(name);
  }
  return channel_streams_[role];
}

// Behind what the compute stream was given so far; at the start of a step, behind the step before:
// what is posted earlier holds its SMs beside that step's end.
void StageBuilder::follow_compute(program::StreamIndex stream) {
  if (b_.mark(compute_).position > 0) {
    b_.wait(stream, b_.mark(compute_));
  } else {
    b_.wait_previous_step(stream, compute_);
  }
}

// The messages that this rank's slots wait for, by channel, in their sender's order.
void StageBuilder::make_inboxes() {
  const auto& slots = plan_.order.ranks[stage_];
  inboxes_.resize(kChannelRoles);
  received_.assign(slots.size(), {});
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const Slot& slot = slots[i];
    if (!makes_message(slot.pass)) {
      continue;
    }
    const bool is_forward = slot.pass == Pass::forward;
    const Neighbour from = neighbour(stage_, slot.chunk, !is_forward);
    if (!from.exists || from.rank == stage_) {
      continue;  // nothing, or handed over on the rank itself
    }
    const auto& theirs = plan_.order.ranks[from.rank];
    const auto made = std::find_if(theirs.begin(), theirs.end(), [&](const Slot& s) {
      return s.chunk == from.chunk && s.micro_batch == slot.micro_batch && makes_message(s.pass) &&
             (s.pass == Pass::forward) == is_forward;
    });
    const std::uint32_t role = kReceives[is_forward ? 0 : 1][goes_up(slot.chunk) ? 1 : 0];
    const auto sent = static_cast<std::size_t>(made - theirs.begin());
    const double end = context_.times->end[from.rank][sent];
    const auto& starts = context_.times->start[stage_];
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

std::uint32_t StageBuilder::message_key(int rank, const Slot& slot) const {
  return static_cast<std::uint32_t>(plan_.stages[rank][slot.chunk].stage * plan_.micro_batches +
                                    slot.micro_batch);
}

// Posts the receives that are due before a slot begins.
void StageBuilder::post_receives(std::size_t slot) {
  const auto& slots = plan_.order.ranks[stage_];
  for (std::uint32_t role = 0; role < inboxes_.size(); ++role) {
    Inbox& box = inboxes_[role];
    for (; box.posted < box.messages.size() && box.messages[box.posted].at <= slot; ++box.posted) {
      const std::size_t for_slot = box.messages[box.posted].slot;
      const Slot& s = slots[for_slot];
      const int backward = s.pass == Pass::forward ? 0 : 1;
      const char* name = kReceiveNames[backward][goes_up(s.chunk) ? 1 : 0];
      const auto stream = channel_stream(role, name);
      b_.set_micro_batch(s.micro_batch, s.chunk);
      follow_compute(stream);
      b_.exchange(
          stream, {{role, message_key(stage_, s), 0, false}},
          context_.passes.labels->id(backward != 0 ? "receive backward" : "receive forward"),
          launch_);
      received_[for_slot] = b_.mark(stream);
    }
  }
}

void StageBuilder::take_message(std::size_t slot) {
  if (received_[slot].position == 0) {
    return;
  }
  b_.wait(compute_, received_[slot]);
  Message message;
  message.needed = true;
  after_receive({message});
}

void StageBuilder::send_message(const Slot& slot) {
  if (!makes_message(slot.pass)) {
    return;
  }
  const bool is_forward = slot.pass == Pass::forward;
  const Neighbour to = neighbour(stage_, slot.chunk, is_forward);
  if (!to.exists || to.rank == stage_) {
    return;
  }
  const int backward = is_forward ? 0 : 1;
  const int up = goes_up(slot.chunk) ? 1 : 0;
  const std::uint32_t role = kSends[backward][up];
  const auto stream = channel_stream(role, kSendNames[backward][up]);
  b_.set_micro_batch(slot.micro_batch, slot.chunk);
  b_.wait(stream, b_.mark(compute_));
  b_.wait(stream, b_.mark(tensor_));
  Slot there = slot;
  there.chunk = to.chunk;
  b_.exchange(stream, {{role, message_key(to.rank, there), 0, true}},
              context_.passes.labels->id(is_forward ? "send forward" : "send backward"), launch_);
}

void StageBuilder::run_pair(const Slot& first, const Slot& second) {
  if (!job_.system.overlap_pairs) {  // PyTorch's OVERLAP_F_B: one after the other
    run_slot(first);
    run_slot(second);
    return;
  }
  Run one{first};
  Run other{second};
  for (bool more = true, left = true; more || left;) {
    more = more && advance(one);
    left = left && advance(other);
  }
}

void StageBuilder::run_order() {
  const auto& slots = plan_.order.ranks[stage_];
  make_inboxes();
  const bool split = plan_.order.barriers > 0;
  if (split) {
    plan_vocabulary();
  }
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const bool pair = slots[i].with_next && i + 1 < slots.size();
    const std::size_t last = i + (pair ? 1 : 0);
    post_receives(last);
    if (split) {
      vocabulary_before(i);
      if (slots[i].pass == Pass::vocabulary || slots[i].pass == Pass::vocabulary_grad) {
        run_vocabulary(slots[i]);
        continue;
      }
    }
    take_message(i);
    if (split) {
      before_stage_ends(slots[i]);
    }
    if (pair) {
      take_message(last);
      run_pair(slots[i], slots[last]);
      send_message(slots[i]);
    } else {
      run_slot(slots[i]);
    }
    send_message(slots[last]);
    if (split) {
      after_stage_ends(slots[last]);
    }
    i = last;
  }
  if (split) {
    end_vocabulary();
  }
}

}  // namespace stepcast::lower
