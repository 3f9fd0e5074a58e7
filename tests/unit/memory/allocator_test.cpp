// Segment totals computed by hand from the rules of PyTorch's caching allocator
// (c10/cuda/CUDACachingAllocator.cpp).
#include "stepcast/memory/allocator.h"

#include <stdexcept>

#include "catch.hpp"
#include "support/sizes.h"

using stepcast::Bytes;
using stepcast::Time;
using stepcast::test::kKiB;
using stepcast::test::kMiB;
using namespace stepcast::memory;

TEST_CASE("requests are rounded to 512 bytes and cut from 2 MiB up to 1 MiB") {
  CachingAllocator a;
  const BlockId tiny = *a.allocate(1, 0);
  CHECK(a.now().requested == 1);
  CHECK(a.now().allocated == 512);
  CHECK(a.now().reserved == 2 * kMiB);
  const BlockId odd = *a.allocate(513, 0);
  CHECK(a.now().allocated == 512 + 1024);
  CHECK(a.address(odd) == a.address(tiny) + 512);
  CHECK(a.size(odd) == 1024);
  CHECK(a.now().reserved == 2 * kMiB);
  a.allocate(1 * kMiB, 0);  // the largest small request; the first segment still has space for it
  CHECK(a.now().reserved == 2 * kMiB);
  a.allocate(1 * kMiB, 0);  // now 1,536 bytes are missing
  CHECK(a.now().reserved == 4 * kMiB);
}

TEST_CASE("above 1 MiB segments are 20 MiB, from 10 MiB on the request rounded to 2 MiB") {
  CachingAllocator a;
  a.allocate(1 * kMiB + 1, 0);
  CHECK(a.now().reserved == 20 * kMiB);
  a.allocate(10 * kMiB - 512, 0);  // fits after the first
  CHECK(a.now().reserved == 20 * kMiB);
  a.allocate(10 * kMiB, 0);
  CHECK(a.now().reserved == 30 * kMiB);
  a.allocate(10 * kMiB + 1, 0);
  CHECK(a.now().reserved == 42 * kMiB);
}

TEST_CASE("a large block is split only where more than 1 MiB is left") {
  CachingAllocator a;
  // From a segment of 12 MiB; the remaining 1 MiB is not split off.
  const BlockId b = *a.allocate(11 * kMiB, 0);
  CHECK(a.now().reserved == 12 * kMiB);
  CHECK(a.size(b) == 12 * kMiB);
  CHECK(a.now().allocated == 12 * kMiB);
  CHECK(a.now().requested == 11 * kMiB);
  a.release(b);
  const BlockId c = *a.allocate(11 * kMiB - 512, 0);
  CHECK(a.size(c) == 11 * kMiB - 512);
  CHECK(a.now().reserved == 12 * kMiB);
}

TEST_CASE("the smallest free block that is large enough is taken") {
  CachingAllocator a;
  const BlockId large = *a.allocate(64 * kMiB, 0);
  const BlockId middle = *a.allocate(32 * kMiB, 0);
  const BlockId small = *a.allocate(16 * kMiB, 0);
  const std::int64_t at = a.address(middle);
  a.release(large);
  a.release(middle);
  a.release(small);
  const BlockId b = *a.allocate(20 * kMiB, 0);
  CHECK(a.address(b) == at);
  CHECK(a.now().reserved == 112 * kMiB);
}

// As torch 2.7.1 and torch 2.15.0 do it over the null GPU, whose addresses fall as an H100's.
TEST_CASE("of free blocks of one size the youngest or the oldest segment's is taken") {
  for (const bool oldest : {false, true}) {
    CachingAllocator a({.oldest_segment_first = oldest});
    a.release(*a.allocate(32 * kMiB, 0));
    const BlockId left = *a.allocate(16 * kMiB, 0);
    const BlockId right = *a.allocate(16 * kMiB, 0);
    const BlockId apart = *a.allocate(16 * kMiB, 0);
    a.release(right);
    a.release(apart);
    a.allocate(16 * kMiB, 0);
    a.release(left);
    a.allocate(32 * kMiB, 0);
    CHECK(a.now().reserved == (oldest ? 80 : 48) * kMiB);
  }
}

