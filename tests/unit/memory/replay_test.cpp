// Programs with few buffers: the requests to the allocator and their times.
#include "stepcast/memory/replay.h"

#include "catch.hpp"

using stepcast::Bytes;
using stepcast::Time;
using namespace stepcast::memory;
using namespace stepcast::program;

namespace {

constexpr std::int64_t kMiB = 1 << 20;

struct Job {
  Program p;
  std::vector<MemoryEvent> trace;

  std::uint32_t buffer(std::int64_t mib, MemoryCategory c = MemoryCategory::activations) {
    Buffer b;
    b.bytes = Bytes(mib * kMiB);
    b.category = c;
    p.buffers.push_back(b);
    return static_cast<std::uint32_t>(p.buffers.size() - 1);
  }
  // {MiB, begin, end}
  std::uint32_t blocks(const std::vector<std::array<int, 3>>& list, bool transient = false) {
    const std::uint32_t id = buffer(0);
    Buffer& b = p.buffers[id];
    b.first_block = static_cast<std::uint32_t>(p.blocks.size());
    b.blocks = static_cast<std::uint32_t>(list.size());
    b.transient = transient;
    for (const auto& [mib, begin, end] : list) {
      b.bytes += Bytes(mib * kMiB);
      p.blocks.push_back({Bytes(mib * kMiB), 0, static_cast<std::uint16_t>(begin),
                          static_cast<std::uint16_t>(end < 0 ? 0xffff : end)});
    }
    return id;
  }
  void event(std::int64_t time, std::uint32_t buffer, bool allocate, std::int64_t safe = 0) {
    trace.push_back({Time(time), Time(std::max(time, safe)), BufferIndex::at(buffer), allocate});
  }
};

ReplayOptions recorded() {
  ReplayOptions o;
  o.record = true;
  return o;
}

}  // namespace

TEST_CASE("persistent buffers stand first, lazy ones from the end of the first step") {
  Job j;
  j.p.buffers[j.buffer(40, MemoryCategory::parameters)].persistent = true;
  const std::uint32_t lazy = j.buffer(80, MemoryCategory::optimizer);
  j.p.buffers[lazy].persistent = j.p.buffers[lazy].lazy = true;
  const std::uint32_t x = j.buffer(100);
  j.event(1, x, true);
  j.event(5, x, false);
  const Replayed r = replay(j.p, j.trace);
  CHECK(r.first.allocated == 140 * kMiB);
  CHECK(r.peak.allocated == 220 * kMiB);
  CHECK(r.steady.allocated == 120 * kMiB);
  // The delayed 80 MiB were placed where the 100 MiB had been, which now need a new segment.
  CHECK(r.peak.reserved == 240 * kMiB);
  CHECK(r.at_peak_by_category[static_cast<std::size_t>(MemoryCategory::activations)] == 100 * kMiB);
  CHECK(r.at_peak_by_category[static_cast<std::size_t>(MemoryCategory::optimizer)] == 80 * kMiB);
  CHECK(r.peak_at.count() == 1);
}

TEST_CASE("buffers outside the device are no part of it") {
  Job j;
  const std::uint32_t x = j.buffer(100);
  j.p.buffers[x].place = Place::host;
  j.event(1, x, true);
  j.event(5, x, false);
  CHECK(replay(j.p, j.trace).peak.reserved == 0);
}

TEST_CASE("a pass makes and frees its tensors operator by operator") {
  Job j;
  const std::uint32_t kept = j.blocks({{20, 0, -1}, {30, 2, -1}});
  const std::uint32_t temporary = j.blocks({{100, 0, 0}, {100, 1, 1}, {40, 2, 3}}, true);
  j.event(10, kept, true);
  j.event(10, temporary, true);
  j.event(40, temporary, false);
  j.event(90, kept, false);
  const Replayed r = replay(j.p, j.trace, recorded());
  // 20 + 100 at positions 0 and 1, one after the other; 20 + 30 + 40 at position 2 fit into the
  // same 100 MiB.
  CHECK(r.peak.allocated == 120 * kMiB);
  CHECK(r.peak.reserved == 120 * kMiB);
  REQUIRE(r.events.size() == 10);
  const std::vector<std::int64_t> bytes{20, 100, 100, 100, 100, 30, 40, 40, 20, 30};
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    CHECK(r.events[i].requested == bytes[i] * kMiB);
    CHECK(r.events[i].trace == (i < 8 ? 1U : 3U));
  }
  CHECK(r.events[1].time.count() == 10);
  CHECK(r.events[5].time.count() == 25);  // half way: position 2 of 4
  REQUIRE(r.at_peak.size() == 2);
  CHECK(r.at_end.empty());
  CHECK(r.steady.active == 0);
}

