// Messages between pipeline stages, in the three forms that frameworks use. Orders of posting
// follow Megatron-LM's pipeline_parallel/schedules.py.
#include <algorithm>

#include "stage_builder.h"

namespace stepcast::lower {

using schedule::Pass;
using schedule::Slot;

// Keys make a wrong pairing a detected fault: the receiving stage and the micro-batch.
StageBuilder::Message StageBuilder::receive_of(const Slot& slot) const {
  const int p = plan_.grid.pipeline;
  const int last = p * static_cast<int>(plan_.stages[stage_].size()) - 1;
  const int here = slot.chunk * p + stage_;
  const bool forward = slot.pass == Pass::forward;
  Message m;
  m.needed = forward ? here > 0 : here < last;
  m.transfer.send = false;
  m.transfer.channel = forward ? kReceiveForward : kReceiveBackward;
  m.transfer.key = static_cast<std::uint32_t>(here * plan_.micro_batches + slot.micro_batch);
  return m;
}

StageBuilder::Message StageBuilder::send_of(const Slot& slot) const {
  const int p = plan_.grid.pipeline;
  const int last = p * static_cast<int>(plan_.stages[stage_].size()) - 1;
  const int here = slot.chunk * p + stage_;
  const bool forward = slot.pass == Pass::forward;
  Message m;
  m.needed = forward ? here < last : here > 0;
  m.transfer.send = true;
  m.transfer.channel = forward ? kSendForward : kSendBackward;
  const int there = forward ? here + 1 : here - 1;
  m.transfer.key = static_cast<std::uint32_t>(there * plan_.micro_batches + slot.micro_batch);
  return m;
}

void StageBuilder::exchange(const std::vector<Message>& messages) {
  std::vector<program::Transfer> transfers;
  for (const Message& m : messages) {
    if (m.needed) {
      transfers.push_back(m.transfer);
    }
  }
  if (transfers.empty()) {
    return;
  }
  const char* label = transfers.size() > 1     ? "send and receive"
                      : transfers.front().send ? "send"
                                               : "receive";
  b_.exchange(compute_, transfers, context_.passes.labels->id(label), launch_);
  if (job_.system.batched_p2p && job_.system.family == job::System::Family::megatron) {
    b_.host_sync(b_.mark(
        compute_));  // p2p_communication.py synchronises the device behind batch_isend_irecv
  }
  after_receive(messages);
}

// SC21's scatter/gather optimisation: each tensor rank received 1/t of the message and gathers the
// rest over NVLink.
void StageBuilder::after_receive(const std::vector<Message>& messages) {
  if (!job_.system.scatter_gather_p2p || plan_.grid.tensor == 1 || plan_.shard.sequence_parallel) {
    return;
  }
  for (const Message& m : messages) {
    if (m.needed && !m.transfer.send) {
      tensor_collective(cost::Collective::all_gather, message_bytes(plan_) * plan_.grid.tensor,
                        program::Category::pipeline, "gather received");
    }
  }
}

void StageBuilder::run_local() {
  for (const Slot& slot : plan_.order.ranks[stage_]) {
    run_slot(slot);
  }
}

// Sends and receives block the compute stream. Where the pass changes (forward to backward and
// back) both are posted together, as send_forward_recv_backward does; that is what keeps the steady
// phase free of deadlock.
void StageBuilder::run_blocking() {
  const auto& slots = plan_.order.ranks[stage_];
  if (!slots.empty()) {
    exchange({receive_of(slots.front())});
  }
  for (std::size_t i = 0; i < slots.size(); ++i) {
    run_slot(slots[i]);
    const Message send = send_of(slots[i]);
    if (i + 1 == slots.size()) {
      exchange({send});
      break;
    }
    const Message receive = receive_of(slots[i + 1]);
    const bool turns = (slots[i].pass == Pass::forward) != (slots[i + 1].pass == Pass::forward);
    if (turns && job_.system.batched_p2p) {
      exchange({send, receive});
    } else if (turns &&
               stage_ % 2 ==
                   1) {  // one at a time: odd stages receive first, or all would wait to send
      exchange({receive});
      exchange({send});
    } else {
      exchange({send});
      exchange({receive});
    }
  }
}

// Interleaved without overlap: after each warm-up forward the send and the next receive go
// together; in the steady phase all four messages go together after each forward-backward pair.
void StageBuilder::run_interleaved_blocking() {
  const auto& slots = plan_.order.ranks[stage_];
  const Message none;
  auto receive_at = [&](std::size_t i) { return i < slots.size() ? receive_of(slots[i]) : none; };
  auto is_forward = [&](std::size_t i) {
    return i < slots.size() && slots[i].pass == Pass::forward;
  };
  std::size_t i = 0;
  exchange({receive_at(0)});
  const auto forwards = static_cast<std::size_t>(std::count_if(
      slots.begin(), slots.end(), [](const Slot& s) { return s.pass == Pass::forward; }));
  const auto& asked = job_.parallelism.schedule;
  const int p = plan_.grid.pipeline;
  const int chunks = static_cast<int>(plan_.stages[stage_].size());
  const int group = asked && asked->group ? *asked->group : p;
  const int formula =
      2 * (p - 1 - stage_) + (chunks - 1) * group + (asked ? asked->extra_warmup : 0);
  const std::size_t warmup = std::min(static_cast<std::size_t>(formula), forwards);
  for (; i < warmup; ++i) {
    run_slot(slots[i]);
    if (i + 1 < warmup) {
      exchange({send_of(slots[i]), receive_at(i + 1)});
    } else if (warmup == forwards) {  // no steady phase
      exchange({send_of(slots[i])});
      exchange({receive_at(i + 1)});
    } else {  // the next forward, and the first backward behind it
      exchange({send_of(slots[i]), receive_at(i + 1), receive_at(i + 2)});
    }
  }
  if (warmup == 0 && forwards > 0) {
    exchange({receive_at(1)});
  }
  for (; is_forward(i); i += 2) {
    run_slot(slots[i]);
    run_slot(slots[i + 1]);
    const bool more = is_forward(i + 2);
    exchange({send_of(slots[i]), more ? receive_at(i + 2) : none, send_of(slots[i + 1]),
              receive_at(more ? i + 3 : i + 2)});
  }
  for (; i < slots.size(); ++i) {
    run_slot(slots[i]);
    exchange({send_of(slots[i]), receive_at(i + 1)});
  }
}

// Interleaved with overlap: sends leave beside compute, and the receive for the next pass of a
// direction is posted behind the current one's compute (send_forward_recv_forward and
// send_backward_recv_backward with overlap), each direction on its own stream. A posted receive
// holds its SMs, so that it is not posted earlier than Megatron does matters.
void StageBuilder::run_overlapped() {
  const auto& slots = plan_.order.ranks[stage_];
  auto post = [&](program::StreamIndex stream, const Message& m, const char* label) {
    b_.exchange(stream, {m.transfer}, context_.passes.labels->id(label), launch_);
  };
  // Marks of posted receives, by slot.
  std::vector<Mark> received(slots.size());
  auto receive = [&](std::size_t i) {
    const Message m = receive_of(slots[i]);
    if (!m.needed) {
      return;
    }
    const bool is_forward = slots[i].pass == Pass::forward;
    const auto stream = is_forward ? receive_forward_ : receive_backward_;
    b_.set_micro_batch(slots[i].micro_batch, slots[i].chunk);
    follow_compute(stream);
    post(stream, m, is_forward ? "receive forward" : "receive backward");
    received[i] = b_.mark(stream);
  };
  auto next_of = [&](std::size_t i) {
    std::size_t n = i + 1;
    while (n < slots.size() && slots[n].pass != slots[i].pass) {
      ++n;
    }
    return n;
  };
  const auto first_backward =
      static_cast<std::size_t>(std::find_if(slots.begin(), slots.end(),
                                            [](const Slot& s) { return s.pass != Pass::forward; }) -
                               slots.begin());
  if (!slots.empty()) {
    receive(0);
  }
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const bool is_forward = slots[i].pass == Pass::forward;
    // The first backward's gradient is asked for behind the last warm-up forward.
    if (i + 1 == first_backward && i > 0) {
      receive(first_backward);
    }
    if (received[i].position > 0) {
      b_.wait(compute_, received[i]);
      after_receive({receive_of(slots[i])});
    }
    run_slot(slots[i]);
    const Message send = send_of(slots[i]);
    if (send.needed) {
      const auto stream = is_forward ? send_forward_ : send_backward_;
      b_.wait(stream, b_.mark(compute_));
      b_.wait(stream, b_.mark(tensor_));
      post(stream, send, is_forward ? "send forward" : "send backward");
    }
    if (i == 0 && first_backward == 1) {
      receive(1);
    }
    const std::size_t next = next_of(i);
    if (next < slots.size()) {
      receive(next);
    }
  }
}

}  // namespace stepcast::lower
