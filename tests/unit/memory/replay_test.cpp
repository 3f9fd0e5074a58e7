// Programs with few buffers: the requests to the allocator and their times.
#include "stepcast/memory/replay.h"

#include <algorithm>
#include <random>

#include "catch.hpp"
#include "support/sizes.h"

using stepcast::Bytes;
using stepcast::Time;
using stepcast::test::kMiB;
using namespace stepcast::memory;
using namespace stepcast::program;

namespace {

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

TEST_CASE("a model that is made on the device leaves its shards in segments of what was whole") {
  Job j;
  const std::uint32_t shard = j.buffer(10, MemoryCategory::parameters);
  j.p.buffers[shard].persistent = true;
  const auto temporary = [&](std::uint32_t number, std::int64_t mib) {
    j.p.making.push_back({Bytes(mib * kMiB), kNone, number});
  };
  temporary(0, 100);
  temporary(1, 200);
  temporary(0, 0);
  j.p.making.push_back({Bytes(10 * kMiB), BufferIndex::at(shard), 0});
  temporary(1, 0);
  const std::uint32_t x = j.buffer(80);
  j.event(1, x, true);
  j.event(5, x, false);
  ReplayOptions options = recorded();
  const Replayed r = replay(j.p, j.trace, options);
  CHECK(r.steady.allocated == 10 * kMiB);
  CHECK(r.first.allocated == 90 * kMiB);
  // The 200 MiB went back to the driver; the step's 80 find room behind the shard.
  CHECK(r.peak.reserved == 100 * kMiB);
  // Making the model feels no limit, the steps do.
  options.allocator.limit = Bytes(100 * kMiB);
  CHECK_FALSE(replay(j.p, j.trace, options).out_of_memory);
  options.allocator.limit = Bytes(99 * kMiB);
  j.p.buffers[x].bytes = Bytes(120 * kMiB);
  CHECK(replay(j.p, j.trace, options).out_of_memory);
}

// The first pass makes the tensor and hands it over; the second takes it. Two tensors of 60 MiB at
// once would need 120: the release and the next request would find no other block than their own.
TEST_CASE("what a pass hands to the next is one tensor, made once") {
  for (const bool joined : {true, false}) {
    Job j;
    const std::uint32_t first = j.blocks({{60, 0, -1}, {30, 0, 0}}, true);
    const std::uint32_t between = j.buffer(40);
    const std::uint32_t kept = j.blocks({{60, 0, 1}});
    const std::uint32_t second = j.blocks({{20, 0, 1}}, true);
    if (joined) {
      j.p.buffers[first].handed = 0;
      j.p.buffers[kept].taken = 0;
    }
    j.event(1, first, true);
    j.event(2, first, false);
    j.event(3, between, true);
    j.event(4, kept, true);
    j.event(5, second, true);
    j.event(6, second, false);
    j.event(6, kept, false);
    j.event(7, between, false);
    const Replayed r = replay(j.p, j.trace);
    CHECK(r.peak.allocated == 120 * kMiB);
    CHECK(r.steady.allocated == 0);
    // One tensor: its 60 MiB stand, and 40 are new beside the 30 that are free. Else the 40 break
    // up the block of 60, so that the next 60 are new.
    CHECK(r.peak.reserved == (joined ? 130 : 150) * kMiB);
  }
}

// Two passes keep a tensor each. In the first step the first pass makes another one beside its own,
// and releases both behind the second pass.
TEST_CASE("the first step has other tensors in a buffer's place") {
  Job j;
  const std::uint32_t lent = j.buffer(26);
  const std::uint32_t kept = j.blocks({{60, 0, -1}});
  const std::uint32_t pass = j.blocks({{30, 1, 1}}, true);
  const std::uint32_t other = j.blocks({{10, 0, -1}});
  Program& p = j.p;
  p.buffers[kept].first_step = 0;
  p.first_steps.push_back({Bytes(80 * kMiB), static_cast<std::uint32_t>(p.blocks.size()), 2});
  p.blocks.push_back({Bytes(60 * kMiB), 0, 0, 0xffff});
  p.blocks.push_back({Bytes(20 * kMiB), 0, 1, 0xffff});
  j.event(1, lent, true);
  j.event(2, kept, true);
  j.event(2, pass, true);
  j.event(3, pass, false);
  j.event(4, lent, false, 7);
  j.event(5, other, true);
  j.event(6, other, false);
  j.event(7, kept, false);
  const Replayed r = replay(p, j.trace);
  CHECK(r.first.allocated == 136 * kMiB);
  CHECK(r.peak.allocated == 116 * kMiB);
  CHECK(r.steady.allocated == 0);
  CHECK(r.peak.reserved == 136 * kMiB);
  const RecordedTape recorded = record_tape(p, j.trace, Time{0});
  CHECK(recorded.tape.own.size() == 4);  // two tensors made and released
  p.first_steps.clear();
  p.buffers[kept].first_step = kNone;
  CHECK(record_tape(p, j.trace, Time{0}).tape.calls == recorded.tape.calls);
}

// What is fetched ahead of all steps but the first is fetched there by two tensors, one behind the
// other, whose segments of 30 and 20 MiB cannot hold the one of 50.
TEST_CASE("the first step has tensors in place of what it does not have") {
  Job j;
  const std::uint32_t ahead = j.buffer(50);
  const std::uint32_t both = j.buffer(0);
  Program& p = j.p;
  p.buffers[ahead].later = true;
  p.buffers[both].first_step = 0;
  p.first_steps.push_back({Bytes(50 * kMiB), static_cast<std::uint32_t>(p.blocks.size()), 2});
  p.blocks.push_back({Bytes(30 * kMiB), 0});
  p.blocks.push_back({Bytes(20 * kMiB), 0});
  j.event(1, ahead, true);
  j.event(2, both, true);
  j.event(3, both, false);
  j.event(4, ahead, false);
  const Replayed r = replay(p, j.trace);
  CHECK(r.first.allocated == 50 * kMiB);
  CHECK(r.peak.allocated == 50 * kMiB);
  CHECK(r.peak.reserved == (30 + 20 + 50) * kMiB);
}

TEST_CASE("a tensor made anew among persistent ones leaves a hole ahead of itself") {
  Job j;
  const std::uint32_t empty = j.buffer(12, MemoryCategory::workspace);
  j.p.buffers[empty].initial = j.p.buffers[empty].among_persistent = true;
  j.p.buffers[j.buffer(12, MemoryCategory::workspace)].persistent = true;
  const std::uint32_t x = j.buffer(12);
  j.event(1, x, true);
  j.event(2, x, false);
  const Replayed r = replay(j.p, j.trace);
  CHECK(r.first.allocated == 24 * kMiB);
  CHECK(r.steady.allocated == 12 * kMiB);
  CHECK(r.peak.reserved == 24 * kMiB);  // in the hole
}

TEST_CASE("what is made ahead of the first step and given up leaves its memory cached") {
  Job j;
  j.p.buffers[j.buffer(40, MemoryCategory::parameters)].persistent = true;
  const std::uint32_t flat = j.buffer(64, MemoryCategory::parameters);
  j.p.buffers[flat].initial = true;
  const std::uint32_t x = j.buffer(100);
  j.event(10, x, true);
  j.event(20, x, false);
  j.event(30, flat, true);
  j.event(40, flat, false);
  const Replayed cached = replay(j.p, j.trace);
  j.p.buffers[flat].initial = false;
  const Replayed later = replay(j.p, j.trace);
  // Made behind x alone, the flat tensor finds x's block free; made ahead, it has one of its own.
  CHECK(cached.peak.allocated == later.peak.allocated);
  CHECK(cached.peak.reserved == (40 + 100 + 64) * kMiB);
  CHECK(later.peak.reserved == (40 + 100) * kMiB);
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

TEST_CASE("the peak counts memory that was reserved until another stream's request needed it") {
  Job j;
  const std::uint32_t large = j.buffer(32);
  const std::uint32_t small = j.buffer(16);
  j.p.buffers[large].stream = StreamIndex::at(1);
  j.event(1, large, true);
  j.event(2, large, false);
  j.event(3, small, true);
  j.event(4, small, false);
  ReplayOptions o;
  o.allocator.limit = Bytes(40 * kMiB);  // one at a time
  const Replayed r = replay(j.p, j.trace, o);
  CHECK_FALSE(r.out_of_memory);
  CHECK(r.peak.allocated == 32 * kMiB);
  CHECK(r.peak.reserved == 32 * kMiB);
  CHECK(r.steady.reserved == 16 * kMiB);
}

namespace {

bool same(const Replayed& a, const Replayed& b) {
  const auto equal = [](const AllocatorStats& x, const AllocatorStats& y) {
    return x.requested == y.requested && x.allocated == y.allocated && x.active == y.active &&
           x.reserved == y.reserved;
  };
  return equal(a.first, b.first) && equal(a.peak, b.peak) && equal(a.steady, b.steady) &&
         a.at_peak_by_category == b.at_peak_by_category && a.peak_position == b.peak_position &&
         a.out_of_memory == b.out_of_memory && a.retries == b.retries;
}

bool nested(const AllocatorStats& s) {
  return s.reserved >= s.active && s.active >= s.allocated && s.allocated >= s.requested;
}

// Tensors of random sizes and lives, some of them used on another stream until later.
Job random_job(std::uint64_t seed, bool blocks_wait) {
  std::mt19937_64 random(seed);
  const auto below = [&random](std::uint64_t n) { return static_cast<std::int64_t>(random() % n); };
  Job j;
  j.p.buffers[j.buffer(30 + below(30), MemoryCategory::parameters)].persistent = true;
  const std::uint32_t lazy = j.buffer(20 + below(60), MemoryCategory::optimizer);
  j.p.buffers[lazy].persistent = j.p.buffers[lazy].lazy = true;
  std::vector<std::uint32_t> live;
  std::int64_t time = 0;
  for (int i = 0; i < 200; ++i) {
    time += 1 + below(5);
    if (live.size() > 12 || (!live.empty() && below(2) == 0)) {
      const auto which = static_cast<std::ptrdiff_t>(random() % live.size());
      j.event(time, live[static_cast<std::size_t>(which)], false,
              blocks_wait ? time + below(60) : 0);
      live.erase(live.begin() + which);
    } else {
      live.push_back(j.buffer(1 + below(60)));
      j.event(time, live.back(), true);
    }
  }
  for (const std::uint32_t buffer : live) {
    j.event(++time, buffer, false);
  }
  return j;
}

}  // namespace

TEST_CASE("replays that share what happens before a limit is felt are those from the start") {
  int refused = 0;
  int retried = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    const Job j = random_job(seed, seed % 2 == 0);
    ReplayOptions o;
    o.allocator.expandable_segments = seed % 3 == 0;
    const RecordedTape tape = record_tape(j.p, j.trace, o.period);
    Replays shared(tape, o);
    const Replayed whole = shared.without_limit();
    CHECK(same(whole, replay(j.p, j.trace, o)));
    for (const int percent : {97, 80, 99, 90, 60, 100}) {
      const Bytes limit(whole.peak.reserved * percent / 100);
      ReplayOptions limited = o;
      limited.allocator.limit = limit;
      const Replayed of = shared.within(limit);
      CHECK(same(of, replay(j.p, j.trace, limited)));
      CHECK((nested(of.first) && nested(of.peak) && nested(of.steady)));
      refused += of.out_of_memory ? 1 : 0;
      retried += of.retries > 0 && !of.out_of_memory ? 1 : 0;
    }
    // Bisections as they would be without anything shared.
    Bytes short_of(whole.peak.allocated / 2);
    Bytes enough(whole.peak.reserved);
    for (int i = 0; i < 5; ++i) {
      ReplayOptions limited = o;
      limited.allocator.limit = short_of + (enough - short_of) / 2;
      const bool runs = !replay(j.p, j.trace, limited).out_of_memory;
      CHECK(shared.runs(limited.allocator.limit, short_of) == runs);
      (runs ? enough : short_of) = limited.allocator.limit;
    }
  }
  CHECK(refused > 60);
  CHECK(retried > 30);
}

TEST_CASE("a tape holds the order of calls and what waits, not the times") {
  const auto tape_of = [](std::int64_t scale, std::int64_t safe) {
    Job j;
    const std::uint32_t x = j.buffer(16);
    const std::uint32_t y = j.buffer(16);
    j.event(1 * scale, x, true);
    j.event(2 * scale, x, false, safe);
    j.event(4 * scale, y, true);
    j.event(6 * scale, y, false);
    return record_tape(j.p, j.trace, Time{0}).tape;
  };
  CHECK(tape_of(1, 0) == tape_of(7, 0));
  CHECK(tape_of(1, 4) == tape_of(7, 28));       // free at the next request
  CHECK_FALSE(tape_of(1, 0) == tape_of(1, 5));  // the request finds it in use
  CHECK(tape_of(10, 50) == tape_of(10, 60));    // free before the next step's first request
  const Tape waits = tape_of(1, 5);
  REQUIRE(waits.calls.size() == 4);
  CHECK(waits.safe[1] == 5);  // the first request of the next step, one behind the end
}

namespace {

// Two passes; each holds tensors of its own, of those that it makes and of those that it reads
// last.
Job job_of_passes() {
  Job j;
  const std::uint32_t kept = j.blocks({{8, 0, 3}, {4, 2, -1}});
  const std::uint32_t forward = j.blocks({{16, 0, 1}, {2, 1, 3}}, true);
  const std::uint32_t backward = j.blocks({{12, 0, 2}, {6, 1, 2}}, true);
  j.event(3, kept, true);
  j.event(3, forward, true);
  j.event(103, forward, false);
  j.event(110, backward, true);
  j.event(307, backward, false);
  j.event(307, kept, false);
  return j;
}

}  // namespace

TEST_CASE("a call's place in its trace has the call's time") {
  std::vector<Job> jobs = {job_of_passes()};
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    jobs.push_back(random_job(seed, seed % 2 == 0));
  }
  for (const Job& j : jobs) {
    const TapeNotes notes = record_tape(j.p, j.trace, Time{0}).notes;
    for (std::uint32_t i = 0; i < notes.at.size(); ++i) {
      CHECK(time_at(j.trace, place_of(notes, i)) == notes.at[i]);
    }
  }
  const TapeNotes notes = record_tape(jobs[0].p, jobs[0].trace, Time{0}).notes;
  CHECK(std::any_of(notes.place.begin(), notes.place.end(),
                    [](const TracePlace& place) { return place.fraction > 0; }));
}