TEST_CASE("a pass gives up what it was the last to read") {
  Job j;
  const std::uint32_t kept = j.blocks({{60, 0, 1}, {60, 0, 0}});
  const std::uint32_t backward = j.blocks({{50, 0, 1}, {50, 1, 2}, {50, 2, -1}}, true);
  j.event(1, kept, true);
  j.event(2, backward, true);
  j.event(8, backward, false);
  j.event(8, kept, false);
  const Replayed r = replay(j.p, j.trace, recorded());
  // 120 + 50, then 60 + 100, then 50 + 50.
  CHECK(r.peak.allocated == 170 * kMiB);
  CHECK(r.steady.allocated == 0);
  Job lent = j;  // another stream reads it until the end
  lent.trace.back().safe = Time(20);
  CHECK(replay(lent.p, lent.trace).peak.allocated == 220 * kMiB);
}

TEST_CASE("temporaries without blocks are one tensor beside what is kept") {
  Job j;
  const std::uint32_t kept = j.blocks({{20, 0, -1}, {30, 2, -1}});
  const std::uint32_t temporary = j.buffer(100);
  j.p.buffers[temporary].transient = true;
  j.event(10, kept, true);
  j.event(10, temporary, true);
  j.event(40, temporary, false);
  j.event(90, kept, false);
  CHECK(replay(j.p, j.trace).peak.allocated == 150 * kMiB);
}

TEST_CASE("a buffer that outlives its step stands when the next begins") {
  Job j;
  const std::uint32_t x = j.buffer(16);
  const std::uint32_t y = j.buffer(64);
  j.event(1, x, false);  // does not exist in the first step
  j.event(2, y, true);
  j.event(3, y, false);
  j.event(4, x, true);
  const Replayed r = replay(j.p, j.trace, recorded());
  CHECK(r.first.allocated == 64 * kMiB);
  CHECK(r.peak.allocated == 64 * kMiB);
  CHECK(r.steady.allocated == 16 * kMiB);
  REQUIRE(r.at_end.size() == 1);
  CHECK(r.at_end[0].since.count() == 4);
}

TEST_CASE("memory that other streams use to the end of a step waits into the next") {
  Job j;
  const std::uint32_t x = j.buffer(16);
  j.event(10, x, true);
  j.event(20, x, false, 130);  // the period is 100, so it is free at 30 of the next step
  ReplayOptions o;
  o.period = Time(100);
  CHECK(replay(j.p, j.trace, o).peak.active == 32 * kMiB);
  o.period = Time(120);
  CHECK(replay(j.p, j.trace, o).peak.active == 16 * kMiB);
}

TEST_CASE("a job that needs more than the limit is out of memory") {
  Job j;
  const std::uint32_t x = j.buffer(16);
  const std::uint32_t y = j.buffer(32);
  j.event(1, x, true);
  j.event(2, x, false);
  j.event(3, y, true);
  j.event(4, y, false);
  ReplayOptions o;
  o.allocator.limit = Bytes(40 * kMiB);
  const Replayed fits = replay(j.p, j.trace, o);  // the first segment is released in each step
  CHECK_FALSE(fits.out_of_memory);
  CHECK(fits.retries == 1);
  CHECK(fits.peak.reserved == 32 * kMiB);
  o.allocator.limit = Bytes(30 * kMiB);
  CHECK(replay(j.p, j.trace, o).out_of_memory);
}
