// The event queue, compared with a multimap.
#include <map>

#include "../../src/engine/event_queue.h"
#include "catch.hpp"
#include "support/random_world.h"

using namespace stepcast;

TEST_CASE("The event queue pops what a multimap pops, first in first out at equal times") {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    testing::Random r(seed);
    engine::EventQueue q;
    std::multimap<std::int64_t, std::uint32_t> oracle;  // equal keys keep the order of insertion
    std::uint32_t serial = 0;
    std::int64_t now = 0;
    const std::int64_t spans[] = {0, 3, 1000, 1'000'000'000'000, std::int64_t{1} << 61};
    std::vector<engine::Event> batch;
    for (int turn = 0; turn < 3000; ++turn) {
      const std::int64_t pushes = r.in(0, turn < 2000 ? 3 : 1);
      for (std::int64_t k = 0; k < pushes; ++k) {
        const std::int64_t span = spans[r.in(0, now < (std::int64_t{1} << 60) ? 4 : 3)];
        const std::int64_t time = now + r.in(0, span);
        q.push({Time(time), serial, 0});
        oracle.emplace(time, serial++);
      }
      REQUIRE(q.size() == oracle.size());
      if (!q.next(batch)) {
        REQUIRE(oracle.empty());
        continue;
      }
      now = q.now().count();
      for (const engine::Event& e : batch) {
        REQUIRE(!oracle.empty());
        REQUIRE(e.time.count() == oracle.begin()->first);
        REQUIRE(e.time.count() == now);
        REQUIRE(e.subject == oracle.begin()->second);
        oracle.erase(oracle.begin());
      }
      // A batch contains all events of its time.
      REQUIRE((oracle.empty() || oracle.begin()->first > now));
      REQUIRE_FALSE(q.more_now());
    }
  }
}

TEST_CASE("What is pushed at the current time is the next batch of that time") {
  engine::EventQueue q;
  std::vector<engine::Event> batch;
  q.push({Time(5), 1, 0});
  REQUIRE(q.next(batch));
  CHECK_FALSE(q.more_now());
  q.push({Time(9), 2, 0});
  q.push({Time(5), 3, 0});
  CHECK(q.more_now());
  REQUIRE(q.next(batch));
  REQUIRE(batch.size() == 1);
  CHECK(batch[0].subject == 3);
  CHECK(q.now().count() == 5);
  REQUIRE(q.next(batch));
  CHECK(q.now().count() == 9);
  CHECK_FALSE(q.next(batch));
}
