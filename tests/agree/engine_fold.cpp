// Folded equals full, to the picosecond and the byte.
#include <algorithm>
#include <numeric>

#include "catch.hpp"
#include "stepcast/engine/engine.h"
#include "stepcast/lower/fold.h"
#include "support/chaos_world.h"

using namespace stepcast;
using namespace stepcast::testing;

namespace {

Timeline timeline(const World& w) {
  const auto result = engine::run(w, {});
  if (const auto* d = std::get_if<Deadlock>(&result)) {
    std::string text;
    for (const std::string& line : d->chain) {
      text += line + "\n";
    }
    FAIL(text);
  }
  return std::get<Timeline>(result);
}

struct Comparison {
  std::size_t classes = 0;
  bool periodic = false;
};

Comparison compare(const World& full) {
  const auto folded = lower::fold(full);
  REQUIRE(folded.has_value());
  const Timeline a = timeline(full);
  const Timeline b = timeline(folded->world);
  REQUIRE(a.period == b.period);
  REQUIRE(a.first_step == b.first_step);
  REQUIRE(a.steps == b.steps);
  REQUIRE(a.periodic == b.periodic);
  REQUIRE(a.spread == b.spread);
  REQUIRE(folded->class_of.size() == full.ranks.size());
  for (std::size_t r = 0; r < full.ranks.size(); ++r) {
    const RankResult& x = a.ranks[r];
    const RankResult& y = b.ranks[folded->class_of[r]];
    REQUIRE(x.breakdown == y.breakdown);
    REQUIRE(x.peak_allocated == y.peak_allocated);
    REQUIRE(x.first_step_peak == y.first_step_peak);
    REQUIRE(x.steady == y.steady);
    REQUIRE(x.at_peak == y.at_peak);
    REQUIRE(x.peak_at == y.peak_at);
    if (a.periodic) {
      REQUIRE(std::accumulate(x.breakdown.begin(), x.breakdown.end(), Time{0}) == a.period);
    }
  }
  const auto& m = folded->world.multiplicity;
  REQUIRE(std::accumulate(m.begin(), m.end(), 0U) == full.ranks.size());
  return {folded->world.ranks.size(), a.periodic};
}

}  // namespace

TEST_CASE("Folded equals full on random jobs") {
  int smaller = 0;
  int periodic = 0;
  int bound = 0;
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    Random r(seed);
    const JobTraits t = random_traits(r);
    CAPTURE(seed, t.tp, t.pp, t.dp);
    const World w = random_world(t, r);
    const Comparison c = compare(w);
    smaller += c.classes < w.ranks.size() ? 1 : 0;
    periodic += c.periodic ? 1 : 0;
    bound += t.thin_link || t.gpus_per_nic > 1 ? 1 : 0;
  }
  // The random jobs must exercise every case.
  CHECK(smaller > 100);
  CHECK(periodic > 250);
  CHECK(bound > 100);
}

TEST_CASE("Folded equals full on random programs without meaning") {
  int smaller = 0;
  int periodic = 0;
  for (std::uint64_t seed = 1; seed <= 1500; ++seed) {
    Random r(seed);
    const World w = chaos_world(r);
    CAPTURE(seed);
    const Comparison c = compare(w);
    smaller += c.classes < w.ranks.size() ? 1 : 0;
    periodic += c.periodic ? 1 : 0;
  }
  CHECK(smaller > 500);
  CHECK(periodic > 1000);
}

TEST_CASE("A period that two steps show is the one that six show") {
  int early = 0;
  for (std::uint64_t seed = 1; seed <= 600; ++seed) {
    Random r(seed);
    const World w = seed % 2 == 0 ? random_world(random_traits(r), r) : chaos_world(r);
    CAPTURE(seed);
    const Timeline soon = timeline(w);
    engine::Options patient;
    patient.min_steps = 6;
    const auto result = engine::run(w, patient);
    const Timeline& late = std::get<Timeline>(result);
    if (!soon.periodic) {
      continue;
    }
    early += soon.steps < 6 ? 1 : 0;
    REQUIRE(late.period == soon.period);
    // In random programs (odd seeds) the length of a step may become periodic before the breakdown
    // of its idle time does.
    for (std::size_t i = 0; seed % 2 == 0 && i < soon.ranks.size(); ++i) {
      REQUIRE(late.ranks[i].breakdown == soon.ranks[i].breakdown);
    }
  }
  CHECK(early > 150);
}

TEST_CASE("Results do not depend on how ranks and links are numbered") {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    Random r(seed);
    const World w = seed % 3 == 0 ? random_world(random_traits(r), r) : chaos_world(r);
    std::vector<RankId> at;
    const World other = renumbered(w, r, at);
    CAPTURE(seed);
    const Timeline a = timeline(w);
    const Timeline b = timeline(other);
    REQUIRE(a.period == b.period);
    REQUIRE(a.first_step == b.first_step);
    REQUIRE(a.events == b.events);
    for (std::size_t i = 0; i < at.size(); ++i) {
      REQUIRE(a.ranks[i].breakdown == b.ranks[at[i]].breakdown);
    }
  }
}

