#include "history.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "machine.h"

namespace stepcast::engine {

using program::HostKind;
using program::kNone;
using program::Program;
using program::TaskKind;

History::History(const Machine& machine) : machine_(machine) {
  const program::World& world = machine.world();
  const std::size_t programs = machine.programs().compiled.size();
  meeting_index_.resize(programs, nullptr);
  alike_.assign(programs, 0);
  for (const program::Rank& rank : world.ranks) {
    ++alike_[rank.program];
  }
  // By program, of what its ranks begin with.
  std::vector<std::size_t> ends(programs);
  std::vector<std::size_t> meetings(programs);
  for (std::uint32_t r = 0; r < world.ranks.size(); ++r) {
    const program::ProgramId id = world.ranks[r].program;
    const CompiledProgram& p = machine.program(r);
    if (meeting_index_[id] == nullptr) {
      const std::vector<std::uint32_t>& index = machine.programs().communicating_before(id);
      meeting_index_[id] = index.data();
      ends[id] = ends_per_step_;
      ends_per_step_ += p.size * alike_[id];
      meetings[id] = meetings_per_step_;
      meetings_per_step_ += std::size_t{index.back()} * alike_[id];
    }
    for (const CompiledStream& s : p.streams) {
      first_.push_back(ends[id] + std::size_t{s.first} * alike_[id]);
    }
    ++ends[id];
    first_meeting_.push_back(meetings[id]++);
  }
  for (const program::Shape& s : machine.world().shapes) {
    for (const program::Price& p : s.prices) {
      price_index_.emplace(&p, static_cast<std::uint32_t>(prices_.size()));
      prices_.push_back(&p);
    }
  }
}

void History::keep_until(std::uint32_t step) {
  last_step_ = step;
  completed_.reserve(first_.size());
  for (std::uint32_t rs = 0; rs < first_.size(); ++rs) {
    completed_.push_back(machine_.stream(rs).completed);
  }
}

const History::Step& History::step_of(std::uint32_t rs, std::uint32_t ordinal) const {
  return steps_[ordinal / machine_.stream(rs).count % kSteps];
}

// In the ends of its step.
std::size_t History::end_at(std::uint32_t rs, std::uint32_t ordinal) const {
  const StreamState& s = machine_.stream(rs);
  return first_[rs] + std::size_t{ordinal % s.count} * alike_[program_of(s)];
}

std::size_t History::meeting_at(const StreamState& s, std::uint32_t position) const {
  const program::ProgramId id = program_of(s);
  const std::uint32_t task = machine_.program(s.rank).streams[s.index].first + position;
  return first_meeting_[s.rank] + std::size_t{meeting_index_[id][task]} * alike_[id];
}

program::ProgramId History::program_of(const StreamState& s) const {
  return machine_.world().ranks[s.rank].program;
}

template <class F>
std::uint32_t History::recorded(std::uint32_t rs, std::uint32_t ordinal, const F& f) const {
  // What came again last may have come of what came again before.
  for (auto j = jumps_.rbegin(); j != jumps_.rend(); ++j) {
    const std::uint32_t by = j->tasks[rs];
    if (by > 0 && ordinal >= j->from[rs] && ordinal - j->from[rs] < by * j->times) {
      const std::uint32_t periods = (ordinal - j->from[rs]) / by + 1;
      ordinal -= periods * by;
      f(*j, periods);
    }
  }
  return ordinal;
}

History::Span History::span(std::uint32_t rs, std::uint32_t ordinal) const {
  return {arrival({rs, ordinal}).time, end(rs, ordinal)};
}

Time History::end(std::uint32_t rs, std::uint32_t ordinal) const {
  Time later{0};
  const std::uint32_t at =
      recorded(rs, ordinal, [&](const Jump& j, std::uint32_t n) { later += n * j.period; });
  // As step_of and end_at have it, with one division.
  const StreamState& s = machine_.stream(rs);
  const std::uint32_t step = at / s.count;
  const std::size_t place = first_[rs] + std::size_t{at - step * s.count} * alike_[program_of(s)];
  return steps_[step % kSteps].ends[place] + later;
}

std::uint32_t History::need(std::uint32_t rank, std::uint32_t step, const program::Wait& w) const {
  const std::uint32_t count = machine_.stream(machine_.rank(rank).first_stream + w.stream).count;
  return w.lag > step ? 0 : (step - w.lag) * count + w.position;
}

// A task begins as soon as the one before it on its stream and all that it waits for have ended and
// the host has issued it: Machine::try_start. Of several at once the first counts, as in
// Machine::bound_by.
History::Arrival History::arrival(Place p) const {
  const StreamState& s = machine_.stream(p.rs);
  const CompiledTask& t = s.tasks[p.ordinal % s.count];
  const std::uint32_t step = p.ordinal / s.count;
  Arrival out{Time::min(), {}};
  const auto wait_for = [&](std::uint32_t stream, std::uint32_t tasks) {
    if (tasks > 0 && kept(stream, tasks - 1)) {
      const Time e = end(stream, tasks - 1);
      out = e > out.time ? Arrival{e, {stream, tasks - 1}} : out;
    }
  };
  wait_for(p.rs, p.ordinal);
  const RankState& rank = machine_.rank(s.rank);
  for (std::uint32_t k = t.first_wait; k < t.first_wait + t.waits; ++k) {
    wait_for(rank.first_stream + rank.waits[k].stream, need(s.rank, step, rank.waits[k]));
  }
  const Time issued = std::max(Time{0}, machine_.issued_at(s.rank, step, t));
  return issued > out.time ? Arrival{issued, {}} : out;
}

History::Meeting History::meeting(std::uint32_t rs, std::uint32_t ordinal) const {
  const StreamState& s = machine_.stream(rs);
  const std::uint32_t at = recorded(rs, ordinal, [](const Jump&, std::uint32_t) {});
  Meeting m = step_of(rs, at).meetings[meeting_at(s, at % s.count)];
  recorded(rs, ordinal,
           [&](const Jump& j, std::uint32_t n) { m.last_ordinal += n * j.tasks[m.last]; });
  return m;
}

void History::make_room(Step& of) const {
  of.ends = std::make_unique_for_overwrite<Time[]>(ends_per_step_);
  of.meetings = std::make_unique_for_overwrite<Meeting[]>(meetings_per_step_);
  if (machine_.options().record_slices) {
    of.begins = std::make_unique_for_overwrite<Time[]>(ends_per_step_);
  }
}

inline History::Step& History::make(std::uint32_t step) {
  Step& of = steps_[step % kSteps];
  if (of.ends == nullptr) {
    make_room(of);
  }
  return of;
}

void History::record(std::uint32_t rs, Time now, const Operation* by) {
  const StreamState& s = machine_.stream(rs);
  if (s.step > last_step_) {
    return;
  }
  // As span_at has it, without its division.
  Step& step = make(s.step);
  const std::size_t at = first_[rs] + std::size_t{s.position} * alike_[program_of(s)];
  step.ends[at] = now;
  if (step.begins != nullptr) {
    step.begins[at] = s.begin;
  }
  if (by != nullptr) {
    if (by->price != last_price_) {  // members of one operation end together
      last_price_ = by->price;
      last_price_index_ = price_index_.at(by->price);
    }
    step.meetings[meeting_at(s, s.position)] = {by->last, by->last_ordinal, last_price_index_};
  }
}

void History::repeat(const std::vector<std::uint32_t>& tasks, std::uint32_t times, Time period) {
  // A jump that is noted takes two numbers a stream, and time of whoever looks for a task.
  constexpr std::size_t kMostNoted = 32;  // in a step
  const std::uint64_t all = std::accumulate(tasks.begin(), tasks.end(), std::uint64_t{0}) * times;
  if (!machine_.options().record_slices && all * kMostNoted > ends_per_step_) {
    note(tasks, times, period);
    return;
  }
  for (std::uint32_t rs = 0; rs < tasks.size(); ++rs) {
    if (tasks[rs] > 0 && machine_.stream(rs).step <= last_step_) {
      write_again(rs, tasks, times, period);
    }
  }
}

void History::note(std::vector<std::uint32_t> tasks, std::uint32_t times, Time period) {
  Jump& j = jumps_.emplace_back();
  j.from.reserve(tasks.size());
  for (std::uint32_t rs = 0; rs < tasks.size(); ++rs) {
    j.from.push_back(machine_.stream(rs).completed);
  }
  j.tasks = std::move(tasks);
  j.times = times;
  j.period = period;
}

void History::write_again(std::uint32_t rs, const std::vector<std::uint32_t>& tasks,
                          std::uint32_t times, Time period) {
  const StreamState& s = machine_.stream(rs);
  const std::uint32_t by = tasks[rs];
  Step& step = make(s.step);
  const CompiledProgram& p = machine_.program(s.rank);
  const std::uint32_t first_task = p.streams[s.index].first;
  const std::uint32_t behind = s.position + by * times;
  for (std::uint32_t i = s.position; i < behind; ++i) {
    const std::uint32_t ordinal = s.step * s.count + i;
    step.ends[end_at(rs, ordinal)] = end(rs, ordinal - by) + period;
    if (step.begins != nullptr) {
      step.begins[end_at(rs, ordinal)] = step.begins[end_at(rs, ordinal - by)] + period;
    }
    if (p.tasks[first_task + i].kind != TaskKind::kernel) {
      const Meeting m = meeting(rs, ordinal - by);
      step.meetings[meeting_at(s, i)] = {m.last, m.last_ordinal + tasks[m.last], m.price};
    }
  }
}

bool History::kept(std::uint32_t rs, std::uint64_t ordinal) const {
  const StreamState& s = machine_.stream(rs);
  const std::uint64_t last = (std::uint64_t{last_step_} + 1) * s.count;
  const std::uint64_t before = completed_.empty() ? s.completed : completed_[rs];
  const std::uint64_t recorded = std::min<std::uint64_t>(s.completed, std::max(last, before));
  return ordinal < std::min(recorded, last) &&
         recorded - ordinal <= std::uint64_t{kSteps} * s.count;
}

std::optional<History::Span> History::find(std::uint32_t rs, std::uint32_t ordinal) const {
  return kept(rs, ordinal) ? std::optional(span(rs, ordinal)) : std::nullopt;
}

bool History::complete(std::uint32_t step) const {
  for (std::uint32_t rs = 0; rs < first_.size(); ++rs) {
    const StreamState& s = machine_.stream(rs);
    if (s.count > 0 && s.step <= step) {
      return false;
    }
  }
  return true;
}

std::vector<program::Slice> History::slices(std::uint32_t step, Time origin) const {
  std::vector<program::Slice> out;
  for (std::uint32_t r = 0; r < machine_.world().ranks.size(); ++r) {
    const CompiledProgram& p = machine_.program(r);
    for (std::uint32_t k = 0; k < p.streams.size(); ++k) {
      const std::uint32_t count = p.streams[k].count;
      for (std::uint32_t i = 0; i < count; ++i) {
        const std::uint32_t rs = machine_.rank(r).first_stream + k;
        if (const auto x = find(rs, step * count + i)) {
          const Time begin = step_of(rs, step * count + i).begins[end_at(rs, step * count + i)];
          const std::uint32_t task = p.tasks[p.streams[k].first + i].task;
          out.push_back({x->arrive - origin, begin - origin, x->end - origin,
                         program::TaskIndex::at(task), program::RankId::at(r)});
        }
      }
    }
  }
  return out;
}

Time History::end_of(std::uint32_t rs, std::uint32_t step, std::uint32_t position,
                     Time period) const {
  const std::uint64_t ordinal = std::uint64_t{step} * machine_.stream(rs).count + position;
  if (kept(rs, ordinal)) {
    return end(rs, static_cast<std::uint32_t>(ordinal));
  }
  const std::uint64_t before = ordinal - machine_.stream(rs).count;
  return step > 0 && kept(rs, before) ? end(rs, static_cast<std::uint32_t>(before)) + period
                                      : kNever;
}

namespace {

// Outstanding kernels of a stream before a launch waits (CUDA; measured by many, documented
// nowhere).
constexpr std::uint32_t kLaunchQueue = 1024;

// A stream's launches as the host issues them.
struct Queue {
  const std::uint32_t* launches = nullptr;  // up to and with each of the step's tasks
  std::uint32_t tasks = 0;                  // of the step
  std::uint32_t seen = 0;                   // of this step's, issued when the queue was looked at
  std::uint32_t held = 0;                   // of them and those of the step before: left the queue
  std::uint64_t next_leaves_at = 0;         // launches, from the start of the step before

