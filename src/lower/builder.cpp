#include "builder.h"

#include <algorithm>

namespace stepcast::lower {

using program::BufferIndex;
using program::kNone;
using program::LabelIndex;
using program::PriceKey;
using program::StreamIndex;
using program::Task;
using program::TaskKind;

void Builder::reserve(const program::Program& like) {
  const auto room = [](auto& to, const auto& of) { to.reserve(of.size() + of.size() / 16); };
  room(program.tasks, like.tasks);
  room(program.waits, like.waits);
  room(program.transfers, like.transfers);
  room(program.host, like.host);
  room(program.buffers, like.buffers);
}

StreamIndex Builder::stream(const std::string& name) {
  program.streams.push_back({name});
  issued_.push_back(0);
  pending_.emplace_back();
  return StreamIndex::at(program.streams.size() - 1);
}

void Builder::wait(StreamIndex waiter, Mark mark) {
  if (mark.position == 0 || mark.stream == waiter) {
    return;
  }
  for (program::Wait& w : pending_[waiter]) {
    if (w.stream == mark.stream && w.lag == 0) {
      w.position = std::max(w.position, mark.position);
      return;
    }
  }
  pending_[waiter].push_back({mark.position, mark.stream, 0});
}

void Builder::wait_previous_step(StreamIndex waiter, StreamIndex stream) {
  pending_[waiter].push_back({0, stream, 1});
}

Task& Builder::task(StreamIndex stream, TaskKind kind, Time launch) {
  Task& task = program.tasks.emplace_back();
  task.stream = stream;
  task.kind = kind;
  task.micro_batch = micro_batch_;
  task.chunk = chunk_;
  task.first_wait = static_cast<std::uint32_t>(program.waits.size());
  for (const program::Wait& w : pending_[stream]) {
    if (w.lag == 1) {
      whole_step_.push_back(program.waits.size());
    }
    program.waits.push_back(w);
    ++task.waits;
  }
  pending_[stream].clear();
  auto& host = program.host;
  if (!host.empty() && host.back().kind == program::HostKind::launch &&
      host.back().duration == launch) {
    ++host.back().count;
  } else {
    program::HostOp& op = host.emplace_back();
    op.kind = program::HostKind::launch;
    op.duration = launch;
    op.count = 1;
  }
  ++issued_[stream];
  // What follows a message between stages waits for it anyway.
  if (waits_for_launches_ && (kind == TaskKind::kernel || kind == TaskKind::collective)) {
    host_sync(mark(stream));
  }
  return task;
}

Task& Builder::kernel(StreamIndex stream, Time duration, program::CurveId curve,
                      program::Category category, LabelIndex label, Time launch,
                      std::uint8_t kind) {
  Task& t = task(stream, TaskKind::kernel, launch);
  t.duration = duration;
  t.curve = curve;
  t.category = category;
  t.label = label;
  t.slowdown = static_cast<std::uint8_t>(slowdown_row + kind);
  return t;
}

Task& Builder::collective(StreamIndex stream, Role role, PriceKey price, program::Category category,
                          program::Category waiting, LabelIndex label, Time launch) {
  Task& t = task(stream, TaskKind::collective, launch);
  t.communicator = program::CommunicatorRole::at(role);
  t.price = price;
  t.category = category;
  t.wait_category = waiting;
  t.label = label;
  return t;
}

Task& Builder::exchange(StreamIndex stream, const std::vector<program::Transfer>& transfers,
                        LabelIndex label, Time launch) {
  Task& t = task(stream, TaskKind::exchange, launch);
  t.first_transfer = static_cast<std::uint32_t>(program.transfers.size());
  t.transfers = static_cast<std::uint16_t>(transfers.size());
  program.transfers.insert(program.transfers.end(), transfers.begin(), transfers.end());
  t.category = program::Category::pipeline;
  t.wait_category = program::Category::bubble;
  t.label = label;
  return t;
}

Task& Builder::copy(StreamIndex stream, PriceKey price, program::Category category,
                    LabelIndex label, Time launch) {
  Task& t = task(stream, TaskKind::copy, launch);
  t.price = price;
  t.category = t.wait_category = category;
  t.label = label;
  return t;
}

void Builder::host_work(Time duration) {
  if (duration <= Time{0}) {
    return;
  }
  program::HostOp& op = program.host.emplace_back();
  op.kind = program::HostKind::work;
  op.duration = duration;
}

void Builder::host_sync(Mark mark) {
  program::HostOp& op = program.host.emplace_back();
  op.kind = program::HostKind::sync;
  op.wait = {mark.position, mark.stream, 0};
}

BufferIndex Builder::persistent(std::int64_t bytes, program::MemoryCategory category,
                                LabelIndex label) {
  if (bytes <= 0) {
    return kNone;
  }
  program.buffers.push_back({Bytes(bytes), category, 0, true, label});
  return BufferIndex::at(program.buffers.size() - 1);
}

BufferIndex Builder::allocate(std::int64_t bytes, program::MemoryCategory category,
                              LabelIndex label, StreamIndex stream) {
  if (bytes <= 0) {
    return kNone;
  }
  program.buffers.push_back({Bytes(bytes), category, stream, false, label});
  const auto id = BufferIndex::at(program.buffers.size() - 1);
  program::HostOp& op = program.host.emplace_back();
  op.kind = program::HostKind::allocate;
  op.buffer = id;
  return id;
}

BufferIndex Builder::allocate(const TensorList& list, program::MemoryCategory category,
                              LabelIndex label, bool transient) {
  if (list.blocks.empty()) {
    return kNone;
  }
  program::Buffer buffer{Bytes(list.bytes), category, 0, false, label};
  buffer.first_block = blocks_of(list);
  buffer.blocks = static_cast<std::uint32_t>(list.blocks.size());
  buffer.transient = transient;
  buffer.taken = list.taken;
  buffer.handed = list.handed;
  program.buffers.push_back(buffer);
  const auto id = BufferIndex::at(program.buffers.size() - 1);
  allocate(id);
  return id;
}

std::uint32_t Builder::blocks_of(const TensorList& list) {
  const auto [at, fresh] =
      first_block_.try_emplace(&list, static_cast<std::uint32_t>(program.blocks.size()));
  if (fresh) {
    program.blocks.insert(program.blocks.end(), list.blocks.begin(), list.blocks.end());
  }
  return at->second;
}

void Builder::in_first_step(BufferIndex buffer, const TensorList& list) {
  if (buffer == kNone) {
    return;
  }
  program.buffers[buffer].first_step = static_cast<std::uint32_t>(program.first_steps.size());
  program.first_steps.push_back({Bytes(list.bytes), blocks_of(list),
                                 static_cast<std::uint32_t>(list.blocks.size()), list.taken,
                                 list.handed});
}

BufferIndex Builder::declare(std::int64_t bytes, program::MemoryCategory category,
                             LabelIndex label) {
  if (bytes <= 0) {
    return kNone;
  }
  program.buffers.push_back({Bytes(bytes), category, 0, false, label});
  return BufferIndex::at(program.buffers.size() - 1);
}

void Builder::allocate(BufferIndex buffer) {
  if (buffer == kNone) {
    return;
  }
  program::HostOp& op = program.host.emplace_back();
  op.kind = program::HostKind::allocate;
  op.buffer = buffer;
}

void Builder::release(BufferIndex buffer, std::uint32_t streams) {
  if (buffer == kNone) {
    return;
  }
  program::HostOp& op = program.host.emplace_back();
  op.kind = program::HostKind::release;
  op.buffer = buffer;
  op.streams = streams;
}

BufferIndex Builder::place(BufferIndex buffer, program::Place at) {
  if (buffer != kNone) {
    program.buffers[buffer].place = at;
  }
  return buffer;
}

void Builder::set_micro_batch(int micro_batch, int chunk) {
  micro_batch_ = static_cast<std::uint16_t>(micro_batch);
  chunk_ = static_cast<std::uint8_t>(chunk);
}

program::Program Builder::finish() {
  for (std::size_t index : whole_step_) {
    program.waits[index].position = issued_[program.waits[index].stream];
  }
  return std::move(program);
}

}  // namespace stepcast::lower
