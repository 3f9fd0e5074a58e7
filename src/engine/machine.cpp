#include "machine.h"

#include <algorithm>
#include <stdexcept>

#include "binding.h"
#include "history.h"
#include "stepcast/base/fnv.h"

namespace stepcast::engine {

using program::kNone;
using program::TaskKind;

Machine::Machine(const program::World& world, const Options& options, Prepared::Programs& programs,
                 const Share* share)
    : world_(world),
      options_(options),
      programs_(programs),
      network_(world.resources),
      is_part_(share != nullptr) {
  limit_ = step_limit(options);
  host_limit_ = limit_;
  for (const CompiledProgram& p : programs.compiled) {
    if (p.size * limit_ >= kNone) {
      throw std::invalid_argument("program " + p.source->name + ": more tasks than 32 bits count");
    }
  }
  if (!is_part_) {
    check(world, programs.compiled);
  }
  const auto ranks = static_cast<std::uint32_t>(world.ranks.size());
  ranks_.resize(ranks);
  accounts_.resize(ranks);
  std::size_t streams = 0;
  std::size_t bases = 0;
  for (const program::Rank& r : world.ranks) {
    streams += programs.compiled[r.program].streams.size();
  }
  streams_.resize(streams);
  std::uint32_t rs = 0;
  for (std::uint32_t r = 0; r < ranks; ++r) {
    RankState& to = ranks_[r];
    to.program = &programs.compiled[world.ranks[r].program];
    to.first_stream = rs;
    to.streams = static_cast<std::uint32_t>(to.program->streams.size());
    to.waits = to.program->source->waits.data();
    to.first_communicator = world.ranks[r].first_communicator;
    to.first_channel = world.ranks[r].first_channel;
    to.segments = static_cast<std::uint32_t>(to.program->segments.size());
    to.first_base = bases;
    bases += to.program->segments.size() * kBaseSteps;
    for (std::uint32_t k = 0; k < to.streams; ++k, ++rs) {
      StreamState& s = streams_[rs];
      s.tasks = to.program->tasks.get() + to.program->streams[k].first;
      s.count = to.program->streams[k].count;
      s.rank = r;
      s.index = static_cast<std::uint8_t>(k);
      unfinished_ += s.count > 0 ? 1 : 0;
    }
  }
  bases_.assign(bases, Time{0});
  communicators_.resize(world.communicators.size());
  channels_.resize(world.channels.size());
  keep_binding_usages();
  if (share != nullptr) {
    find_noted(*share);
  }
  uses_.assign(world.communicator_table.size(), 0);
  ranks_done_.assign(limit_, 0);
  issued_at_boundary_.assign(ranks, 0);
  boundaries_.resize(limit_);
  breakdowns_.resize(limit_);
  digests_.resize(limit_);
  transfers_slow_ = std::any_of(world.transfer_speed.begin(), world.transfer_speed.end(),
                                [](std::int64_t s) { return s != kFullSpeed; });
  if (transfers_slow_) {
    flowing_.resize(ranks);
  }
  if (options.record_slices || options.record_memory || options.sensitivities) {
    history_ = std::make_unique<History>(*this);
  }
}

Machine::~Machine() = default;

void Machine::keep_binding_usages() {
  const std::vector<bool> binds = is_part_ ? std::vector<bool>(world_.resources.size(), true)
                                           : can_bind(world_, programs_.at_once);
  const auto keep = [&](std::uint32_t first, std::uint32_t count, auto& to) {
    to.first_usage = static_cast<std::uint32_t>(usages_.size());
    for (std::uint32_t k = first; k < first + count; ++k) {
      if (binds[world_.usages[k].resource]) {
        usages_.push_back(world_.usages[k]);
      }
    }
    to.usages = static_cast<std::uint32_t>(usages_.size()) - to.first_usage;
  };
  for (std::size_t i = 0; i < communicators_.size(); ++i) {
    keep(world_.communicators[i].first_usage, world_.communicators[i].usages, communicators_[i]);
  }
  for (std::size_t i = 0; i < channels_.size(); ++i) {
    keep(world_.channels[i].first_usage, world_.channels[i].usages, channels_[i]);
  }
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    keep(world_.ranks[i].first_usage, world_.ranks[i].usages, ranks_[i]);
  }
}

