// Passes that are jumped over within a step, and the end of a step that repeats the one before,
// leave every result as it is without the jump: times to the picosecond, breakdowns, counts, tasks'
// intervals, allocator traces, the critical path.
#include "catch.hpp"
#include "stepcast/engine/engine.h"
#include "stepcast/lower/fold.h"
#include "support/chaos_world.h"
#include "support/same_timeline.h"

using namespace stepcast;
using namespace stepcast::testing;

namespace {

struct Counts {
  int runs = 0;
  int jumped = 0;
  std::uint64_t tasks = 0;
  std::uint64_t skipped = 0;
};

void same_slices(const Timeline& a, const Timeline& b) {
  REQUIRE(a.slices.size() == b.slices.size());
  for (std::size_t i = 0; i < a.slices.size(); ++i) {
    const Slice& x = a.slices[i];
    const Slice& y = b.slices[i];
    REQUIRE(x.arrive == y.arrive);
    REQUIRE(x.begin == y.begin);
    REQUIRE(x.end == y.end);
    REQUIRE(x.task == y.task);
    REQUIRE(x.rank == y.rank);
  }
}

// When a task arrived is worked out from the ends of others; when it began is recorded.
void begin_after_arrival(const World& w, const Timeline& t) {
  for (const Slice& x : t.slices) {
    const Program& p = w.programs[w.ranks[x.rank].program];
    const bool kernel = p.tasks[x.task].kind == program::TaskKind::kernel;
    REQUIRE((kernel ? x.arrive == x.begin : x.arrive <= x.begin));
  }
}

enum class Recorded { nothing, but_slices, all };

void compare(const World& w, Recorded what, Counts& counts, bool once = false) {
  engine::Options options;
  options.once = once;
  const bool recorded = what != Recorded::nothing;
  options.record_slices = what == Recorded::all;
  options.record_memory = recorded;
  options.sensitivities = recorded;
  const auto with = engine::run(w, options);
  options.skip_repeats = false;
  const auto without = engine::run(w, options);
  ++counts.runs;
  if (const auto* stuck = std::get_if<Deadlock>(&without)) {
    REQUIRE(std::holds_alternative<Deadlock>(with));
    REQUIRE(std::get<Deadlock>(with).time == stuck->time);
    REQUIRE(std::get<Deadlock>(with).chain == stuck->chain);
    return;
  }
  const Timeline& a = std::get<Timeline>(with);
  const Timeline& b = std::get<Timeline>(without);
  same_results(a, b);
  same_slices(a, b);
  begin_after_arrival(w, b);
  same_memory(a, b);
  REQUIRE(b.skipped == 0);
  counts.jumped += a.skipped > 0 ? 1 : 0;
  counts.tasks += a.tasks;
  counts.skipped += a.skipped;
}

Recorded recorded_of(std::uint64_t seed) { return static_cast<Recorded>(seed % 3); }

// More micro-batches than other tests draw, and fewer ranks.
JobTraits long_step(Random& r) {
  JobTraits t = random_traits(r);
  while (t.tp * t.pp * t.dp > 24) {
    t = random_traits(r);
  }
  t.micro_batches = static_cast<int>(r.in(6, 48));
  return t;
}

// A chaotic step several times in a row, under one boundary.
World repeated(World w, std::uint32_t times) {
  for (Program& p : w.programs) {
    const Program one = p;
    std::vector<std::uint32_t> counts(p.streams.size(), 0);
    for (const Task& t : one.tasks) {
      ++counts[t.stream];
    }
    for (std::uint32_t k = 1; k < times; ++k) {
      const auto moved = [&](Wait x) {
        if (x.lag == 0) {
          x.position += k * counts[x.stream];
        } else {
          x.position += (k - 1) * counts[x.stream];
          x.lag = 0;
        }
        return x;
      };
      const auto first_wait = static_cast<std::uint32_t>(p.waits.size());
      for (const Wait& x : one.waits) {
        p.waits.push_back(moved(x));
      }
      for (Task t : one.tasks) {
        t.first_wait += first_wait;
        p.tasks.push_back(t);
      }
      for (HostOp op : one.host) {
        op.wait = op.kind == HostKind::sync ? moved(op.wait) : op.wait;
        p.host.push_back(op);
      }
    }
    // The first repetition waits for the last of the step before.
    const auto last = [&](Wait& x) {
      x.position += x.lag > 0 ? (times - 1) * counts[x.stream] : 0;
    };
    for (std::size_t i = 0; i < one.waits.size(); ++i) {
      last(p.waits[i]);
    }
    for (std::size_t i = 0; i < one.host.size(); ++i) {
      last(p.host[i].wait);
    }
  }
  return w;
}

}  // namespace