TEST_CASE("A uniform job folds to one class a stage, a slow rank unfolds what meets it") {
  Random r(7);
  JobTraits t;
  t.tp = 4;
  t.pp = 2;
  t.dp = 4;
  t.ring = true;
  const World w = random_world(t, r);
  CHECK(compare(w).classes == 2);
  t.slow_device = true;
  Random q(7);
  const World slow = random_world(t, q);
  CHECK(compare(slow).classes > 2);
}

TEST_CASE("A class may exchange with itself") {
  WorldBuilder w;
  ProgramBuilder b({"compute"});
  b.p.channel_roles = 2;
  b.kernel(0, 100);
  b.exchange(0, {{0, 1, 0, true}, {1, 1, 0, false}});
  const auto program = w.program(b.done());
  const auto shape = w.shape({price(3, 40)});
  for (int i = 0; i < 5; ++i) {
    w.rank(program);
  }
  for (std::uint32_t i = 0; i < 5; ++i) {
    w.channel(shape, {RankId::at(i), 0}, {RankId::at((i + 1) % 5), 1});
  }
  const auto folded = lower::fold(w.w);
  REQUIRE(folded.has_value());
  CHECK(folded->world.ranks.size() == 1);
  CHECK(folded->world.channels.size() == 1);
  CHECK(compare(w.w).classes == 1);
  CHECK(timeline(folded->world).period.count() == 143);
}

TEST_CASE("Beyond the budget of classes nothing is folded") {
  WorldBuilder w;
  for (int i = 0; i < 5; ++i) {
    ProgramBuilder b({"compute"});
    b.kernel(0, 100 + i);
    w.rank(w.program(b.done()));
  }
  CHECK_FALSE(lower::fold(w.w, 4).has_value());
  CHECK(lower::fold(w.w, 5).has_value());
}

namespace {

template <class T, class Same>
bool equal(const std::vector<T>& a, const std::vector<T>& b, const Same& same) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), same);
}

}  // namespace

TEST_CASE("What was folded before is folded as if it had not been") {
  lower::FoldMemo memo;
  std::vector<World> all;
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    Random q(seed);
    all.push_back(random_world(random_traits(q), q));
  }
  const auto check = [&](World w) {
    const auto alone = lower::fold(w);
    const auto among = memo.fold(std::move(w));
    REQUIRE(alone.has_value() == among.has_value());
    if (!alone) {
      return;
    }
    const World& x = among->world;
    const World& y = alone->world;
    REQUIRE(among->class_of == alone->class_of);
    REQUIRE(x.multiplicity == y.multiplicity);
    REQUIRE(x.communicator_table == y.communicator_table);
    REQUIRE(x.channel_table == y.channel_table);
    REQUIRE(x.programs.size() == y.programs.size());
    REQUIRE(equal(x.ranks, y.ranks, [](const auto& a, const auto& b) {
      return a.program == b.program && a.copy_shape == b.copy_shape &&
             a.first_usage == b.first_usage && a.usages == b.usages;
    }));
    REQUIRE(equal(x.communicators, y.communicators, [](const auto& a, const auto& b) {
      return a.shape == b.shape && a.members == b.members && a.size == b.size &&
             a.first_usage == b.first_usage && a.usages == b.usages;
    }));
    REQUIRE(equal(x.channels, y.channels, [](const auto& a, const auto& b) {
      return a.shape == b.shape && a.sender == b.sender && a.receiver == b.receiver &&
             a.first_usage == b.first_usage && a.usages == b.usages;
    }));
    REQUIRE(equal(x.usages, y.usages, [](const auto& a, const auto& b) {
      return a.resource == b.resource && a.kind == b.kind && a.count == b.count;
    }));
    REQUIRE(equal(x.resources, y.resources,
                  [](const auto& a, const auto& b) { return a.capacity == b.capacity; }));
    REQUIRE(equal(x.shapes, y.shapes, [](const auto& a, const auto& b) {
      return equal(a.prices, b.prices,
                   [](const auto& p, const auto& q) { return p.latency == q.latency; });
    }));
  };
  for (int round = 0; round < 2; ++round) {
    for (const World& w : all) {
      check(w);
      check(w);
      // Everything that folding reads, one after the other.
      const auto changed = [&](const auto& change) {
        World other = w;
        change(other);
        check(other);
      };
      changed([](World& o) { o.ranks.back().program = o.ranks.front().program; });
      changed([](World& o) { o.communicators.back().shape = o.communicators.front().shape; });
      if (!w.resources.empty()) {
        changed([](World& o) { o.resources.back().capacity += 1'000'000'000; });
        changed([](World& o) {
          for (program::Resource& r : o.resources) {
            r.capacity *= 2;
          }
        });
      }
      changed([](World& o) {
        for (program::Shape& s : o.shapes) {
          for (program::Price& p : s.prices) {
            p.latency += Time(7);
          }
        }
      });
    }
  }
}