void Machine::mark(RankState& r, std::uint32_t rank, std::uint32_t streams) {
  r.examine |= streams;
  if (!r.dirty) {
    r.dirty = true;
    dirty_.push_back(rank);
  }
}

// Those who watch a stream and now have what they await.
std::uint32_t Machine::released(const RankState& r, StreamState& s) {
  if (s.completed < s.soonest) {
    return 0;
  }
  std::uint32_t out = 0;
  std::uint32_t soonest = kNone;
  const auto look = [&](std::uint32_t watcher, std::uint32_t needs) {
    out |= needs <= s.completed ? watcher : 0;
    soonest = needs <= s.completed ? soonest : std::min(soonest, needs);
  };
  for (std::uint32_t left = s.watchers & ~kHostBit; left != 0; left &= left - 1) {
    const auto k = static_cast<std::uint32_t>(std::countr_zero(left));
    look(1U << k, streams_[r.first_stream + k].awaited);
  }
  if ((s.watchers & kHostBit) != 0) {
    look(kHostBit, r.host_need);
  }
  s.watchers &= ~out;
  s.soonest = soonest;
  return out;
}

// What every task runs through is compiled into one: calls would be a fifth of a large world's
// instructions.

namespace {

// The usual speed is a constant, which divides by multiplication.
Time time_left(const StreamState& s) {
  return s.speed == kFullSpeed ? time_of(s.remaining, kFullSpeed) : time_of(s.remaining, s.speed);
}

}  // namespace

[[gnu::always_inline]] inline std::int64_t Machine::kernel_speed(const RankState& r,
                                                                 std::uint8_t row) const {
  const program::Slowdown& d = world_.slowdowns[row];
  const auto i = r.pressure == 0 ? 0U : static_cast<std::uint32_t>(r.pressure) / d.step;
  return d.speed[std::min<std::size_t>(i, d.speed.size() - 1)];
}

[[gnu::always_inline]] inline void Machine::begin_kernel(RankState& r, std::uint32_t rs,
                                                         const CompiledTask& t, Time now) {
  StreamState& s = streams_[rs];
  s.state = Activity::running;
  if (t.slowdown == 0) {
    s.credit = 0;
    push(now + t.duration, EventKind::task_end, rs, s.generation);
    return;
  }
  // Two kernels in a row take what one of their joint length takes: the second inherits the
  // fraction of a picosecond by which the first was done early.
  const bool inherits = s.credit != 0 && s.credit_row == t.slowdown && s.last_end == now;
  s.remaining = work(kFullSpeed, t.duration) - (inherits ? s.credit : 0);
  s.since = now;
  s.credit_row = t.slowdown;
  s.speed = static_cast<std::int32_t>(kernel_speed(r, t.slowdown));
  r.slowed |= 1U << s.index;
  if (transfers_slow_ && !r.repricing) {
    r.repricing = true;
    repricing_.push_back(s.rank);
  }
  push(now + time_left(s), EventKind::task_end, rs, s.generation);
}

// The one thing whose end let the head arrive now. When several ended at this instant: its own
// stream, then the first of its waits, then the host.
[[gnu::always_inline]] inline std::uint8_t Machine::bound_by(const RankState& r,
                                                             const StreamState& s,
                                                             const CompiledTask& t,
                                                             Time now) const {
  if (s.last_end == now && s.completed > 0) {
    return s.index;
  }
  const program::Wait* waits = r.waits + t.first_wait;
  for (std::uint32_t k = 0; k < t.waits; ++k) {
    const StreamState& on = streams_[r.first_stream + waits[k].stream];
    if (on.last_end == now && on.completed > 0 && on.completed == need(r, s.step, waits[k])) {
      return on.index;
    }
  }
  const bool by_host = r.host_step < s.step + kHostSteps && issue_of(r, s, t) == now;
  return by_host ? kBoundByHost : kBoundByNothing;
}