TEST_CASE("Jumps within a step change nothing on random pipelines") {
  Counts counts;
  for (std::uint64_t seed = 1; seed <= 1500; ++seed) {
    Random r(seed);
    const JobTraits t = long_step(r);
    CAPTURE(seed, t.tp, t.pp, t.dp, t.micro_batches);
    const World w = random_world(t, r);
    const auto folded = lower::fold(w);
    compare(seed % 4 == 0 || !folded ? w : folded->world, recorded_of(seed), counts, seed % 7 == 0);
  }
  CAPTURE(counts.jumped, counts.tasks, counts.skipped);
  CHECK(counts.jumped > counts.runs / 2);
  CHECK(counts.skipped > counts.tasks / 4);
}

TEST_CASE("Jumps within a step change nothing on random programs without meaning") {
  Counts counts;
  for (std::uint64_t seed = 1; seed <= 2000; ++seed) {
    Random r(seed);
    const World one = chaos_world(r);
    CAPTURE(seed);
    compare(repeated(one, static_cast<std::uint32_t>(r.in(2, 30))), recorded_of(seed), counts);
  }
  CAPTURE(counts.jumped, counts.tasks, counts.skipped);
  CHECK(counts.jumped > counts.runs / 2);
  CHECK(counts.skipped > counts.tasks / 4);
}

TEST_CASE("A step without repetition is run as it is") {
  WorldBuilder w;
  ProgramBuilder b({"compute"});
  for (int i = 0; i < 100; ++i) {
    b.kernel(0, 1000 + i * i);
  }
  w.rank(w.program(b.done()));
  engine::Options options;
  options.once = true;
  CHECK(std::get<Timeline>(engine::run(w.w, options)).skipped == 0);
}

TEST_CASE("A step that repeats the one before is not run to its end") {
  WorldBuilder w;
  ProgramBuilder b({"compute"});
  for (int i = 0; i < 100; ++i) {
    b.kernel(0, 1000 + i * i);
  }
  w.rank(w.program(b.done()));
  for (const Recorded what : {Recorded::nothing, Recorded::but_slices}) {
    Counts counts;
    compare(w.w, what, counts);
    CHECK(counts.skipped > 30);
    CHECK(counts.skipped < 100);
  }
  Counts counts;
  compare(w.w, Recorded::all, counts);  // each of its tasks is asked for
  CHECK(counts.skipped == 0);
}

TEST_CASE("A kernel that nothing slows and that runs as a step ends belongs to its period") {
  WorldBuilder w;
  ProgramBuilder b({"compute", "other"});
  b.kernel(0, 1000);
  b.kernel(1, 500, {{1, 0, 0}});
  b.kernel(0, 100);
  w.rank(w.program(b.done()));
  engine::Options options;
  options.skip_repeats = false;
  const auto result = engine::run(w.w, options);
  CHECK(std::get<Timeline>(result).period == Time(1100));
  CHECK(std::get<Timeline>(result).steps == 2);
}

TEST_CASE("A hundred equal kernels are run a few times") {
  WorldBuilder w;
  ProgramBuilder b({"compute"});
  for (int i = 0; i < 100; ++i) {
    b.kernel(0, 1000);
  }
  w.rank(w.program(b.done()));
  Counts counts;
  compare(w.w, Recorded::all, counts);
  CHECK(counts.skipped > 90);
}