TEST_CASE(
    "a tape in the storage of another is the tape by itself; without times where no block waits") {
  RecordedTape storage;
  int timed = 0;
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    const Job j = seed % 10 == 0 ? job_of_passes() : random_job(seed, seed % 2 == 0);
    const RecordedTape alone = record_tape(j.p, j.trace, Time{0});
    record_tape(j.p, j.trace, Time{0}, storage);
    CHECK(storage.tape == alone.tape);
    CHECK(storage.notes.buffer == alone.notes.buffer);
    const bool waits = blocks_wait(j.trace);
    timed += waits ? 1 : 0;
    CHECK(storage.notes.at == (waits ? alone.notes.at : std::vector<Time>()));
    CHECK(storage.notes.safe == (waits ? alone.notes.safe : std::vector<Time>()));
    for (std::uint32_t i = 0; i <= alone.tape.calls.size(); ++i) {
      const TracePlace a = place_of(storage.notes, i);
      const TracePlace b = place_of(alone.notes, i);
      CHECK((a.event == b.event && a.fraction == b.fraction));
    }
  }
  CHECK((timed > 0 && timed < 30));
}

TEST_CASE("where no block waits, a tape is the same whatever the times") {
  std::vector<Job> jobs = {job_of_passes()};
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    jobs.push_back(random_job(seed, seed % 2 == 0));
  }
  int free_at_once = 0;
  for (Job& j : jobs) {
    if (blocks_wait(j.trace)) {
      continue;
    }
    ++free_at_once;
    const Tape tape = record_tape(j.p, j.trace, Time{0}).tape;
    std::mt19937_64 random(7);
    Time later{0};
    for (MemoryEvent& e : j.trace) {
      later += Time(static_cast<std::int64_t>(random() % 100));
      e.time += later;
      e.safe = e.time;
    }
    CHECK(record_tape(j.p, j.trace, Time{12345}).tape == tape);
  }
  CHECK(free_at_once == 11);
}