[[gnu::always_inline]] inline void Machine::begin(RankState& r, std::uint32_t rs,
                                                  const CompiledTask& t, Time now) {
  StreamState& s = streams_[rs];
  s.arrive = now;
  s.begin = now;
  s.wait_index = 0;
  if (s.index != 0 || s.last_end < now) {
    s.bound_by = bound_by(r, s, t, now);
  }
  if (s.index == 0) {
    if (s.last_end < now) {
      charge_idle(s.rank, s.last_end, now, s.bound_by);
    }
    accounts_[s.rank].passages.clear();
  }
  switch (t.kind) {
    case TaskKind::kernel:
      begin_kernel(r, rs, t, now);
      break;
    case TaskKind::collective:
      s.state = Activity::meeting;
      join_collective(r, rs, t, now);
      break;
    case TaskKind::exchange:
      s.state = Activity::meeting;
      post_exchange(r, rs, t, now);
      break;
    case TaskKind::copy:
      s.state = Activity::meeting;
      start_copy(r, rs, t, now);
      break;
  }
}

[[gnu::always_inline]] inline void Machine::try_start(RankState& r, std::uint32_t rs, Time now) {
  StreamState& s = streams_[rs];
  if (s.state != Activity::idle || s.step == limit_ || s.count == 0) {
    return;
  }
  const CompiledTask& t = s.tasks[s.position];
  if (r.issued <= std::uint64_t{s.step} * r.segments + t.segment) {
    r.host_blocked |= 1U << s.index;
    return;
  }
  const program::Wait* waits = r.waits + t.first_wait;
  while (s.wait_index < t.waits) {
    const program::Wait& w = waits[s.wait_index];
    StreamState& on = streams_[r.first_stream + w.stream];
    const std::uint32_t awaited = need(r, s.step, w);
    if (on.completed < awaited) {
      s.awaited = awaited;
      on.watched_by(1U << s.index, awaited);
      return;
    }
    ++s.wait_index;
  }
  if (r.host_step < s.step + kHostSteps) {
    const Time issue = issue_of(r, s, t);
    if (issue > now) {
      s.state = Activity::waking;
      push(issue, EventKind::wake, rs, 0);
      return;
    }
  }
  begin(r, rs, t, now);
}

void Machine::examine(std::uint32_t rank, Time now) {
  RankState& r = ranks_[rank];
  while (r.examine != 0) {
    std::uint32_t todo = r.examine;
    r.examine = 0;
    if ((todo & kHostBit) != 0) {
      todo &= ~kHostBit;
      advance_host(r, now);
    }
    while (todo != 0) {
      const int k = std::countr_zero(todo);
      todo &= todo - 1;
      try_start(r, r.first_stream + static_cast<std::uint32_t>(k), now);
    }
  }
  r.dirty = false;
}

void Machine::start(bool host_leads) {
  for (std::uint32_t r = 0; r < ranks_.size(); ++r) {
    // Where the first step shows that it was another start than a steady step's, a third is run.
    ranks_[r].clock = host_leads ? -ranks_[r].program->segments.front().length : Time{0};
    advance_host(ranks_[r], Time{0});
    mark(ranks_[r], r, (1U << ranks_[r].streams) - 1);
  }
  for (std::size_t i = 0; i < dirty_.size(); ++i) {
    examine(dirty_[i], Time{0});
  }
  dirty_.clear();
  settle(Time{0});
}

bool Machine::advance() {
  if (!fault_.empty() || !queue_.next(batch_)) {
    return false;
  }
  const Time now = queue_.now();
  if (now == kEndOfTime) {
    throw std::overflow_error("simulated steps beyond 53 days do not fit 64-bit picoseconds");
  }
  do {
    events_ += batch_.size();
    for (const Event& e : batch_) {
      apply(e, now);
    }
    for (std::size_t i = 0; i < dirty_.size(); ++i) {
      examine(dirty_[i], now);
    }
    dirty_.clear();
  } while (queue_.more_now() && queue_.next(batch_));
  settle(now);
  return fault_.empty();
}

