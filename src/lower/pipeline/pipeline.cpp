#include "pipeline.h"

namespace stepcast::lower {

using schedule::Pass;
using schedule::Slot;

namespace {

// Megatron-LM's own loops: their messages hold the compute stream up in the forms of
// pipeline_blocking.cpp, pipeline_interleaved.cpp and pipeline_overlapped.cpp.
bool megatron_forms(const strategy::Plan& plan) { return plan.stage_transport.holds_compute; }

}  // namespace

Transport transport_of(const strategy::Plan& plan) {
  if (plan.grid.pipeline == 1 && !plan.stage_transport.pairs_passes) {
    return Transport::none;
  }
  if (!megatron_forms(plan)) {
    return Transport::any_order;
  }
  if (!plan.interleaved) {
    return Transport::blocking;
  }
  return plan.stage_transport.overlaps ? Transport::overlapped : Transport::interleaved_blocking;
}

program::PriceKey message_price(const Stage& stage, int chunk, bool forward, bool sends) {
  const int own = stage.plan.stages[stage.number][static_cast<std::size_t>(chunk)].stage;
  const int behind = forward == sends ? own + 1 : own;  // the stage that reads the activation
  const std::int64_t bytes = forward ? message_bytes_at(stage.plan, behind)
                                     : gradient_message_bytes_at(stage.plan, behind);
  return bytes == message_bytes(stage.plan) ? program::PriceKey{}
                                            : stage.context.passes.book->message(bytes);
}

Message receive_of(const Stage& stage, const Slot& slot) {
  const int p = stage.plan.grid.pipeline;
  const int last = p * static_cast<int>(stage.plan.stages[stage.number].size()) - 1;
  const int here = slot.chunk * p + stage.number;
  const bool forward = slot.pass == Pass::forward;
  Message m;
  m.needed = forward ? here > 0 : here < last;
  m.transfer.send = false;
  m.transfer.channel = program::ChannelRole::at(forward ? kReceiveForward : kReceiveBackward);
  m.transfer.price = message_price(stage, slot.chunk, forward, false);
  m.transfer.key = static_cast<std::uint32_t>(here * stage.plan.micro_batches + slot.micro_batch);
  return m;
}

Message send_of(const Stage& stage, const Slot& slot) {
  const int p = stage.plan.grid.pipeline;
  const int last = p * static_cast<int>(stage.plan.stages[stage.number].size()) - 1;
  const int here = slot.chunk * p + stage.number;
  const bool forward = slot.pass == Pass::forward;
  Message m;
  m.needed = forward ? here < last : here > 0;
  m.transfer.send = true;
  m.transfer.channel = program::ChannelRole::at(forward ? kSendForward : kSendBackward);
  m.transfer.price = message_price(stage, slot.chunk, forward, true);
  const int there = forward ? here + 1 : here - 1;
  m.transfer.key = static_cast<std::uint32_t>(there * stage.plan.micro_batches + slot.micro_batch);
  return m;
}

Message receive_at(const Stage& stage, std::size_t slot) {
  const auto& slots = slots_of(stage);
  return slot < slots.size() ? receive_of(stage, slots[slot]) : Message{};
}

void exchange(Stage& stage, const std::vector<Message>& messages) {
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
  stage.builder.exchange(stage.streams.compute, transfers, label_of(stage, label),
                         stage.host.launch);
  if (stage.plan.stage_transport.host_waits) {
    // Megatron-LM (p2p_communication.py) synchronises the device behind batch_isend_irecv.
    stage.builder.host_sync(stage.builder.mark(stage.streams.compute));
  }
  after_receive(stage, messages);
}

void after_receive(Stage& stage, const std::vector<Message>& messages) {
  if (!stage.plan.stage_transport.scatter_gather || stage.plan.grid.tensor == 1 ||
      stage.plan.shard.sequence_parallel) {
    return;
  }
  for (const Message& m : messages) {
    if (m.needed && !m.transfer.send) {
      tensor_collective(stage, cost::Collective::all_gather,
                        message_bytes(stage.plan) * stage.plan.grid.tensor,
                        program::Category::pipeline, "gather received");
    }
  }
}

void send_beside(Stage& stage, program::StreamIndex stream, const program::Transfer& transfer,
                 Pass pass) {
  stage.builder.wait(stream, stage.builder.mark(stage.streams.compute));
  stage.builder.wait(stream, stage.builder.mark(stage.streams.tensor));
  stage.builder.exchange(stream, {transfer},
                         label_of(stage, pass == Pass::forward ? "send forward" : "send backward"),
                         stage.host.launch);
}

Mark receive_beside(Stage& stage, program::StreamIndex stream, const program::Transfer& transfer,
                    const Slot& slot) {
  stage.builder.set_micro_batch(slot.micro_batch, slot.chunk);
  follow_compute(stage, stream);
  stage.builder.exchange(
      stream, {transfer},
      label_of(stage, slot.pass == Pass::forward ? "receive forward" : "receive backward"),
      stage.host.launch);
  return stage.builder.mark(stream);
}

void await_received(Stage& stage, const Mark& received) {
  stage.builder.wait(stage.streams.compute, received);
  Message message;
  message.needed = true;
  after_receive(stage, {message});
}

}  // namespace stepcast::lower
