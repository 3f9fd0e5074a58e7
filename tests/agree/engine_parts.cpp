// Replicas that are simulated each by itself, on any number of threads, are the course of the whole
// world that one machine simulates; and where they are not, that is found.
#include <limits>

#include "../../src/engine/parts.h"
#include "catch.hpp"
#include "stepcast/engine/engine.h"
#include "support/chaos_world.h"
#include "support/same_timeline.h"

using namespace stepcast;
using namespace stepcast::testing;

namespace {

constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max() / 2;

struct Counts {
  int divided = 0;
  int unlike = 0;
  int several = 0;  // in more than two parts
};

engine::Options options_of(std::uint64_t seed) {
  engine::Options options;
  options.record_memory = seed % 2 == 0;
  options.sensitivities = seed % 3 == 0;
  options.once = seed % 7 == 0;
  options.skip_repeats = seed % 5 != 0;
  return options;
}

void same_ranks(const Timeline& a, const Timeline& b) {
  REQUIRE(a.ranks.size() == b.ranks.size());
  for (std::size_t r = 0; r < a.ranks.size(); ++r) {
    REQUIRE(a.ranks[r].first_step_peak == b.ranks[r].first_step_peak);
    REQUIRE(a.ranks[r].at_peak == b.ranks[r].at_peak);
  }
}

void compare(const World& w, engine::Options options, Counts& counts) {
  options.least_tasks_of_part = kNever;
  const auto whole = engine::run(w, options);
  engine::Prepared prepared;
  engine::Prepared::Programs& programs = prepared.of(w.programs);
  programs.compile(1);
  const auto division = engine::divide(w, programs, 1);
  if (!division) {
    return;
  }
  const auto parts = engine::run_parts(w, options, programs, *division);
  ++counts.divided;
  counts.several += division->parts.size() > 2 ? 1 : 0;
  counts.unlike += parts ? 0 : 1;
  options.least_tasks_of_part = 1;
  for (const int threads : {1, 2, 4, 8}) {
    options.threads = threads;
    const auto with = engine::run(w, options);
    if (const auto* stuck = std::get_if<Deadlock>(&whole)) {
      REQUIRE(std::get<Deadlock>(with).chain == stuck->chain);
      REQUIRE(!parts);
      continue;
    }
    const Timeline& a = std::get<Timeline>(with);
    const Timeline& b = std::get<Timeline>(whole);
    same_results(a, b);
    same_ranks(a, b);
    same_memory(a, b);
  }
}

// The same world several times, with some of its communicators and resources made one; sometimes a
// resource or a price of the last copy is another.
World copies_of(const World& one, std::uint32_t copies, Random& r) {
  World w = one;
  w.ranks.clear();
  w.communicator_table.clear();
  w.channel_table.clear();
  w.communicators.clear();
  w.channels.clear();
  w.usages.clear();
  w.resources.clear();
  const auto number = [&](const auto& of, std::vector<bool>& joined, int percent) {
    std::uint32_t count = 0;
    std::vector<std::uint32_t> first;
    for (std::size_t i = 0; i < of.size(); ++i) {
      joined.push_back(r.chance(percent));
      first.push_back(count);
      count += joined.back() ? 1 : copies;
    }
    return first;
  };
  std::vector<bool> joined_resource;
  std::vector<bool> joined;
  const auto resource = number(one.resources, joined_resource, 25);
  const auto communicator = number(one.communicators, joined, 50);
  const auto use = [&](std::uint32_t first, std::uint32_t count, std::uint32_t copy) {
    for (std::uint32_t k = first; k < first + count; ++k) {
      program::Usage u = one.usages[k];
      u.resource =
          program::ResourceId::at(resource[u.resource] + (joined_resource[u.resource] ? 0 : copy));
      w.usages.push_back(u);
    }
  };
  const auto used = [&](auto& to, const auto& from, std::uint32_t copy, std::uint32_t together) {
    to.first_usage = static_cast<std::uint32_t>(w.usages.size());
    for (std::uint32_t k = copy; k < copy + together; ++k) {
      use(from.first_usage, from.usages, k);
    }
    to.usages = static_cast<std::uint32_t>(w.usages.size()) - to.first_usage;
  };
  for (std::size_t i = 0; i < one.resources.size(); ++i) {
    for (std::uint32_t k = 0; k < (joined_resource[i] ? 1 : copies); ++k) {
      w.resources.push_back(one.resources[i]);
      w.resources.back().capacity *= joined_resource[i] ? copies : 1;
    }
  }
  if (!w.resources.empty() && r.chance(30)) {
    program::Resource& other = w.resources[static_cast<std::size_t>(
        r.in(0, static_cast<std::int64_t>(w.resources.size()) - 1))];
    other.capacity = other.capacity * r.in(5, 20) / 10 + 1;
  }
  for (std::size_t i = 0; i < one.communicators.size(); ++i) {
    for (std::uint32_t k = 0; k < (joined[i] ? 1 : copies); ++k) {
      program::Communicator c = one.communicators[i];
      c.members *= joined[i] ? copies : 1;
      c.size *= joined[i] ? copies : 1;
      used(c, one.communicators[i], k, joined[i] ? copies : 1);
      w.communicators.push_back(c);
    }
  }
  for (std::uint32_t k = 0; k < copies; ++k) {
    for (const program::Channel& from : one.channels) {
      program::Channel c = from;
      c.sender = program::RankId::at(from.sender + k * one.ranks.size());
      c.receiver = program::RankId::at(from.receiver + k * one.ranks.size());
      used(c, from, k, 1);
      w.channels.push_back(c);
    }
    for (const program::Rank& from : one.ranks) {
      program::Rank to = from;
      to.first_communicator =
          static_cast<std::uint32_t>(from.first_communicator + k * one.communicator_table.size());
      to.first_channel =
          static_cast<std::uint32_t>(from.first_channel + k * one.channel_table.size());
      used(to, from, k, 1);
      w.ranks.push_back(to);
    }
    for (const program::CommunicatorId id : one.communicator_table) {
      w.communicator_table.push_back(
          id == program::kNone
              ? id
              : program::CommunicatorId::at(communicator[id] + (joined[id] ? 0 : k)));
    }
    for (const program::ChannelId id : one.channel_table) {
      w.channel_table.push_back(
          id == program::kNone ? id : program::ChannelId::at(id + k * one.channels.size()));
    }
  }
  if (!w.channels.empty() && r.chance(10)) {
    w.shapes.push_back(w.shapes[w.channels.back().shape]);
    w.shapes.back().prices.front().latency += Time{r.in(1, 1000)};
    w.channels.back().shape = program::ShapeId::at(w.shapes.size() - 1);
  }
  return w;
}

}  // namespace