void Machine::apply(const Event& e, Time now) {
  const std::uint32_t id = e.subject & 0x3fffffffU;
  switch (static_cast<EventKind>(e.subject >> 30)) {
    case EventKind::task_end:
      if (streams_[id].generation == e.generation) {
        complete(id, now, nullptr);
      }
      break;
    case EventKind::wake: {
      StreamState& s = streams_[id];
      s.state = Activity::idle;
      mark(ranks_[s.rank], s.rank, 1U << s.index);
      break;
    }
    case EventKind::flow:
      shared_events_ += is_shared(operations_[id]) ? 1U : 0U;
      flow(id, now);
      break;
    case EventKind::operation_end:
      shared_events_ += is_shared(operations_[id]) ? 1U : 0U;
      if (operations_[id].generation == e.generation) {
        end_operation(id, now);
      }
      break;
  }
}

void Machine::press(RankState& r, std::uint32_t rank, int by) {
  r.pressure += by;
  if (!r.repricing) {
    r.repricing = true;
    repricing_.push_back(rank);
  }
}

void Machine::press_to(RankState& r, std::uint32_t rs, std::uint16_t pressure) {
  StreamState& s = streams_[rs];
  if (pressure != s.pressure) {
    press(r, s.rank, static_cast<int>(pressure) - static_cast<int>(s.pressure));
    s.pressure = pressure;
  }
}

void Machine::reprice(RankState& r, Time now) {
  // A kernel that began within this instant may have been priced at a pressure that lasted no time:
  // every running kernel is looked at.
  for (std::uint32_t left = r.slowed; left != 0; left &= left - 1) {
    const std::uint32_t rs = r.first_stream + static_cast<std::uint32_t>(std::countr_zero(left));
    StreamState& s = streams_[rs];
    const std::int64_t speed = kernel_speed(r, s.credit_row);
    if (speed == s.speed) {
      continue;
    }
    s.remaining -= work(s.speed, now - s.since);
    s.since = now;
    s.speed = static_cast<std::int32_t>(speed);
    ++s.generation;
    push(now + time_left(s), EventKind::task_end, rs, s.generation);
  }
}

void Machine::complete(std::uint32_t rs, Time now, const Operation* by) {
  StreamState& s = streams_[rs];
  RankState& r = ranks_[s.rank];
  const CompiledTask& t = s.tasks[s.position];
  if (t.kind == TaskKind::kernel) {
    if (t.slowdown != 0) {
      s.credit = static_cast<std::int32_t>(work(s.speed, now - s.since) - s.remaining);
      r.slowed &= ~(1U << s.index);
      if (transfers_slow_ && !r.repricing) {
        r.repricing = true;
        repricing_.push_back(s.rank);
      }
    }
  } else {
    s.credit = 0;
    s.moving = 0;
    press_to(r, rs, 0);
  }
  Account& account = accounts_[s.rank];
  if (s.index == 0) {
    charge_busy(account, s, t, now);
  } else {
    const Activity compute = streams_[r.first_stream].state;
    if (compute == Activity::idle || compute == Activity::waking) {
      account.passages.push_back(
          {s.arrive, s.begin, now, s.index, s.bound_by, t.category, t.wait_category});
    }
  }
  if (history_) {
    history_->record(rs, now, by);
  }
  ++tasks_done_;
  s.state = Activity::idle;
  s.last_end = now;
  ++s.completed;
  mark(r, s.rank, (1U << s.index) | (s.watchers != 0 ? released(r, s) : 0));
  if (++s.position == s.count) {
    s.position = 0;
    ++s.step;
    if (s.step == limit_) {
      --unfinished_;
    }
    if (s.index == 0) {
      finish_step(s.rank, s.step - 1, now);
    }
  }
}

std::uint64_t Machine::state_digest(std::uint32_t rank, std::uint32_t step, Time now) const {
  std::uint64_t hash = kFnvOffset;
  const auto mix = [&hash](std::int64_t value) {
    hash = fnv_mix(hash, static_cast<std::uint64_t>(value));
  };
  const auto mix_age = [&mix, now](Time since) { mix((since - now).count()); };
  const RankState& r = ranks_[rank];
  mix_age(r.clock);
  mix(std::int64_t{r.host_step} - step);
  mix(r.host_segment);
  mix(r.host_waits ? 1 : 0);
  mix(r.pressure);
  for (std::uint32_t i = 0; i < r.streams; ++i) {
    const StreamState& s = streams_[r.first_stream + i];
    if (s.count == 0) {  // never used, never at a step
      continue;
    }
    mix(s.position);
    mix(std::int64_t{s.step} - step);
    mix(static_cast<std::int64_t>(s.state));
    // What a stream that waits to begin did before makes no difference to what comes.
    if (s.state == Activity::running || s.state == Activity::meeting) {
      mix_age(s.arrive);
      mix_age(s.begin);
    }
    if (s.state == Activity::running && s.tasks[s.position].slowdown != 0) {
      mix_age(s.since);
      mix(static_cast<std::int64_t>(s.remaining));
      mix(s.speed);
    }
  }
  return hash;
}