TEST_CASE("free neighbours within a segment join, segments do not") {
  CachingAllocator a({.oldest_segment_first = true});
  const BlockId whole = *a.allocate(20 * kMiB, 0);
  const BlockId other = *a.allocate(20 * kMiB, 0);
  a.release(whole);
  const BlockId x = *a.allocate(6 * kMiB, 0);
  const BlockId y = *a.allocate(6 * kMiB, 0);
  const BlockId z = *a.allocate(6 * kMiB, 0);
  a.release(x);
  a.release(z);
  CHECK(a.segments()[0].blocks.size() == 3);  // z was merged with the 2 MiB after it
  a.release(y);
  CHECK(a.segments()[0].blocks.size() == 1);
  a.release(other);
  CHECK(a.now().reserved == 40 * kMiB);
  a.allocate(40 * kMiB, 0);
  CHECK(a.now().reserved == 80 * kMiB);
}

TEST_CASE("streams and pools share nothing") {
  CachingAllocator a;
  a.release(*a.allocate(16 * kMiB, 0));
  a.allocate(16 * kMiB, 1);
  CHECK(a.now().reserved == 32 * kMiB);
  a.release(*a.allocate(2 * kMiB, 2));
  a.allocate(1 * kMiB, 2);
  CHECK(a.now().reserved == 32 * kMiB + 20 * kMiB + 2 * kMiB);
}

TEST_CASE("a block that another stream still uses stays active until the next request behind it") {
  CachingAllocator a;
  const BlockId b = *a.allocate(16 * kMiB, 0, Time(0));
  a.release(b, Time(10), Time(100));
  CHECK(a.now().allocated == 0);
  CHECK(a.now().active == 16 * kMiB);
  a.allocate(16 * kMiB, 0, Time(99));
  CHECK(a.now().reserved == 32 * kMiB);
  CHECK(a.peak().active == 32 * kMiB);
  a.allocate(512, 3, Time(100));  // any stream
  CHECK(a.now().active == 16 * kMiB + 512);
  a.allocate(16 * kMiB, 0, Time(100));
  CHECK(a.now().reserved == 32 * kMiB + 2 * kMiB);
}

TEST_CASE("expandable segments grow by pages of 20 and 2 MiB, and waste nothing else") {
  CachingAllocator a({.expandable_segments = true});
  const BlockId b = *a.allocate(11 * kMiB, 0);
  CHECK(a.now().reserved == 20 * kMiB);
  CHECK(a.now().allocated == 11 * kMiB);
  a.allocate(11 * kMiB, 0);  // 9 MiB are free, so one more page is mapped
  CHECK(a.now().reserved == 40 * kMiB);
  a.allocate(1 * kKiB, 0);
  CHECK(a.now().reserved == 42 * kMiB);
  a.release(b);
  a.allocate(30 * kMiB, 0);  // the hole of 11 MiB is too small; the 18 MiB at the end are used
  CHECK(a.now().reserved == 62 * kMiB);
  const auto segments = a.segments();
  REQUIRE(segments.size() == 2);
  CHECK(segments[0].expandable);
  CHECK(segments[1].bytes == 60 * kMiB);  // the first lies above
  CHECK(segments[0].bytes == 2 * kMiB);
  a.allocate(30 * kMiB, 5);
  CHECK(a.now().reserved == 102 * kMiB);
}