TEST_CASE("Replicas by themselves are the whole world on random jobs") {
  Counts counts;
  for (std::uint64_t seed = 1; seed <= 600; ++seed) {
    Random r(seed);
    JobTraits t = random_traits(r);
    t.dp = std::max(t.dp, 2);
    t.slow_device = t.slow_device && seed % 4 == 0;
    CAPTURE(seed, t.tp, t.pp, t.dp);
    compare(random_world(t, r), options_of(seed), counts);
  }
  CAPTURE(counts.divided, counts.several, counts.unlike);
  CHECK(counts.divided > 100);
  CHECK(counts.several > 40);
  CHECK(counts.unlike > 20);
}

TEST_CASE("Parts by themselves are the whole world on random programs without meaning") {
  Counts counts;
  for (std::uint64_t seed = 1; seed <= 2000; ++seed) {
    Random r(seed);
    CAPTURE(seed);
    const World one = seed % 4 == 0 ? random_world(random_traits(r), r) : chaos_world(r);
    const World w = copies_of(one, static_cast<std::uint32_t>(r.in(2, 6)), r);
    std::vector<RankId> at;
    compare(seed % 2 == 0 ? w : renumbered(w, r, at), options_of(seed), counts);
  }
  CAPTURE(counts.divided, counts.several, counts.unlike);
  CHECK(counts.divided > 500);
  CHECK(counts.several > 300);
  CHECK(counts.unlike > 40);
}

namespace {

constexpr std::int64_t kRate = 1'000'000'000;
constexpr std::uint32_t kCopies = 1;  // streams
constexpr std::uint32_t kMeets = 2;

// Behind a copy, which takes as long as the rank's host link makes it, `meet` on a stream of its
// own; a kernel outlasts both, so that the step's length tells nothing of them. When they end is
// seen in the allocator trace alone.
template <class Meet>
Program beside_kernel(const Meet& meet) {
  ProgramBuilder b({"compute", "copies", "meets"});
  b.p.communicator_roles = 1;
  b.p.channel_roles = 1;
  const auto buffer = b.buffer(1000, MemoryCategory::communication);
  b.allocate(buffer);
  b.kernel(0, 1'000'000);
  const auto copied = b.copy(kCopies, 0);
  meet(b, on(kCopies, copied));
  b.release(buffer, 1U << kMeets);
  return b.done();
}

// Host links whose capacities are these shares of the rate of a copy.
void link_hosts(WorldBuilder& w, const std::vector<std::int64_t>& parts) {
  const ShapeId copies = w.shape({price(0, 10'000, kRate)});
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto link = w.resource(kRate / parts[i]);
    w.w.ranks[i].copy_shape = copies;
    w.w.ranks[i].first_usage = w.usages({{link, 0, 1}});
    w.w.ranks[i].usages = 1;
  }
}

// Whether the parts, of which there are some, are found to be the whole world; the results are its.
bool parts_hold(const World& w) {
  engine::Options options;
  options.record_memory = true;
  Counts counts;
  compare(w, options, counts);
  REQUIRE(counts.divided == 1);
  return counts.unlike == 0;
}

}  // namespace

TEST_CASE("A collective that one part reaches later than another is not its own") {
  for (const std::int64_t other : {2, 3}) {
    WorldBuilder w;
    const auto program = w.program(beside_kernel(
        [](ProgramBuilder& b, Wait copied) { b.collective(kMeets, 0, 0, {copied}); }));
    w.rank(program);
    w.rank(program);
    link_hosts(w, {2, other});
    w.communicator(w.shape({price(0, 5000)}), {{0, 0}, {1, 0}});
    CHECK(parts_hold(w.w) == (other == 2));
  }
}

TEST_CASE("A link that all parts use is shared by those that use it at the same time") {
  for (const std::int64_t other : {2, 20}) {
    WorldBuilder w;
    const auto sender = w.program(beside_kernel([](ProgramBuilder& b, Wait copied) {
      b.exchange(kMeets, {{0, 0, 0, true}}, {copied});
    }));
    const auto receiver = w.program(beside_kernel([](ProgramBuilder& b, Wait) {
      b.exchange(kMeets, {{0, 0, 0, false}});
    }));
    for (const auto p : {sender, receiver, sender, receiver}) {
      w.rank(p);
    }
    link_hosts(w, {2, 2, other, 2});
    const auto link = w.resource(kRate);
    const auto shape = w.shape({price(0, 5000, kRate)});
    w.channel(shape, {0, 0}, {1, 0}, {{link, 0, 1}});
    w.channel(shape, {2, 0}, {3, 0}, {{link, 0, 1}});
    CHECK(parts_hold(w.w) == (other == 2));
  }
}
