#include "builder.h"

#include <algorithm>
#include <span>

namespace stepcast::lower {

using program::BufferIndex;
using program::kNone;
using program::LabelIndex;
using program::PriceKey;
using program::StreamIndex;
using program::Task;
using program::TaskKind;

namespace {

// What a part takes each stream to have been given before, so that no mark in it is dropped.
constexpr std::uint32_t kBeforePart = 1;

// The task waits for what its stream has pending. `whole_step`: waits for a whole step are noted.
void take_waits(std::vector<program::Wait>& pending, std::vector<program::Wait>& waits,
                std::vector<std::size_t>& whole_step, Task& task) {
  task.first_wait = static_cast<std::uint32_t>(waits.size());
  task.waits = static_cast<std::uint16_t>(pending.size());
  for (const program::Wait& w : pending) {
    if (w.lag == 1) {
      whole_step.push_back(waits.size());
    }
    waits.push_back(w);
  }
  pending.clear();
}

// All tasks from there on are distinct.
void note_distinct(std::uint32_t from, program::Program& program) {
  const auto tasks = static_cast<std::uint32_t>(program.tasks.size());
  if (tasks > from) {
    program.distinct.emplace_back(from, tasks);
  }
}

bool joins(const program::HostOp& op, const std::vector<program::HostOp>& host) {
  return op.kind == program::HostKind::launch && !host.empty() &&
         host.back().kind == program::HostKind::launch && host.back().duration == op.duration;
}

}  // namespace

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
  take_waits(pending_[stream], program.waits, whole_step_, task);
  program::HostOp op;
  op.kind = program::HostKind::launch;
  op.duration = launch;
  op.count = 1;
  if (joins(op, program.host)) {
    ++program.host.back().count;
  } else {
    program.host.push_back(op);
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
  ++moves;
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
  ++moves;
  op.kind = program::HostKind::allocate;
  op.buffer = buffer;
}

void Builder::release(BufferIndex buffer, std::uint32_t streams) {
  if (buffer == kNone) {
    return;
  }
  program::HostOp& op = program.host.emplace_back();
  ++moves;
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

Builder Builder::part_of(const Builder& whole) {
  Builder part;
  part.slowdown_row = whole.slowdown_row;
  part.waits_for_launches_ = whole.waits_for_launches_;
  part.issued_.assign(whole.issued_.size(), kBeforePart);
  part.pending_.resize(whole.issued_.size());
  return part;
}

void Builder::append(const Builder& part, bool again, std::uint32_t first_key) {
  const program::Program& p = part.program;
  const auto here = [&](const program::Wait& w) {
    return Mark{w.stream, issued_[w.stream] + (w.position - kBeforePart)};
  };
  const auto first_transfer = static_cast<std::uint32_t>(program.transfers.size());
  for (program::Transfer transfer : p.transfers) {
    transfer.key += first_key;
    program.transfers.push_back(transfer);
  }
  const std::size_t first_task = program.tasks.size();
  if (again) {
    note_distinct(distinct_from_, program);
    distinct_from_ = static_cast<std::uint32_t>(first_task + p.tasks.size());
  }
  program.tasks.insert(program.tasks.end(), p.tasks.begin(), p.tasks.end());
  const std::uint16_t micro_batch = micro_batch_;
  const std::uint8_t chunk = chunk_;
  std::uint32_t held_up = 0;  // streams that wait for something before the part
  for (std::size_t s = 0; s < pending_.size(); ++s) {
    held_up |= pending_[s].empty() ? 0 : 1U << s;
  }
  for (Task& task : std::span(program.tasks).subspan(first_task)) {
    task.micro_batch = micro_batch;
    task.chunk = chunk;
    task.first_transfer += task.transfers > 0 ? first_transfer : 0;
    const auto waits = std::span(p.waits).subspan(task.first_wait, task.waits);
    if ((held_up >> task.stream & 1U) == 0) {  // most, and most of those wait for nothing
      task.first_wait = static_cast<std::uint32_t>(program.waits.size());
      task.waits = 0;
      for (const program::Wait& w : waits) {
        const Mark mark = here(w);
        if (mark.position > 0) {
          program.waits.push_back({mark.position, mark.stream, 0});
          ++task.waits;
        }
      }
      continue;
    }
    held_up &= ~(1U << task.stream);
    for (const program::Wait& w : waits) {
      wait(task.stream, here(w));
    }
    take_waits(pending_[task.stream], program.waits, whole_step_, task);
  }
  auto op = p.host.begin();
  if (op != p.host.end() && joins(*op, program.host)) {
    program.host.back().count += op->count;
    ++op;
  }
  const std::size_t first_op = program.host.size();
  program.host.insert(program.host.end(), op, p.host.end());
  for (std::size_t i = first_op; i < program.host.size(); ++i) {
    program::HostOp& added = program.host[i];
    if (added.kind == program::HostKind::sync) {
      added.wait.position = here(added.wait).position;
    }
  }
  for (std::size_t s = 0; s < part.pending_.size(); ++s) {
    for (const program::Wait& w : part.pending_[s]) {
      wait(StreamIndex::at(s), here(w));
    }
  }
  for (std::size_t s = 0; s < part.issued_.size(); ++s) {
    issued_[s] += part.issued_[s] - kBeforePart;
  }
}

program::Program Builder::finish() {
  note_distinct(distinct_from_, program);
  for (std::size_t index : whole_step_) {
    program.waits[index].position = issued_[program.waits[index].stream];
  }
  return std::move(program);
}

}  // namespace stepcast::lower