TEST_CASE("near the limit cached segments are given back, and the retry counted") {
  CachingAllocator a({.limit = Bytes(100 * kMiB)});
  a.release(*a.allocate(60 * kMiB, 0));
  CHECK(a.now().reserved == 60 * kMiB);
  CHECK(a.allocate(80 * kMiB, 0).has_value());
  CHECK(a.now().reserved == 80 * kMiB);
  CHECK(a.retries() == 1);
  CHECK_FALSE(a.allocate(30 * kMiB, 0).has_value());
  CHECK(a.retries() == 2);
  CHECK(a.now().allocated == 80 * kMiB);
  REQUIRE(a.segment_events().size() == 3);
  CHECK_FALSE(a.segment_events()[1].made);
}

TEST_CASE("the retry waits for other streams") {
  CachingAllocator a({.limit = Bytes(100 * kMiB)});
  const BlockId b = *a.allocate(60 * kMiB, 0, Time(0));
  a.release(b, Time(1), Time(1000));
  CHECK(a.allocate(60 * kMiB, 0, Time(2)).has_value());
  CHECK(a.now().active == 60 * kMiB);
  CHECK(a.retries() == 1);
}

TEST_CASE("split segments cannot be given back, whole pages of expandable ones can") {
  for (const bool expandable : {false, true}) {
    CachingAllocator a({.expandable_segments = expandable, .limit = Bytes(100 * kMiB)});
    const BlockId b = *a.allocate(80 * kMiB, 0);
    a.release(b);
    a.allocate(20 * kMiB, 0);  // splits the 80 MiB
    CHECK(a.allocate(70 * kMiB, 1).has_value() == expandable);
    CHECK(a.now().reserved == (expandable ? 100 * kMiB : 80 * kMiB));
  }
}

TEST_CASE("above the threshold of the garbage collection the oldest cached segments go first") {
  CachingAllocator a({.limit = Bytes(200 * kMiB), .gc_threshold = 0.5});
  const BlockId old = *a.allocate(40 * kMiB, 0);
  a.release(old);
  const BlockId x = *a.allocate(50 * kMiB, 0);
  const BlockId y = *a.allocate(52 * kMiB, 0);  // 142 MiB
  a.release(y);
  a.allocate(60 * kMiB, 0);  // 42 MiB too much: 40 MiB of age 3 are released, then 52 MiB of age 1
  CHECK(a.now().reserved == 110 * kMiB);
  CHECK(a.retries() == 0);
  a.release(x);
}

TEST_CASE("with max_split_size large blocks are neither split nor given to smaller requests") {
  CachingAllocator a({.max_split = 64 * kMiB});
  a.release(*a.allocate(100 * kMiB, 0));
  a.allocate(30 * kMiB, 0);
  CHECK(a.now().reserved == 130 * kMiB);
  const BlockId b = *a.allocate(90 * kMiB, 0);  // oversized: takes all 100
  CHECK(a.size(b) == 100 * kMiB);
  a.release(b);
  a.allocate(79 * kMiB, 0);  // more than 20 MiB would be wasted
  CHECK(a.now().reserved == 130 * kMiB + 80 * kMiB);
}

TEST_CASE("roundup_power2_divisions rounds to parts between powers of two") {
  CachingAllocator a({.round_up_divisions = 4});
  const auto size = [&](std::int64_t bytes) { return a.size(*a.allocate(bytes, 0)); };
  CHECK(size(1200 * kKiB) == 1280 * kKiB);  // quarters of 1 MiB above 1 MiB
  CHECK(size(1536 * kKiB) == 1536 * kKiB);
  CHECK(size(1024) == 1024);
  CHECK(size(1025) == 1536);  // at most 4 x 512 bytes: rounded as usual
}

TEST_CASE("empty_cache gives back what no live block is in") {
  CachingAllocator a;
  a.release(*a.allocate(30 * kMiB, 0));
  const BlockId b = *a.allocate(512, 0);
  a.empty_cache();
  CHECK(a.now().reserved == 2 * kMiB);
  CHECK(a.retries() == 0);
  a.release(b);
  CHECK_THROWS_AS(a.release(b), std::invalid_argument);
}
