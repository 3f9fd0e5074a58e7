#include "builder.h"

#include <algorithm>

namespace stepcast::lower {

using program::kNone;
using program::StreamIndex;
using program::Task;
using program::TaskKind;

StreamIndex Builder::stream(const std::string& name) {
  program.streams.push_back({name});
  issued_.push_back(0);
  pending_.emplace_back();
  return static_cast<StreamIndex>(program.streams.size() - 1);
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

Task& Builder::task(StreamIndex stream, TaskKind kind, std::int64_t launch) {
  Task task;
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
    program::HostOp op;
    op.kind = program::HostKind::launch;
    op.duration = launch;
    op.count = 1;
    host.push_back(op);
  }
  ++issued_[stream];
  program.tasks.push_back(task);
  return program.tasks.back();
}

Task& Builder::kernel(StreamIndex stream, std::int64_t duration, program::CurveId curve,
                      program::Category category, std::uint32_t label, std::int64_t launch,
                      std::uint8_t kind) {
  Task& t = task(stream, TaskKind::kernel, launch);
  t.duration = duration;
  t.curve = curve;
  t.category = category;
  t.label = label;
  t.slowdown = static_cast<std::uint8_t>(slowdown_row + kind);
  return t;
}

Task& Builder::collective(StreamIndex stream, std::uint32_t role, std::uint32_t price,
                          program::Category category, program::Category waiting,
                          std::uint32_t label, std::int64_t launch) {
  Task& t = task(stream, TaskKind::collective, launch);
  t.communicator = role;
  t.price = price;
  t.category = category;
  t.wait_category = waiting;
  t.label = label;
  return t;
}

Task& Builder::exchange(StreamIndex stream, const std::vector<program::Transfer>& transfers,
                        std::uint32_t label, std::int64_t launch) {
  Task& t = task(stream, TaskKind::exchange, launch);
  t.first_transfer = static_cast<std::uint32_t>(program.transfers.size());
  t.transfers = static_cast<std::uint16_t>(transfers.size());
  program.transfers.insert(program.transfers.end(), transfers.begin(), transfers.end());
  t.category = program::Category::pipeline;
  t.wait_category = program::Category::bubble;
  t.label = label;
  return t;
}

Task& Builder::copy(StreamIndex stream, std::uint32_t price, program::Category category,
                    std::uint32_t label, std::int64_t launch) {
  Task& t = task(stream, TaskKind::copy, launch);
  t.price = price;
  t.category = t.wait_category = category;
  t.label = label;
  return t;
}

void Builder::host_work(std::int64_t duration) {
  if (duration <= 0) {
    return;
  }
  program::HostOp op;
  op.kind = program::HostKind::work;
  op.duration = duration;
  program.host.push_back(op);
}

void Builder::host_sync(Mark mark) {
  program::HostOp op;
  op.kind = program::HostKind::sync;
  op.wait = {mark.position, mark.stream, 0};
  program.host.push_back(op);
}

std::uint32_t Builder::persistent(std::int64_t bytes, program::MemoryCategory category,
                                  std::uint32_t label) {
  if (bytes <= 0) {
    return kNone;
  }
  program.buffers.push_back({Bytes(bytes), category, 0, true, label});
  return static_cast<std::uint32_t>(program.buffers.size() - 1);
}

std::uint32_t Builder::allocate(std::int64_t bytes, program::MemoryCategory category,
                                std::uint32_t label, StreamIndex stream) {
  if (bytes <= 0) {
    return kNone;
  }
  program.buffers.push_back({Bytes(bytes), category, stream, false, label});
  const auto id = static_cast<std::uint32_t>(program.buffers.size() - 1);
  program::HostOp op;
  op.kind = program::HostKind::allocate;
  op.buffer = id;
  program.host.push_back(op);
  return id;
}

std::uint32_t Builder::allocate(const TensorList& list, program::MemoryCategory category,
                                std::uint32_t label, bool transient) {
  if (list.blocks.empty()) {
    return kNone;
  }
  const auto [at, fresh] =
      first_block_.try_emplace(&list, static_cast<std::uint32_t>(program.blocks.size()));
  if (fresh) {
    program.blocks.insert(program.blocks.end(), list.blocks.begin(), list.blocks.end());
  }
  program::Buffer buffer{Bytes(list.bytes), category, 0, false, label};
  buffer.first_block = at->second;
  buffer.blocks = static_cast<std::uint32_t>(list.blocks.size());
  buffer.transient = transient;
  program.buffers.push_back(buffer);
  const auto id = static_cast<std::uint32_t>(program.buffers.size() - 1);
  allocate(id);
  return id;
}

std::uint32_t Builder::declare(std::int64_t bytes, program::MemoryCategory category,
                               std::uint32_t label) {
  if (bytes <= 0) {
    return kNone;
  }
  program.buffers.push_back({Bytes(bytes), category, 0, false, label});
  return static_cast<std::uint32_t>(program.buffers.size() - 1);
}

void Builder::allocate(std::uint32_t buffer) {
  if (buffer == kNone) {
    return;
  }
  program::HostOp op;
  op.kind = program::HostKind::allocate;
  op.buffer = buffer;
  program.host.push_back(op);
}

void Builder::release(std::uint32_t buffer, std::uint32_t streams) {
  if (buffer == kNone) {
    return;
  }
  program::HostOp op;
  op.kind = program::HostKind::release;
  op.buffer = buffer;
  op.streams = streams;
  program.host.push_back(op);
}

std::uint32_t Builder::place(std::uint32_t buffer, program::Place at) {
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