  // Launches up to and with a task, counted from the start of the step before.
  std::uint64_t sum(std::uint32_t task) const {
    return task < tasks ? std::uint64_t{launches[task]}
                        : std::uint64_t{launches[tasks - 1]} + launches[task - tasks];
  }
  // The host has issued so many of the step's tasks: what must have ended before the queue took
  // them has left it. Whether any has left since the last look.
  bool look(std::uint32_t issued) {
    if (issued == seen) {
      return false;
    }
    seen = issued;
    const std::uint64_t now = std::uint64_t{launches[tasks - 1]} + launches[issued - 1];
    const std::uint32_t before = held;
    while (next_leaves_at <= now) {
      next_leaves_at = sum(++held) + kLaunchQueue;
    }
    return held != before;
  }
};

// The launch queues of a program's streams; `launches`: their numbers, stream by stream.
std::vector<Queue> queues_of(const CompiledProgram& p, std::vector<std::uint32_t>& launches) {
  launches.resize(p.size);
  std::vector<Queue> out(p.streams.size());
  std::vector<std::uint32_t*> next(p.streams.size());
  std::vector<std::uint32_t> sum(p.streams.size(), 0);
  for (std::size_t k = 0; k < out.size(); ++k) {
    out[k].launches = next[k] = launches.data() + p.streams[k].first;
    out[k].tasks = p.streams[k].count;
  }
  for (const program::Task& t : p.source->tasks) {
    *next[t.stream]++ = sum[t.stream] += t.launches;
  }
  for (Queue& q : out) {
    q.next_leaves_at = q.tasks == 0 ? 0 : q.sum(0) + kLaunchQueue;
  }
  return out;
}

// The host on its way through a step's operations.
struct HostPlace {
  const program::HostOp* op = nullptr;
  const program::Task* next = nullptr;  // that it issues
  Time offset{0};                       // from the start of its segment
};

// Over work and launches, to the next other operation; `issued`: by stream, tasks so far.
[[gnu::noinline]] HostPlace run_on(HostPlace at, const program::HostOp* end,
                                   std::uint32_t* issued) {
  for (; at.op != end; ++at.op) {
    if (at.op->kind == HostKind::launch) {
      at.offset += at.op->duration * at.op->count;
      for (const program::Task* last = at.next + at.op->count; at.next != last; ++at.next) {
        ++issued[at.next->stream];
      }
    } else if (at.op->kind == HostKind::work) {
      at.offset += at.op->duration;
    } else {
      break;
    }
  }
  return at;
}

}  // namespace

HostTrace host_trace(const CompiledProgram& p) {
  const Program& source = *p.source;
  HostTrace out;
  out.events.reserve(2 * source.buffers.size());  // most are allocated and released once
  std::vector<std::uint32_t> launches;
  std::vector<Queue> queues = queues_of(p, launches);
  std::vector<std::uint32_t> issued(queues.size(), 0);  // by stream, of this step's tasks
  std::uint32_t segment = 0;
  const program::HostOp* const end_of_host = source.host.data() + source.host.size();
  const program::Task* looked_at = source.tasks.data();  // up to it, by the queues
  HostPlace host{source.host.data(), source.tasks.data(), Time{0}};
  for (;; ++host.op) {
    host = run_on(host, end_of_host, issued.data());
    if (host.op == end_of_host) {
      return out;
    }
    const program::HostOp& op = *host.op;
    if (op.kind == HostKind::sync) {
      ++segment;
      host.offset = Time{0};
      continue;
    }
    for (std::uint32_t s = 0; host.next != looked_at && s < queues.size(); ++s) {
      if (queues[s].look(issued[s])) {
        out.held.push_back({s, queues[s].held});
      }
    }
    looked_at = host.next;
    HostTrace::Event& e = out.events.emplace_back();
    e.offset = host.offset;
    e.segment = segment;
    e.buffer = op.buffer;
    e.allocate = op.kind == HostKind::allocate;
    for (std::uint32_t k = 0; !e.allocate && op.streams != 0 && k < queues.size(); ++k) {
      // A block's own stream takes it again in order.
      if ((op.streams >> k & 1U) != 0 && k != source.buffers[op.buffer].stream &&
          queues[k].tasks > 0) {
        out.used.push_back({k, issued[k]});
      }
    }
    e.held_end = static_cast<std::uint32_t>(out.held.size());
    e.used_end = static_cast<std::uint32_t>(out.used.size());
  }
}

std::vector<program::MemoryEvent> History::memory(std::uint32_t rank, std::uint32_t step,
                                                  Time origin, Time period) const {
  const HostTrace& trace = machine_.programs().host_trace(machine_.world().ranks[rank].program);
  const std::uint32_t first = machine_.rank(rank).first_stream;
  std::vector<program::MemoryEvent> out;
  out.reserve(trace.events.size());
  // Tasks of a stream end in order: of those that left its queue, the last one counts. It is looked
  // up for the events of the trace alone, of which there are fewer than launches.
  Time held_until = kNever;
  const auto hold_up = [&](const HostTrace::Tasks& held) {
    const std::uint32_t tasks = machine_.stream(first + held.stream).count;
    const bool here = held.tasks > tasks;  // of this step
    if (here || step > 0) {
      held_until = std::max(held_until, end_of(first + held.stream, here ? step : step - 1,
                                               held.tasks - 1 - (here ? tasks : 0), period));
    }
  };
  std::uint32_t segment = kNone;
  Time base{0};  // of the segment
  std::uint32_t held = 0;
  std::uint32_t used = 0;
  for (const HostTrace::Event& event : trace.events) {
    if (event.segment != segment) {
      segment = event.segment;
      base = Time{0};
      machine_.segment_base(rank, step, segment, base);
    }
    for (; held < event.held_end; ++held) {
      hold_up(trace.held[held]);
    }
    program::MemoryEvent& e = out.emplace_back();
    e.time = std::max(base + event.offset, held_until) - origin;
    e.safe = e.time;
    e.buffer = event.buffer;
    e.allocate = event.allocate;
    for (; used < event.used_end; ++used) {
      const auto [stream, issued] = trace.used[used];
      if (issued > 0 || step > 0) {
        const Time end = issued > 0 ? end_of(first + stream, step, issued - 1, period)
                                    : end_of(first + stream, step - 1,
                                             machine_.stream(first + stream).count - 1, period);
        e.safe = end == kNever ? e.safe : std::max(e.safe, end - origin);
      }
    }
  }
  return out;
}

// What the host waited for when it began `segment`: walks over its own work, which no curve prices.
History::Place History::before_host(std::uint32_t rank, std::uint32_t step, std::uint32_t segment,
                                    Time& time) const {
  const std::vector<Segment>& segments = machine_.program(rank).segments;
  Time base{0};
  while (machine_.segment_base(rank, step, segment, base)) {
    time = std::min(time, base);
    if (segment == 0 && step == 0) {
      return {};
    }
    if (segment == 0) {
      --step;
      segment = static_cast<std::uint32_t>(segments.size());
    }
    --segment;
    const Segment& g = segments[segment];
    Time earlier{0};
    if (!machine_.segment_base(rank, step, segment, earlier)) {
      return {};
    }
    if (earlier + g.length < base) {
      const std::uint32_t first = machine_.rank(rank).first_stream;
      const std::uint32_t rs = g.step_end ? first : first + g.wait.stream;
      const std::uint32_t count = machine_.stream(rs).count;
      const std::uint32_t need = g.step_end ? step * count
                                 : g.wait.lag > step
                                     ? 0
                                     : (step - g.wait.lag) * count + g.wait.position;
      return need == 0 ? Place{} : Place{rs, need - 1};
    }
  }
  return {};
}

// The task whose end let task `p` arrive at `time`, or what its host waited for. Same order as
// Machine::bound_by.
History::Place History::before(Place p, Time& time) const {
  const StreamState& s = machine_.stream(p.rs);
  const CompiledTask& t = s.tasks[p.ordinal % s.count];
  const std::uint32_t step = p.ordinal / s.count;
  const auto ended = [&](std::uint32_t rs, std::uint32_t tasks) {
    return tasks > 0 && kept(rs, tasks - 1) && end(rs, tasks - 1) == time;
  };
  if (ended(p.rs, p.ordinal)) {
    return {p.rs, p.ordinal - 1};
  }
  const RankState& rank = machine_.rank(s.rank);
  for (std::uint32_t k = t.first_wait; k < t.first_wait + t.waits; ++k) {
    const std::uint32_t rs = rank.first_stream + rank.waits[k].stream;
    const std::uint32_t tasks = need(s.rank, step, rank.waits[k]);
    if (ended(rs, tasks)) {
      return {rs, tasks - 1};
    }
  }
  return before_host(s.rank, step, t.segment, time);
}

History::Path History::critical_path(std::uint32_t rank, std::uint32_t step, Time span) const {
  using program::Category;
  std::vector<Time> under(machine_.world().curves.size(), Time{0});
  std::array<Time, program::kCategories> by_category{};
  const auto spend = [&](Category category, Time t) {
    by_category[static_cast<std::size_t>(category)] += t;
  };
  const auto charge = [&](program::CurveId curve, Time t) {
    if (curve < under.size()) {
      under[curve] += t;
    }
  };
  Place at{machine_.rank(rank).first_stream,
           (step + 1) * machine_.stream(machine_.rank(rank).first_stream).count - 1};
  Time time = kept(at.rs, at.ordinal) ? end(at.rs, at.ordinal) : Time{0};
  const Time stop = time - span;
  while (at.rs != kNone && kept(at.rs, at.ordinal) && time > stop) {
    Arrival arrived;
    const StreamState& s = machine_.stream(at.rs);
    const CompiledTask& t = s.tasks[at.ordinal % s.count];
    if (t.kind == TaskKind::kernel) {
      arrived = arrival(at);
      const Time from = std::max(arrived.time, stop);
      const program::Task& task = machine_.program(s.rank).source->tasks[t.task];
      charge(task.curve, time - from);
      spend(task.category, time - from);
      // What it lost beside communication grows with it, and hangs on a second curve besides.
      if (t.slowdown != 0) {
        const Time took = end(at.rs, at.ordinal) - arrived.time;
        const auto lost = std::clamp(took - t.duration, Time{0}, time - from);
        charge(machine_.world().slowdowns[t.slowdown].curve, lost);
        spend(task.category, -lost);
        spend(Category::slowdown, lost);
      }
      time = arrived.time;
    } else {
      const Meeting m = meeting(at.rs, at.ordinal);
      const program::Price& price = *prices_[m.price];
      at = {m.last, m.last_ordinal};
      if (!kept(at.rs, at.ordinal)) {
        break;
      }
      arrived = arrival(at);
      const Time begin = std::min(arrived.time, time);
      spend(machine_.program(s.rank).source->tasks[t.task].category, time - std::max(begin, stop));
      const Time fluid_from = std::min(time, begin + price.latency);
      charge(price.curve, time - std::max(fluid_from, stop));
      charge(price.latency_curve, std::max(Time{0}, fluid_from - std::max(begin, stop)));
      time = begin;
    }
    if (time <= stop) {
      break;
    }
    const bool known = arrived.by.rs != kNone && arrived.time == time;
    at = known ? arrived.by : before(at, time);
  }
  Time of_tasks{0};
  for (const Time t : by_category) {
    of_tasks += t;
  }
  spend(Category::host, span - of_tasks);
  Path path;
  for (const Time t : under) {
    path.curves.push_back(to_seconds(t));
  }
  for (std::size_t i = 0; i < by_category.size(); ++i) {
    path.categories[i] = to_seconds(by_category[i]);
  }
  return path;
}

}  // namespace stepcast::engine
