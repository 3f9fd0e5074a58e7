// Collectives and messages that share links: the fluid model's times, exact to the picosecond.
#include <numeric>

#include "catch.hpp"
#include "stepcast/engine/engine.h"
#include "support/worlds.h"

using namespace stepcast;
using namespace stepcast::testing;

namespace {

// Two nodes with one GPU each. Both run the same operations on separate streams, each from its
// start time, and then wait for all of them. The slices give the end times.
class Scene {
 public:
  static constexpr std::int64_t kRate = 1'000'000'000'000;  // one byte per picosecond

  ResourceId link(std::int64_t capacity) { return world_.resource(capacity); }

  // An operation that takes `alone` without contention at `rate` and loads each link with its rate.
  std::size_t collective(std::int64_t start, std::int64_t alone, std::vector<ResourceId> links,
                         std::int64_t rate = kRate, std::int64_t latency = 0) {
    operations_.push_back({start, alone, rate, latency, std::move(links), false});
    return operations_.size() - 1;
  }
  // A message from the first GPU to the second, with the same parameters.
  std::size_t message(std::int64_t start, std::int64_t alone, std::vector<ResourceId> links,
                      std::int64_t rate = kRate, std::int64_t latency = 0) {
    operations_.push_back({start, alone, rate, latency, std::move(links), true});
    return operations_.size() - 1;
  }

  // Returns the end time of each operation.
  std::vector<std::int64_t> run() {
    std::vector<RankId> ranks;
    for (const bool sender : {true, false}) {
      ProgramBuilder b({}, sender ? "sender" : "receiver");
      b.p.streams.push_back({"compute"});
      b.counts.push_back(0);
      std::vector<Wait> ends;
      for (std::uint32_t i = 0; i < operations_.size(); ++i) {
        b.p.streams.push_back({"operation"});
        b.counts.push_back(0);
        const int s = static_cast<int>(i) + 1;
        b.kernel(s, operations_[i].start);
        ends.push_back(on(s, operations_[i].message
                                 ? b.exchange(s, {{ChannelRole::at(i), 0, 0, sender}})
                                 : b.collective(s, i, 0)));
      }
      b.p.communicator_roles = b.p.channel_roles = static_cast<std::uint32_t>(operations_.size());
      b.kernel(0, 0, ends);
      ranks.push_back(world_.rank(world_.program(b.done())));
    }
    for (std::uint32_t i = 0; i < operations_.size(); ++i) {
      const Operation& o = operations_[i];
      std::vector<Usage> usages;
      for (const ResourceId link : o.links) {
        usages.push_back({link, 0, 1});
      }
      const auto shape = world_.shape({price(o.latency, o.alone, o.rate)});
      if (o.message) {
        world_.channel(shape, {ranks[0], i}, {ranks[1], i}, usages);
      } else {
        world_.communicator(shape, {{ranks[0], i}, {ranks[1], i}}, usages);
      }
    }
    engine::Options options;
    options.once = true;
    options.record_slices = true;
    const auto result = engine::run(world_.w, options);
    REQUIRE(std::holds_alternative<Timeline>(result));
    std::vector<std::int64_t> ends(operations_.size(), 0);
    for (const Slice& s : std::get<Timeline>(result).slices) {
      if (s.task % 2 == 1 && s.task < 2 * ends.size()) {
        ends[s.task / 2] = s.end.count();
      }
    }
    return ends;
  }

 private:
  struct Operation {
    std::int64_t start = 0;
    std::int64_t alone = 0;
    std::int64_t rate = 0;
    std::int64_t latency = 0;
    std::vector<ResourceId> links;
    bool message = false;
  };
  WorldBuilder world_;
  std::vector<Operation> operations_;
};

using Ends = std::vector<std::int64_t>;

}  // namespace

TEST_CASE("Two all-reduces over the same NICs share them while both run, not before nor after") {
  Scene s;
  const auto out = s.link(Scene::kRate);
  const auto in = s.link(Scene::kRate);
  const auto nvlink = s.link(Scene::kRate);
  s.collective(0, 100'000, {out, in});
  s.collective(50'000, 300'000, {out, in});
  // This one uses only NVLink and is not slowed.
  s.collective(0, 120'000, {nvlink});
  // When the second starts, the first has 50 left, which then take 100. Afterwards the second has
  // 250 left.
  CHECK(s.run() == Ends{150'000, 400'000, 120'000});
}

TEST_CASE("Messages and all-reduces share alike, in both directions of a NIC apart") {
  Scene s;
  const auto out = s.link(Scene::kRate);
  const auto in = s.link(Scene::kRate);
  s.collective(0, 90'000, {out, in});
  s.message(0, 30'000, {out});
  s.message(0, 30'000, {in});
  // All run at half speed: the messages end at 60, when the collective has 60 left.
  CHECK(s.run() == Ends{120'000, 60'000, 60'000});
}

TEST_CASE("A flow that cannot go faster leaves its rest to the others") {
  Scene s;
  const auto nic = s.link(Scene::kRate);
  s.message(0, 400'000, {nic}, Scene::kRate / 4);  // limited elsewhere to a quarter of the rate
  s.collective(0, 300'000, {nic});
  s.collective(0, 300'000, {nic});
  // Shares of 1/4, 3/8 and 3/8. At 400 the first has ended and the others have 150 left, which take
  // 300 at half speed. The first is capped from the start, so no share changes before.
  CHECK(s.run() == Ends{400'000, 700'000, 700'000});
}

TEST_CASE("Who is held up on one link leaves its share of another") {
  Scene s;
  const auto thin = s.link(Scene::kRate / 2);
  const auto wide = s.link(Scene::kRate);
  s.message(0, 100'000, {thin, wide});
  s.message(0, 100'000, {thin});
  s.message(0, 150'000, {wide});
  // On the thin link a quarter each. On the wide one the third has three quarters and ends at 200;
  // the others need 400.
  CHECK(s.run() == Ends{400'000, 400'000, 200'000});
}

TEST_CASE("Latency comes before the fluid part and takes nothing from others") {
  Scene s;
  const auto nic = s.link(Scene::kRate);
  s.message(0, 100'000, {nic});
  s.message(0, 100'000, {nic}, Scene::kRate, 40'000);
  // The first is alone until 40; then both have half until the first ends at 40 + 2 x 60 = 160;
  // then 40 are left.
  CHECK(s.run() == Ends{160'000, 200'000});
}

TEST_CASE("Links that cannot bind change nothing") {
  for (const std::int64_t spare : {std::int64_t{1}, 3 * Scene::kRate}) {
    Scene s;
    const auto nic = s.link(Scene::kRate);
    const auto spine = s.link(2 * Scene::kRate + spare);
    s.message(0, 100'000, {nic, spine});
    s.message(0, 100'000, {nic, spine});
    s.message(0, 100'000, {spine});
    CHECK(s.run() == Ends{200'000, 200'000, 100'000});
  }
}

TEST_CASE("Equal flows end together, after their number times one alone") {
  Scene s;
  const auto nic = s.link(Scene::kRate);
  constexpr std::int64_t kFlows = 25;
  for (std::int64_t i = 0; i < kFlows; ++i) {
    s.message(0, 1'000'000, {nic});
  }
  CHECK(s.run() == Ends(kFlows, kFlows * 1'000'000));
}
