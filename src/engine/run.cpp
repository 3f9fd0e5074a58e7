#include "run.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "history.h"
#include "ledger.h"
#include "machine.h"
#include "parts.h"
#include "prepared.h"
#include "repeats.h"
#include "stepcast/base/threads.h"
#include "wide.h"

namespace stepcast::engine {

using program::Deadlock;
using program::Timeline;
using program::World;

namespace {

// Instants between two looks at Options::stop: a millisecond or two.
constexpr std::uint32_t kInstantsUnasked = 1024;

struct Period {
  Time period{0};
  Time spread{0};
  bool found = false;
};

Time length(const Machine& m, std::uint32_t step, std::uint32_t rank) {
  return m.boundary(step, rank) - (step > 0 ? m.boundary(step - 1, rank) : Time{0});
}

// What two successive steps show. `lengths`: both are equally long, and so on every rank. `states`:
// this one is equally long on every rank, and ranks left its first boundary in the state in which
// they reach its last one, so the next step is the same; the step before may have begun otherwise
// (the first starts on all ranks at once). Equal lengths alone may deceive: a backlog on a
// communication stream can grow for steps before anything waits for it.
struct Repetition {
  bool lengths = false;
  bool states = false;
};

Repetition repetition(const Machine& m, std::uint32_t step) {
  if (step == 0) {
    return {};
  }
  const Time p = length(m, step, 0);
  Repetition out{true, true};
  for (std::uint32_t r = 0; r < m.world().ranks.size(); ++r) {
    if (length(m, step, r) != p) {
      return {};
    }
    out.lengths = out.lengths && length(m, step - 1, r) == p;
    out.states = out.states && m.digest(step, r) == m.digest(step - 1, r);
  }
  return out;
}

Time latest(const Machine& m, std::uint32_t step) {
  Time t{0};
  for (std::uint32_t r = 0; r < m.world().ranks.size(); ++r) {
    t = std::max(t, m.boundary(step, r));
  }
  return t;
}

// Without a period: mean and spread of the second half of the steps, by the slowest rank's
// boundaries.
Period average(const Machine& m, std::uint32_t step) {
  const std::uint32_t from = step / 2;
  Period p;
  Time least{0};
  Time most{0};
  for (std::uint32_t k = from + 1; k <= step; ++k) {
    const Time l = latest(m, k) - latest(m, k - 1);
    least = k == from + 1 ? l : std::min(least, l);
    most = std::max(most, l);
  }
  p.period = (latest(m, step) - latest(m, from)) / std::max<std::int64_t>(1, step - from);
  p.spread = most - least;
  return p;
}

// The parts of one step, in proportion, of another length.
Breakdown stretched(const Breakdown& of, Time to) {
  const Time sum = std::accumulate(of.begin(), of.end(), Time{0});
  if (sum <= Time{0} || sum == to) {
    return of;
  }
  Breakdown out{};
  for (std::size_t i = 0; i < of.size(); ++i) {
    out[i] = Time(static_cast<std::int64_t>(Int128{of[i].count()} * to.count() / sum.count()));
  }
  *std::max_element(out.begin(), out.end()) +=
      to - std::accumulate(out.begin(), out.end(), Time{0});
  return out;
}

void fill_memory(const Ledger& l, program::RankResult& to) {
  to.peak_allocated = l.peak;
  to.first_step_peak = l.first_step_peak;
  to.steady = l.steady;
  to.at_peak = l.at_peak;
  to.host_peak = l.place_peak[static_cast<std::size_t>(program::Place::host)];
  to.nvme_peak = l.place_peak[static_cast<std::size_t>(program::Place::nvme)];
}

void fill_ranks(const Machine& m, const std::vector<Ledger>& ledgers, std::uint32_t step,
                Time origin, Timeline& t) {
  t.ranks.resize(m.world().ranks.size());
  for (std::uint32_t r = 0; r < t.ranks.size(); ++r) {
    const Ledger& l = ledgers[m.world().ranks[r].program];
    program::RankResult& to = t.ranks[r];
    to.breakdown = m.breakdown(step, r);
    if (!t.periodic && !m.options().once) {  // of the last step, while the mean is reported
      to.breakdown = stretched(to.breakdown, t.period);
    }
    fill_memory(l, to);
    Time base{0};
    if (m.segment_base(r, step, l.peak_segment, base)) {
      // The host runs ahead of the step, or behind it: the peak returns every period.
      const Time at = (base + l.peak_offset - origin) % std::max(Time{1}, t.period);
      to.peak_at = at < Time{0} ? at + t.period : at;
    }
  }
}

void fill_history(Machine& m, std::uint32_t step, Time origin, Timeline& t) {
  m.history()->keep_until(step);
  m.keep_until(step);
  while (!m.history()->complete(step) && m.advance()) {
  }
  const Options& options = m.options();
  if (options.record_slices) {
    t.slices = m.history()->slices(step, origin);
  }
  if (options.sensitivities) {
    std::uint32_t slowest = 0;
    for (std::uint32_t r = 1; r < t.ranks.size(); ++r) {
      slowest = m.boundary(step, r) > m.boundary(step, slowest) ? r : slowest;
    }
    History::Path path = m.history()->critical_path(slowest, step, t.period);
    t.sensitivity = std::move(path.curves);
    t.path = path.categories;
  }
  if (options.record_memory && (!options.memory_if || options.memory_if(t))) {
    t.memory.resize(t.ranks.size());
    std::vector<program::RankId> ranks = options.memory_of;
    for (std::uint32_t r = 0; options.memory_of.empty() && r < t.ranks.size(); ++r) {
      ranks.push_back(program::RankId::at(r));
    }
    for_each_on_threads(
        ranks.size(), m.programs().worth(threads_of(options.threads)), [&](std::size_t i) {
          t.memory[ranks[i]] = m.history()->memory(ranks[i], step, origin, t.period);
        });
  }
}

// The most that a host has to do in a step: no period is shorter.
Time host_work(const Machine& m) {
  Time most{0};
  for (std::uint32_t r = 0; r < m.world().ranks.size(); ++r) {
    Time sum{0};
    for (const Segment& g : m.program(r).segments) {
      sum = std::min(sum + g.length, kEndOfTime);
    }
    most = std::max(most, sum);
  }
  return most;
}

// Where a run of steps ended.
struct Ending {
  std::uint32_t step = 0;  // that is reported
  Period period;
  bool stuck = false;      // nothing happens any more: a deadlock or a fault
  bool overtaken = false;  // the host's lead is being used up: see below
};

// A host that has more to do in a step than the devices take falls behind by the difference in
// every step. While it still leads, for dozens of steps where the difference is small, all steps
// are equally long and too short. With `leads` that ends the run as `overtaken`; without, steps
// that are too short all the same (by picoseconds, where the host's work is rounded) count as the
// host's.
Ending run_steps(Machine& m, Repeats& repeats, bool steady_memory, bool leads) {
  const std::uint32_t limit = step_limit(m.options());
  const auto least = static_cast<std::uint32_t>(std::max(m.options().min_steps, 2));
  const Time host = host_work(m);
  std::uint32_t unasked = 0;
  for (std::uint32_t seen = 0;;) {
    for (; seen < m.steps_finished(); ++seen) {
      const Repetition again = repetition(m, seen);
      if (leads && again.lengths && !again.states && length(m, seen, 0) < host) {
        return {seen, {}, false, true};
      }
      const bool last = seen + 1 == limit;
      if (steady_memory && seen + 1 >= least && (again.states || (last && again.lengths))) {
        const Time found = length(m, seen, 0);
        return {
            seen,
            {again.states ? found : std::max(found, host), Time{0}, again.states || found >= host}};
      }
    }
    if (seen == limit) {
      const bool once = m.options().once;
      Period mean = once ? Period{latest(m, 0), Time{0}, false} : average(m, limit - 1);
      const bool behind = !once && mean.period < host;
      mean.period = behind ? host : mean.period;
      return {limit - 1, mean, false, leads && behind};
    }
    if (++unasked == kInstantsUnasked) {
      check(m.options().stop);
      unasked = 0;
    }
    if (!m.advance()) {
      return {seen, {}, true};
    }
    repeats.look();
  }
}

// Ranks end their steps when they do: the last of each tells when a step of the world ends.
Course course_of(const Machine& m, const Ending& end, const Timeline& t, Time origin,
                 bool overtaken) {
  Course c{t.period, t.spread,          origin,    t.periodic, overtaken, t.steps, t.tasks,
           t.events, m.shared_events(), t.skipped, m.met()};
  for (std::uint32_t k = 0; k <= end.step; ++k) {
    c.met.mix(latest(m, k).count());
  }
  return c;
}

}  // namespace

std::vector<program::RankResult> memory_of(const World& world, Prepared& prepared) {
  const std::vector<Ledger>& ledgers = prepared.of(world.programs).ledgers;
  std::vector<program::RankResult> out(world.ranks.size());
  for (std::size_t r = 0; r < out.size(); ++r) {
    fill_memory(ledgers[world.ranks[r].program], out[r]);
  }
  return out;
}

std::variant<Timeline, Deadlock> run(const World& world, const Options& options) {
  Prepared prepared;
  return run(world, options, prepared);
}

std::variant<Timeline, Deadlock> run(const World& world, const Options& options,
                                     Prepared& prepared) {
  Prepared::Programs& programs = prepared.of(world.programs, options.threads);
  programs.compile(threads_of(options.threads));
  if (!options.record_slices) {
    if (const std::optional<Division> division =
            divide(world, programs, options.least_tasks_of_part)) {
      if (std::optional<Timeline> t = run_parts(world, options, programs, *division)) {
        return std::move(*t);
      }
    }
  }
  return run_once(world, options, programs, nullptr).outcome;
}

Run run_once(const World& world, const Options& options, Prepared::Programs& programs,
             const Share* share) {
  const std::vector<Ledger>& ledgers = programs.ledgers;
  const bool steady_memory = programs.steady_memory;
  std::optional<Machine> machine;
  machine.emplace(world, options, programs, share).start(true);
  std::optional<Repeats> repeats;
  // Two steps that are the same are enough.
  const bool whole_steps = steady_memory && options.min_steps <= 2;
  Ending end = run_steps(*machine, repeats.emplace(*machine, whole_steps), steady_memory, true);
  const bool again = end.overtaken;
  if (again) {
    machine.emplace(world, options, programs, share).start(false);
    end = run_steps(*machine, repeats.emplace(*machine, whole_steps), steady_memory, false);
  }
  Machine& m = *machine;
  if (end.stuck) {
    if (share != nullptr) {  // a part's numbers would tell nothing
      return {Deadlock{}, {}};
    }
    return {m.faulty() ? Deadlock{m.now(), {m.fault()}} : Deadlock{m.now(), m.waiting_chain()}, {}};
  }
  const auto& [step, period, stuck, overtaken] = end;
  Timeline t;
  t.period = period.period;
  t.spread = period.spread;
  t.periodic = period.found;
  t.first_step = latest(m, 0);
  t.steps = static_cast<int>(step) + 1;
  t.tasks = m.tasks_done();
  t.events = m.events();
  t.skipped = repeats->skipped();
  Time origin = step > 0 ? m.boundary(step - 1, 0) : Time{0};
  for (std::uint32_t r = 1; step > 0 && r < world.ranks.size(); ++r) {
    origin = std::min(origin, m.boundary(step - 1, r));
  }
  const Course course = course_of(m, end, t, origin, again);
  fill_ranks(m, ledgers, step, origin, t);
  if (m.history() != nullptr) {
    fill_history(m, step, origin, t);
  }
  return {std::move(t), course};
}

}  // namespace stepcast::engine
