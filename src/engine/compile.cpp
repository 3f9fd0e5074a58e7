#include "compile.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <stdexcept>

#include "wide.h"

namespace stepcast::engine {
namespace {

using program::HostKind;
using program::Program;
using program::TaskKind;
using program::World;

template <class... Args>
void require(bool ok, fmt::format_string<Args...> text, Args&&... args) {
  if (!ok) {
    throw std::invalid_argument(fmt::format(text, std::forward<Args>(args)...));
  }
}

[[noreturn]] [[gnu::cold]] [[gnu::noinline]] void throw_beyond_time() {
  throw std::overflow_error("durations beyond 53 days do not fit 64-bit picoseconds");
}

// Two durations within time add up without overflow.
Time within_time(Time duration) {
  if (duration > kEndOfTime) {
    throw_beyond_time();
  }
  return duration;
}

// Throws where anything is wrong with a task.
[[gnu::cold]] [[gnu::noinline]] void check_task(const Program& p, std::size_t i) {
  const program::Task& t = p.tasks[i];
  require(t.stream < p.streams.size(), "program {}: task {} is on unknown stream {}", p.name, i,
          t.stream);
  require(t.duration >= Time{0}, "program {}: task {} has a negative duration", p.name, i);
  within_time(t.duration);
  require(t.waits == 0 || std::size_t{t.first_wait} + t.waits <= p.waits.size(),
          "program {}: waits of task {} are out of range", p.name, i);
  if (t.kind == TaskKind::exchange) {
    require(t.transfers > 0 && std::size_t{t.first_transfer} + t.transfers <= p.transfers.size(),
            "program {}: transfers of task {} are out of range", p.name, i);
    for (std::uint32_t k = 0; k < t.transfers; ++k) {
      require(p.transfers[t.first_transfer + k].channel < p.channel_roles,
              "program {}: task {} uses an unknown channel", p.name, i);
    }
  }
  if (t.kind == TaskKind::collective) {
    require(t.communicator < p.communicator_roles,
            "program {}: task {} uses an unknown communicator", p.name, i);
  }
}

// And counts those of each stream. Tasks are very many: most are sound by a few comparisons, and
// all others are looked at closely.
void check_tasks(const Program& p, CompiledProgram& c) {
  c.streams.resize(p.streams.size());
  const std::size_t streams = p.streams.size();
  const std::size_t waits = p.waits.size();
  const std::size_t tasks = p.tasks.size();
  const program::Task* const all = p.tasks.data();
  CompiledStream* const of = c.streams.data();
  std::uint8_t last_slowdown = 0;
  for (std::size_t i = 0; i < tasks; ++i) {
    const program::Task& t = all[i];
    bool sound = t.stream < streams && t.duration >= Time{0} && t.duration <= kEndOfTime &&
                 (t.waits == 0 || std::size_t{t.first_wait} + t.waits <= waits);
    if (t.kind == TaskKind::kernel) {
      last_slowdown = std::max(last_slowdown, t.slowdown);
    } else {
      c.communication.push_back(static_cast<std::uint32_t>(i));
      sound = sound && (t.kind == TaskKind::copy ||
                        (t.kind == TaskKind::collective && t.communicator < p.communicator_roles));
    }
    if (!sound) {
      check_task(p, i);
    }
    ++of[t.stream].count;
  }
  c.last_slowdown = last_slowdown;
}

// `c.streams` hold their numbers of tasks.
void place_streams(const Program& p, CompiledProgram& c) {
  std::uint32_t first = 0;
  for (CompiledStream& s : c.streams) {
    s.first = first;
    first += s.count;
  }
  c.tasks = std::make_unique_for_overwrite<CompiledTask[]>(p.tasks.size());
  c.size = p.tasks.size();
}

void fill(CompiledTask& to, const program::Task& t, std::uint32_t index) {
  to.duration = t.duration;
  to.communicator = t.communicator;
  to.price = t.price;
  to.waits = t.waits;
  to.transfers = t.transfers;
  to.kind = t.kind;
  to.slowdown = t.slowdown;
  to.category = t.category;
  to.wait_category = t.wait_category;
  to.first_wait = t.first_wait;
  to.first_transfer = t.first_transfer;
  to.task = index;
}

[[gnu::cold]] [[gnu::noinline]] void explain_wait(const Program& p, const CompiledProgram& c,
                                                  const program::Wait& w) {
  require(w.stream < c.streams.size(), "program {}: a wait names unknown stream {}", p.name,
          w.stream);
  require(w.position <= c.streams[w.stream].count,
          "program {}: a wait for position {} of stream {}, which has {} tasks", p.name, w.position,
          w.stream, c.streams[w.stream].count);
  require(w.lag <= 1, "program {}: a wait reaches back {} steps", p.name, w.lag);
}

void check_wait(const Program& p, const CompiledProgram& c, const program::Wait& w) {
  if (w.stream >= c.streams.size() || w.position > c.streams[w.stream].count || w.lag > 1) {
    explain_wait(p, c, w);
  }
}

// Throws where a duration is not within time.
[[gnu::cold]] [[gnu::noinline]] void check_duration(const Program& p, Time duration) {
  require(duration >= Time{0}, "program {}: a host operation has a negative duration", p.name);
  within_time(duration);
}

[[gnu::cold]] [[gnu::noinline]] void explain_launch(const Program& p) {
  require(false, "program {}: the host launches more tasks than there are", p.name);
}

[[gnu::cold]] [[gnu::noinline]] void explain_buffer(const Program& p, program::BufferIndex buffer) {
  require(false, "program {}: the host names unknown buffer {}", p.name, buffer);
}

// Walks the host operations once: segments, and each task with when in its segment it is issued.
void compile_host(const Program& p, CompiledProgram& c) {
  std::array<CompiledTask*, kMaxStreams> next{};  // by stream, where its next task goes
  for (std::size_t k = 0; k < c.streams.size(); ++k) {
    next[k] = c.tasks.get() + c.streams[k].first;
  }
  const program::Task* task = p.tasks.data();
  std::uint32_t issued = 0;
  const auto tasks = static_cast<std::uint32_t>(p.tasks.size());
  std::uint32_t segment = 0;
  Time length{0};  // of the segment
  for (const program::HostOp& op : p.host) {
    if (op.duration < Time{0} || op.duration > kEndOfTime) {
      check_duration(p, op.duration);
    }
    switch (op.kind) {
      case HostKind::work:
        length = within_time(length + op.duration);
        break;
      case HostKind::launch:
        if (op.count > tasks - issued) {
          explain_launch(p);
        }
        for (const std::uint32_t end = issued + op.count; issued < end; ++issued, ++task) {
          length = within_time(length + op.duration);
          CompiledTask& t = *next[task->stream]++;
          fill(t, *task, issued);
          t.segment = segment;
          t.issue_offset = length;
        }
        break;
      case HostKind::sync:
        check_wait(p, c, op.wait);
        c.segments.push_back({length, op.wait, false});
        length = Time{0};
        ++segment;
        break;
      case HostKind::allocate:
      case HostKind::release:
        if (op.buffer >= p.buffers.size()) {
          explain_buffer(p, op.buffer);
        }
        break;
    }
  }
  require(issued == tasks, "program {}: the host launches {} of {} tasks", p.name, issued, tasks);
  c.segments.push_back({length, {}, true});
}

Needs needs_of(const CompiledProgram& c) {
  const Program& p = *c.source;
  Needs n;
  n.communicators.assign(p.communicator_roles, 0);
  n.channels.assign(p.channel_roles, 0);
  n.sends.assign(p.channel_roles, false);
  n.receives.assign(p.channel_roles, false);
  for (const std::uint32_t i : c.communication) {
    const program::Task& t = p.tasks[i];
    switch (t.kind) {
      case TaskKind::kernel:
        break;
      case TaskKind::collective:
        n.communicators[t.communicator] = std::max(n.communicators[t.communicator], t.price + 1);
        break;
      case TaskKind::copy:
        n.copies = std::max(n.copies, t.price + 1);
        break;
      case TaskKind::exchange:
        for (std::uint32_t k = t.first_transfer; k < t.first_transfer + t.transfers; ++k) {
          const program::Transfer& x = p.transfers[k];
          n.channels[x.channel] = std::max(n.channels[x.channel], x.price + 1);
          (x.send ? n.sends : n.receives)[x.channel] = true;
        }
        break;
    }
  }
  return n;
}

}  // namespace

CompiledProgram compile(const Program& p) {
  require(!p.streams.empty() && p.streams.size() <= kMaxStreams,
          "program {}: {} streams; 1 to {} are possible", p.name, p.streams.size(), kMaxStreams);
  CompiledProgram c;
  c.source = &p;
  check_tasks(p, c);
  place_streams(p, c);
  require(c.streams[0].count > 0, "program {}: the compute stream has no tasks", p.name);
  for (const program::Wait& w : p.waits) {
    check_wait(p, c, w);
  }
  compile_host(p, c);
  c.needs = needs_of(c);
  return c;
}

namespace {

void check_usages(const World& w, std::uint32_t first, std::uint32_t count, const char* what,
                  std::size_t which) {
  require(count == 0 || std::size_t{first} + count <= w.usages.size(), "{} {}: usages out of range",
          what, which);
  for (std::uint32_t k = 0; k < count; ++k) {
    const program::Usage& u = w.usages[first + k];
    require(u.resource < w.resources.size() && u.kind < program::kResourceKinds && u.count > 0,
            "{} {}: usage {} is invalid", what, which, k);
  }
}

// `who` is a format of the rank and the role.
template <class Role>
void check_price(const World& w, std::uint32_t shape, std::uint32_t price,
                 fmt::format_string<std::uint32_t&, Role&> who, std::uint32_t rank, Role role) {
  if (shape >= w.shapes.size() || price >= w.shapes[shape].prices.size()) {
    throw std::invalid_argument(fmt::format(who, rank, role) +
                                fmt::format(": price {} of shape {} does not exist", price, shape));
  }
}

void check_prices(const World& w) {
  for (std::size_t i = 0; i < w.resources.size(); ++i) {
    require(w.resources[i].capacity > 0, "resource {}: capacity must be positive", i);
  }
  for (std::size_t i = 0; i < w.shapes.size(); ++i) {
    for (const program::Price& p : w.shapes[i].prices) {
      require(p.latency >= Time{0} && p.fluid >= Time{0} && p.rate > 0 &&
                  *std::min_element(std::begin(p.weight), std::end(p.weight)) >= 0,
              "shape {}: a price is negative or has no rate", i);
      within_time(within_time(p.latency) + within_time(p.fluid));
    }
  }
  for (std::size_t i = 0; i < w.slowdowns.size(); ++i) {
    require(w.slowdowns[i].step > 0 && (i == 0 || !w.slowdowns[i].speed.empty()),
            "slowdown {} is empty", i);
    // Very many: nothing is done for each but to compare it.
    const std::vector<std::int64_t>& speed = w.slowdowns[i].speed;
    require(std::all_of(speed.begin(), speed.end(),
                        [](std::int64_t s) { return s > 0 && s <= 1'000'000; }),
            "slowdown {}: speeds are 1 to 1000000 ppm", i);
  }
  for (const std::int64_t s : w.transfer_speed) {
    require(s > 0 && s <= 1'000'000, "transfer_speed: 1 to 1000000 ppm");
  }
}

void check_rank(const World& w, std::uint32_t r, const Needs& n) {
  const program::Rank& rank = w.ranks[r];
  check_usages(w, rank.first_usage, rank.usages, "rank", r);
  require(std::size_t{rank.first_communicator} + n.communicators.size() <=
                  w.communicator_table.size() &&
              std::size_t{rank.first_channel} + n.channels.size() <= w.channel_table.size(),
          "rank {}: tables of roles out of range", r);
  for (std::uint32_t k = 0; k < n.communicators.size(); ++k) {
    const program::CommunicatorId id = w.communicator_table[rank.first_communicator + k];
    require(id < w.communicators.size() || (id == program::kNone && n.communicators[k] == 0),
            "rank {}: communicator role {} is used but resolves to nothing", r, k);
    if (n.communicators[k] > 0) {
      check_price(w, w.communicators[id].shape, n.communicators[k] - 1,
                  "rank {} communicator role {}", r, k);
    }
  }
  for (std::uint32_t k = 0; k < n.channels.size(); ++k) {
    const program::ChannelId id = w.channel_table[rank.first_channel + k];
    require(id < w.channels.size() || (id == program::kNone && n.channels[k] == 0),
            "rank {}: channel role {} is used but resolves to nothing", r, k);
    if (n.channels[k] > 0) {
      check_price(w, w.channels[id].shape, n.channels[k] - 1, "rank {} channel role {}", r, k);
      require((!n.sends[k] || w.channels[id].sender == r) &&
                  (!n.receives[k] || w.channels[id].receiver == r),
              "rank {}: channel role {} is used from the wrong end", r, k);
    }
  }
  if (n.copies > 0) {
    check_price(w, rank.copy_shape, n.copies - 1, "rank {} copies{}", r, "");
  }
}

// Every member's role resolves to the communicator once, and once only: uses are paired by count.
void check_members(const World& w) {
  std::vector<std::uint32_t> members(w.communicators.size(), 0);
  for (const program::Rank& rank : w.ranks) {
    for (std::uint32_t k = 0; k < w.programs[rank.program].communicator_roles; ++k) {
      const program::CommunicatorId id = w.communicator_table[rank.first_communicator + k];
      if (id != program::kNone) {
        ++members[id];
      }
    }
  }
  for (std::size_t i = 0; i < members.size(); ++i) {
    require(members[i] == w.communicators[i].members || members[i] == 0,
            "communicator {}: {} roles of ranks resolve to it, {} members are announced", i,
            members[i], w.communicators[i].members);
  }
}

}  // namespace

void check(const World& w, const std::vector<CompiledProgram>& programs) {
  require(!w.ranks.empty(), "a world without ranks");
  check_prices(w);
  for (std::size_t i = 0; i < w.communicators.size(); ++i) {
    check_usages(w, w.communicators[i].first_usage, w.communicators[i].usages, "communicator", i);
  }
  for (std::size_t i = 0; i < w.channels.size(); ++i) {
    check_usages(w, w.channels[i].first_usage, w.channels[i].usages, "channel", i);
  }
  for (const CompiledProgram& p : programs) {
    require(p.last_slowdown == 0 || p.last_slowdown < w.slowdowns.size(),
            "program {}: unknown slowdown row {}", p.source->name, p.last_slowdown);
  }
  for (std::uint32_t r = 0; r < w.ranks.size(); ++r) {
    require(w.ranks[r].program < w.programs.size(), "rank {}: unknown program", r);
    check_rank(w, r, programs[w.ranks[r].program].needs);
  }
  check_members(w);
}

}  // namespace stepcast::engine
