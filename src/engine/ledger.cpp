#include "ledger.h"

#include <fmt/core.h>

#include <algorithm>
#include <stdexcept>
#include <vector>

namespace stepcast::engine {
namespace {

using program::Buffer;
using program::HostKind;
using program::Program;

struct Live {
  std::vector<std::uint8_t> buffers;  // whether each is live: all else but `most` follows from it
  Bytes bytes;                        // on the device
  std::array<Bytes, program::kMemoryCategories> by_category{};
  std::array<Bytes, program::kPlaces> elsewhere{};
  std::array<Bytes, program::kPlaces> most{};  // of `elsewhere`, so far

  void add(const Buffer& b, std::int64_t sign) { add(b, b.bytes, sign); }
  void add(const Buffer& b, Bytes of, std::int64_t sign) {
    if (b.place != program::Place::device) {
      const auto at = static_cast<std::size_t>(b.place);
      elsewhere[at] += sign * of;
      most[at] = std::max(most[at], elsewhere[at]);
      return;
    }
    bytes += sign * of;
    by_category[static_cast<std::size_t>(b.category)] += sign * of;
  }
};

// `lazy`: what stands behind the first step.
void make_persistent(const Program& p, bool lazy, Live& live) {
  for (std::size_t i = 0; i < p.buffers.size(); ++i) {
    const Buffer& b = p.buffers[i];
    if (b.persistent && (b.lazy || b.later) == lazy) {
      live.buffers[i] = 1;
      live.add(p.buffers[i], 1);
    }
  }
}

struct Step {
  Bytes peak;
  std::array<Bytes, program::kMemoryCategories> at_peak{};
  const program::HostOp* reached = nullptr;  // by this allocation; none: when the step begins
};

void change(const Program& p, const program::HostOp& op, bool first, Live& live) {
  const Buffer& b = p.buffers[op.buffer];
  if (first && b.later) {
    return;
  }
  const bool allocate = op.kind == HostKind::allocate;
  if (b.persistent) {
    throw std::invalid_argument(fmt::format(
        "program {}: persistent buffer {} is allocated or released", p.name, op.buffer));
  }
  if ((live.buffers[op.buffer] != 0) == allocate) {
    if (first && !allocate) {
      return;
    }
    throw std::invalid_argument(
        fmt::format("program {}: buffer {} is {}", p.name, op.buffer,
                    allocate ? "allocated while live" : "released while not live"));
  }
  live.buffers[op.buffer] = allocate ? 1 : 0;
  const bool other = first && b.first_step != program::kNone;
  live.add(b, other ? p.first_steps[b.first_step].bytes : b.bytes, allocate ? 1 : -1);
}

// Allocations and releases of a program, in their order.
using Changes = std::vector<const program::HostOp*>;

Changes changes_of(const Program& p) {
  Changes out;
  for (const program::HostOp& op : p.host) {
    if (op.kind == HostKind::allocate || op.kind == HostKind::release) {
      out.push_back(&op);
    }
  }
  return out;
}

Step replay_step(const Program& p, const Changes& changes, bool first, Live& live) {
  Step s;
  s.peak = live.bytes;
  s.at_peak = live.by_category;
  for (const program::HostOp* op : changes) {
    change(p, *op, first, live);
    if (live.bytes > s.peak) {
      s = Step{live.bytes, live.by_category, op};
    }
  }
  return s;
}

// The segment and the host time in it at which the host comes to an operation.
void place(const Program& p, const program::HostOp* at, Ledger& l) {
  if (at == nullptr) {
    return;
  }
  for (const program::HostOp* op = p.host.data(); op != at; ++op) {
    if (op->kind == HostKind::work) {
      l.peak_offset += op->duration;
    } else if (op->kind == HostKind::launch) {
      l.peak_offset += op->duration * op->count;
    } else if (op->kind == HostKind::sync) {
      ++l.peak_segment;
      l.peak_offset = Time{0};
    }
  }
}

}  // namespace

Ledger replay(const Program& p) {
  Live live;
  live.buffers.assign(p.buffers.size(), 0);
  make_persistent(p, false, live);
  Ledger l;
  const Changes changes = changes_of(p);
  l.first_step_peak = replay_step(p, changes, true, live).peak + p.first_step_extra;
  make_persistent(p, true, live);
  l.first_step_peak = std::max(l.first_step_peak, live.bytes);
  const std::vector<std::uint8_t> before = live.buffers;
  const Step steady = replay_step(p, changes, false, live);
  l.peak = steady.peak;
  l.at_peak = steady.at_peak;
  place(p, steady.reached, l);
  l.steady = live.bytes;
  l.periodic = live.buffers == before;  // the next step is the same
  if (!l.periodic) {
    const Step third = replay_step(p, changes, false, live);
    l.periodic = third.peak == l.peak && live.bytes == l.steady;
  }
  l.place_peak = live.most;
  return l;
}

}  // namespace stepcast::engine