void Machine::finish_step(std::uint32_t rank, std::uint32_t step, Time now) {
  if (boundaries_[step].empty()) {
    boundaries_[step].resize(ranks_.size());
    breakdowns_[step].resize(ranks_.size());
    digests_[step].resize(ranks_.size());
  }
  boundaries_[step][rank] = now;
  breakdowns_[step][rank] = accounts_[rank].now;
  accounts_[rank].now = Breakdown{};
  digests_[step][rank] = state_digest(rank, step, now);
  issued_at_boundary_[rank] = ranks_[rank].issued;
  if (++ranks_done_[step] == ranks_.size()) {
    steps_finished_ = step + 1;
  }
}

// A communicator of several parts is known by its number, all else by the shared resources that it
// uses.
void Machine::find_noted(const Share& share) {
  const auto of_usages = [&](std::uint32_t first, std::uint32_t count) {
    Digest d;
    bool any = false;
    for (std::uint32_t k = first; k < first + count; ++k) {
      const program::Usage& u = usages_[k];
      if (const std::uint32_t id = share.resources[u.resource]; id != kNone) {
        d.mix((std::int64_t{id} << 8) | u.kind);
        d.mix(u.count);
        any = true;
      }
    }
    return any ? d.a | 1U : 0U;
  };
  for (std::size_t i = 0; i < communicators_.size(); ++i) {
    CommunicatorState& c = communicators_[i];
    const std::uint32_t id = share.communicators[i];
    c.shared = id != kNone;
    c.noted = c.shared ? fnv_mix(kFnvOffset, id) | 1U : of_usages(c.first_usage, c.usages);
  }
  for (ChannelState& c : channels_) {
    c.noted = of_usages(c.first_usage, c.usages);
  }
  for (const RankState& r : ranks_) {
    copies_noted_.push_back(of_usages(r.first_usage, r.usages));
  }
}

void Machine::note_shared(const Operation& op, Noted what, Time at, std::int64_t rate) {
  const bool collective = op.kind == TaskKind::collective;
  const std::uint64_t of = collective                      ? communicators_[op.home].noted
                           : op.kind == TaskKind::exchange ? channels_[op.home].noted
                                                           : copies_noted_[op.home];
  if (of == 0) {
    return;
  }
  // Several in one instant come in any order.
  Digest one;
  one.mix(static_cast<std::int64_t>(of));
  one.mix(static_cast<std::uint8_t>(what));
  one.mix(at.count());
  one.mix(rate);
  if (collective && communicators_[op.home].shared) {
    one.mix((std::int64_t{op.use} << 32) | op.key);
  }
  for (const std::int64_t weight : op.price->weight) {
    one.mix(weight);
  }
  met_.add(one);
}

void Machine::note_jump(Time by) {
  Digest one;
  one.mix(static_cast<std::uint8_t>(Noted::jump));
  one.mix(queue_.now().count());
  one.mix(by.count());
  met_.add(one);
}

void Machine::settle(Time now) {
  for (const std::uint32_t rank : repricing_) {
    RankState& r = ranks_[rank];
    r.repricing = false;
    reprice(r, now);
    if (transfers_slow_) {
      recap(rank);
    }
  }
  repricing_.clear();
  for (const std::uint32_t id : recapped_) {
    note(operations_[id], Noted::cap, now, network_.cap(id));
  }
  recapped_.clear();
  if (network_.unsettled()) {
    for (const Network::Ending& e : network_.settle(now)) {
      Operation& op = operations_[e.activity];
      ++op.generation;
      push(e.time, EventKind::operation_end, e.activity, op.generation);
      note(op, Noted::rate, e.time, network_.rate(e.activity));
    }
  }
}

}  // namespace stepcast::engine
