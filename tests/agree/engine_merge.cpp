// Merged kernels run exactly as the single ones.
#include "catch.hpp"
#include "stepcast/engine/engine.h"
#include "stepcast/lower/merge.h"
#include "support/chaos_world.h"

using namespace stepcast;
using namespace stepcast::testing;

namespace {

CurveId first_of(const std::vector<std::pair<CurveId, std::int64_t>>& parts) {
  return parts.front().first;
}

std::size_t tasks(const World& w) {
  std::size_t n = 0;
  for (const Program& p : w.programs) {
    n += p.tasks.size();
  }
  return n;
}

}  // namespace

TEST_CASE("Times, breakdown and peaks are the same after merging") {
  std::size_t before = 0;
  std::size_t after = 0;
  int host_bound = 0;
  int slowed = 0;
  for (std::uint64_t seed = 1; seed <= 1200; ++seed) {
    Random r(seed);
    World w;
    if (seed <= 200) {
      JobTraits t = random_traits(r);
      t.splits = static_cast<int>(r.in(2, 5));
      t.kernel_time = r.chance(50) ? 3'000'000 : 1'000'000;
      w = random_world(t, r);
    } else {
      w = chaos_world(r);
    }
    for (Program& p : w.programs) {  // rows alternate in random worlds; equal ones merge
      for (Task& k : p.tasks) {
        k.slowdown = k.slowdown != 0 ? 1 : 0;
      }
    }
    World m = w;
    for (Program& p : m.programs) {
      p = lower::merge_kernels(p, first_of);
    }
    before += tasks(w);
    after += tasks(m);
    engine::Options o;
    o.record_memory = true;
    CAPTURE(seed);
    const auto x = std::get<Timeline>(engine::run(w, o));
    const auto y = std::get<Timeline>(engine::run(m, o));
    REQUIRE(x.period == y.period);
    REQUIRE(x.first_step == y.first_step);
    REQUIRE(x.steps == y.steps);
    for (std::size_t k = 0; k < w.ranks.size(); ++k) {
      REQUIRE(x.ranks[k].breakdown == y.ranks[k].breakdown);
      REQUIRE(x.ranks[k].peak_allocated == y.ranks[k].peak_allocated);
      REQUIRE(x.ranks[k].at_peak == y.ranks[k].at_peak);
      REQUIRE(x.ranks[k].peak_at == y.ranks[k].peak_at);
      REQUIRE(x.memory[k].size() == y.memory[k].size());
      for (std::size_t e = 0; e < x.memory[k].size(); ++e) {
        REQUIRE(x.memory[k][e].time == y.memory[k][e].time);
        REQUIRE(x.memory[k][e].safe == y.memory[k][e].safe);
      }
    }
    host_bound += x.ranks[0].breakdown[static_cast<std::size_t>(Category::host)] > 0 ? 1 : 0;
    slowed += x.ranks[0].breakdown[static_cast<std::size_t>(Category::slowdown)] > 0 ? 1 : 0;
  }
  CHECK(after < before * 95 / 100);
  CHECK(host_bound > 100);
  CHECK(slowed > 100);
}

TEST_CASE("What merges and what does not") {
  const auto count = [](const Program& p) { return lower::merge_kernels(p).tasks.size(); };
  SECTION("plain") {
    ProgramBuilder b({"compute"});
    for (int i = 0; i < 5; ++i) {
      b.kernel(0, 100);
    }
    const Program m = lower::merge_kernels(b.done());
    REQUIRE(m.tasks.size() == 1);
    CHECK(m.tasks[0].duration == 500);
  }
  SECTION("a wait on the later one, or for the position between") {
    ProgramBuilder b({"compute", "data"});
    b.kernel(0, 100);
    b.kernel(0, 100, {on(1, 1, 1)});
    b.kernel(1, 5, {on(0, 2)});
    b.kernel(0, 100);
    CHECK(count(b.done()) == 4);
  }
  SECTION("a sync, an allocation, another category, row or curve") {
    ProgramBuilder b({"compute"});
    const auto x = b.buffer(1, MemoryCategory::other);
    b.kernel(0, 100);
    b.sync(on(0, 0));
    b.kernel(0, 100);
    b.allocate(x);
    b.kernel(0, 100);
    b.release(x);
    b.kernel(0, 100, {}, 0, Category::optimizer);
    b.kernel(0, 100, {}, 1, Category::optimizer);
    b.kernel(0, 100, {}, 1, Category::optimizer, 1);
    CHECK(count(b.done()) == 6);
  }
  SECTION("a launch that may bind") {
    ProgramBuilder b({"compute"});
    b.launch_cost = 101;
    b.kernel(0, 100);
    b.kernel(0, 500);
    b.kernel(0, 1);
    b.kernel(0, 1);
    CHECK(count(b.done()) == 2);
  }
  SECTION("waits are renumbered") {
    ProgramBuilder b({"compute", "data"});
    b.kernel(0, 100);
    b.kernel(0, 100);
    b.kernel(1, 5, {on(0, 2)});
    const Program m = lower::merge_kernels(b.done());
    REQUIRE(m.tasks.size() == 2);
    CHECK(m.waits[0].position == 1);
  }
}
