// Compares the allocator model with a slow one that is written from the rules alone: lists of
// blocks, and every choice by a full scan. The traffic is random on several streams, with delayed
// releases, limits, thresholds and bounds on splitting.
#include "stepcast/memory/allocator.h"

#include <algorithm>
#include <list>
#include <map>
#include <random>

#include "catch.hpp"

using stepcast::Bytes;
using stepcast::Time;
using namespace stepcast::memory;

namespace {

constexpr std::int64_t kMiB = 1 << 20;

struct SlowBlock {
  std::int64_t bytes = 0;
  int id = -1;             // of a live block or of one whose release is delayed
  std::int64_t safe = -1;  // time until which the release is delayed
  bool pages = true;
  bool fresh = false;      // reserved for the request that made the allocator grow
  std::int64_t freed = 0;  // number of requests to its pool before it became free
  bool free() const { return id < 0 && pages; }
};

struct SlowSegment {
  int stream = 0;
  bool small = false;
  std::list<SlowBlock> blocks;
  std::int64_t mapped() const {
    std::int64_t sum = 0;
    for (const SlowBlock& b : blocks) {
      sum += b.pages ? b.bytes : 0;
    }
    return sum;
  }
};

class SlowAllocator {
 public:
  explicit SlowAllocator(AllocatorOptions o) : o_(o) {}

  bool allocate(int id, std::int64_t bytes, int stream, std::int64_t now) {
    wake(now);
    const std::int64_t size = rounded(bytes);
    const bool small = size <= kMiB;
    ++requests_[small];
    if (take(id, bytes, size, stream, small)) {
      return true;
    }
    if (o_.gc_threshold > 0 && o_.limit.count() > 0) {
      collect();
    }
    if (grow(size, stream, small)) {
      return take(id, bytes, size, stream, small, true);
    }
    if (o_.max_split > 0 && !o_.expandable_segments && drop_oversized(size, stream, small) &&
        grow(size, stream, small)) {
      return take(id, bytes, size, stream, small, true);
    }
    wake(std::numeric_limits<std::int64_t>::max());
    drop_all();
    ++retries;
    return grow(size, stream, small) && take(id, bytes, size, stream, small, true);
  }

  void release(int id, std::int64_t now, std::int64_t safe) {
    for (SlowSegment& s : segments_) {
      for (SlowBlock& b : s.blocks) {
        if (b.id == id) {
          requested_.erase(id);
          b.safe = safe;
          if (safe <= now) {
            b.id = -1;
            b.freed = requests_[s.small];
            join(s);
          }
          return;
        }
      }
    }
  }

  AllocatorStats stats() const {
    AllocatorStats x;
    for (const SlowSegment& s : segments_) {
      x.reserved += s.mapped();
      for (const SlowBlock& b : s.blocks) {
        if (b.id >= 0) {
          x.active += b.bytes;
          if (const auto r = requested_.find(b.id); r != requested_.end()) {
            x.allocated += b.bytes;
            x.requested += r->second;
          }
        }
      }
    }
    return x;
  }

  int retries = 0;

 private:
  static std::int64_t up(std::int64_t x, std::int64_t unit) { return (x + unit - 1) / unit * unit; }

  std::int64_t rounded(std::int64_t bytes) const {
    if (o_.round_up_divisions > 1 && bytes > 512 * o_.round_up_divisions) {
      std::int64_t power = 1;
      while (2 * power <= bytes) {
        power *= 2;
      }
      return up(bytes, power / o_.round_up_divisions);
    }
    return std::max<std::int64_t>(512, up(bytes, 512));
  }

  // Frees the blocks whose other streams have finished and sets `freed` accordingly.
  void wake(std::int64_t now) {
    for (SlowSegment& s : segments_) {
      for (SlowBlock& b : s.blocks) {
        if (b.id >= 0 && requested_.count(b.id) == 0 && b.safe <= now) {
          b.id = -1;
          b.freed = requests_[s.small];
        }
      }
      join(s);
    }
  }

  // A block that is merged with a neighbour takes the age of the younger of the two.
  static void join(SlowSegment& s) {
    for (auto b = s.blocks.begin(); b != s.blocks.end(); ++b) {
      auto next = std::next(b);
      while (next != s.blocks.end() && b->id < 0 && next->id < 0 && b->pages == next->pages) {
        b->bytes += next->bytes;
        b->freed = std::max(b->freed, next->freed);
        b->fresh = b->fresh || next->fresh;
        next = s.blocks.erase(next);
      }
    }
  }

  static std::int64_t room_behind(const SlowSegment& s, std::list<SlowBlock>::const_iterator b) {
    const auto next = std::next(b);
    return next != s.blocks.end() && !next->pages ? next->bytes : 0;
  }

  // Takes the best free block of the stream and splits it. If `fresh`, the block has just been
  // made, and no bound on splitting excludes it.
  bool take(int id, std::int64_t bytes, std::int64_t size, int stream, bool small,
            bool fresh = false) {
    struct Choice {
      SlowSegment* segment;
      std::list<SlowBlock>::iterator block;
      std::int64_t bytes, could_be;
    };
    std::vector<Choice> all;
    for (SlowSegment& s : segments_) {
      for (auto b = s.blocks.begin(); b != s.blocks.end(); ++b) {
        if (s.stream == stream && s.small == small && b->free() && b->bytes >= size) {
          all.push_back({&s, b, b->bytes, b->bytes + room_behind(s, b)});
        }
      }
    }
    if (all.empty()) {
      return false;
    }
    // Segments are in order of address, and the sort keeps it.
    std::stable_sort(all.begin(), all.end(),
                     [](const Choice& a, const Choice& b) { return a.bytes < b.bytes; });
    std::size_t i = 0;
    while (fresh && i + 1 < all.size() && !all[i].block->fresh) {
      ++i;
    }
    while (!fresh && o_.expandable_segments && i + 1 < all.size() &&
           all[i + 1].could_be < all[i].could_be) {
      ++i;
    }
    if (!fresh && o_.max_split > 0) {
      if (size < o_.max_split && all[i].bytes >= o_.max_split) {
        return false;
      }
      if (size >= o_.max_split && all[i].bytes >= size + 20 * kMiB) {
        return false;
      }
    }
    SlowBlock& b = *all[i].block;
    b.fresh = false;
    const std::int64_t left = b.bytes - size;
    const bool split = small || o_.expandable_segments
                           ? left >= 512
                           : left > kMiB && (o_.max_split == 0 || size < o_.max_split);
    if (split) {
      SlowBlock rest;
      rest.bytes = left;
      rest.freed = requests_[small];
      b.bytes = size;
      all[i].segment->blocks.insert(std::next(all[i].block), rest);
    }
    b.id = id;
    requested_[id] = bytes;
    return true;
  }

  bool fits(std::int64_t more) const {
    return o_.limit.count() == 0 || stats().reserved + more <= o_.limit.count();
  }

  // Gets more memory from the driver, so that a free block of `size` exists.
  bool grow(std::int64_t size, int stream, bool small) {
    if (!o_.expandable_segments) {
      const std::int64_t bytes = small              ? 2 * kMiB
                                 : size < 10 * kMiB ? 20 * kMiB
                                                    : up(size, 2 * kMiB);
      if (!fits(bytes)) {
        return false;
      }
      SlowSegment s{stream, small, {}};
      SlowBlock b;
      b.bytes = bytes;
      b.fresh = true;
      s.blocks.push_back(b);
      segments_.insert(o_.oldest_segment_first ? segments_.end() : segments_.begin(), s);
      return true;
    }
    SlowSegment* segment = nullptr;
    for (SlowSegment& s : segments_) {
      segment = s.stream == stream && s.small == small ? &s : segment;
    }
    if (segment == nullptr) {
      SlowSegment s{stream, small, {}};
      SlowBlock b;
      b.bytes = std::int64_t{1} << 46;
      b.pages = false;
      s.blocks.push_back(b);
      segments_.push_back(s);
      segment = &segments_.back();
    }
    const std::int64_t page = small ? 2 * kMiB : 20 * kMiB;
    // The lowest run of free and unmapped blocks that is long enough and whose first or second
    // block is unmapped.
    for (auto b = segment->blocks.begin(); b != segment->blocks.end(); ++b) {
      const bool second = b->free() && room_behind(*segment, b) > 0;
      if (b->id >= 0 || (b->pages && !second)) {
        continue;
      }
      std::int64_t run = 0;
      for (auto c = b; c != segment->blocks.end() && c->id < 0 && run < size; ++c) {
        run += c->bytes;
      }
      if (run < size) {
        continue;
      }
      std::int64_t have = 0;
      b->fresh = true;
      for (auto c = b; have < size; c = std::next(c)) {
        if (c->pages) {
          have += c->bytes;
          continue;
        }
        const std::int64_t bytes = std::min(c->bytes, up(size - have, page));
        if (!fits(bytes)) {
          b->fresh = false;
          join(*segment);
          return false;
        }
        if (bytes < c->bytes) {
          SlowBlock rest;
          rest.bytes = c->bytes - bytes;
          rest.pages = false;
          segment->blocks.insert(std::next(c), rest);
          c->bytes = bytes;
        }
        c->pages = true;
        have += bytes;
      }
      join(*segment);
      return true;
    }
    return false;
  }

  void collect() {
    const std::int64_t reserved = stats().reserved;
    const auto threshold =
        static_cast<std::int64_t>(o_.gc_threshold * static_cast<double>(o_.limit.count()));
    std::int64_t missing = reserved - threshold;
    for (bool any = true; missing > 0 && any;) {
      any = false;
      double ages = 0;
      int count = 0;
      const auto cached = [&](const SlowSegment& s) {
        return !o_.expandable_segments && !s.small && s.blocks.size() == 1 &&
               s.blocks.front().free();
      };
      for (const SlowSegment& s : segments_) {
        if (cached(s)) {
          ages += static_cast<double>(requests_[0] - s.blocks.front().freed);
          ++count;
        }
      }
      for (auto s = segments_.begin(); s != segments_.end();) {
        if (cached(*s) &&
            static_cast<double>(requests_[0] - s->blocks.front().freed) >= ages / count) {
          any = true;
          missing -= s->blocks.front().bytes;
          s = segments_.erase(s);
        } else {
          ++s;
        }
      }
    }
  }

  bool drop_oversized(std::int64_t size, int stream, bool small) {
    const std::int64_t least = std::max(size, o_.max_split);
    std::vector<std::list<SlowSegment>::iterator> found;
    for (auto s = segments_.begin(); s != segments_.end(); ++s) {
      if (s->stream == stream && s->small == small && s->blocks.size() == 1 &&
          s->blocks.front().free() && s->blocks.front().bytes >= o_.max_split) {
        found.push_back(s);
      }
    }
    std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) {
      return a->blocks.front().bytes < b->blocks.front().bytes;
    });
    for (const auto& s : found) {
      if (s->blocks.front().bytes >= least) {
        segments_.erase(s);
        return true;
      }
    }
    std::int64_t dropped = 0;
    while (!found.empty() && dropped < least) {
      dropped += found.back()->blocks.front().bytes;
      segments_.erase(found.back());
      found.pop_back();
    }
    return dropped >= least;
  }

  void drop_all() {
    const auto page = [](const SlowSegment& s) { return s.small ? 2 * kMiB : 20 * kMiB; };
    for (auto s = segments_.begin(); s != segments_.end();) {
      if (!o_.expandable_segments) {
        s = s->blocks.size() == 1 && s->blocks.front().free() ? segments_.erase(s) : std::next(s);
        continue;
      }
      std::int64_t at = 0;
      std::list<SlowBlock> out;
      for (const SlowBlock& b : s->blocks) {
        const std::int64_t from = up(at, page(*s));
        const std::int64_t to = (at + b.bytes) / page(*s) * page(*s);
        if (b.free() && from < to) {
          for (const auto& [bytes, pages] :
               {std::pair{from - at, true}, {to - from, false}, {at + b.bytes - to, true}}) {
            if (bytes > 0) {
              SlowBlock part = b;
              part.bytes = bytes;
              part.pages = pages;
              out.push_back(part);
            }
          }
        } else {
          out.push_back(b);
        }
        at += b.bytes;
      }
      s->blocks = out;
      join(*s);
      ++s;
    }
  }

  AllocatorOptions o_;
  std::list<SlowSegment> segments_;  // by address
  std::map<int, std::int64_t> requested_;
  std::int64_t requests_[2] = {0, 0};
};

void check_equal(const AllocatorStats& a, const AllocatorStats& b) {
  REQUIRE(a.requested == b.requested);
  REQUIRE(a.allocated == b.allocated);
  REQUIRE(a.active == b.active);
  REQUIRE(a.reserved == b.reserved);
}

struct Traffic {
  int out_of_memory = 0;
  int retries = 0;
  int waited = 0;
};

Traffic same(const AllocatorOptions& options, std::uint64_t seed, int events) {
  INFO("seed " << seed << ", expandable " << options.expandable_segments << ", limit "
               << options.limit.count() << ", max_split " << options.max_split << ", threshold "
               << options.gc_threshold);
  std::mt19937_64 random(seed);
  const auto pick = [&](std::uint64_t n) { return static_cast<std::int64_t>(random() % n); };
  CachingAllocator fast(options);
  SlowAllocator slow(options);
  std::map<int, BlockId> live;
  Traffic out;
  const auto streams = static_cast<std::uint64_t>(1 + pick(3));
  const std::int64_t most_live = 5 + pick(40);
  std::vector<std::int64_t> favourites;
  for (int i = 0; i < 6; ++i) {
    favourites.push_back((1 + pick(160)) * kMiB / 2);
  }
  for (int i = 0; i < events; ++i) {
    const std::int64_t now = 10 * i;
    if (!live.empty() && (pick(2) == 0 || static_cast<std::int64_t>(live.size()) > most_live)) {
      const auto it = std::next(live.begin(), pick(live.size()));
      const std::int64_t safe = pick(3) == 0 ? now + pick(300) : 0;
      out.waited += safe > now ? 1 : 0;
      fast.release(it->second, Time(now), Time(safe));
      slow.release(it->first, now, safe);
      live.erase(it);
    } else {
      const std::int64_t kind = pick(4);
      const std::int64_t bytes = kind == 0   ? 1 + pick(kMiB + 1000)
                                 : kind == 1 ? 1 + pick(24 * kMiB)
                                 : kind == 2 ? favourites[pick(6)]
                                             : 1 + pick(100 * kMiB);
      const auto stream = static_cast<std::uint8_t>(pick(streams));
      const auto id = fast.allocate(bytes, stream, Time(now));
      const bool made = slow.allocate(i, bytes, stream, now);
      REQUIRE(id.has_value() == made);
      if (id) {
        live[i] = *id;
      } else {
        ++out.out_of_memory;
      }
    }
    check_equal(fast.now(), slow.stats());
    REQUIRE(fast.retries() == slow.retries);
  }
  out.retries = slow.retries;
  return out;
}

}  // namespace

TEST_CASE("the allocator and a slow one of lists reserve the same at every event") {
  Traffic all;
  for (std::uint64_t seed = 0; seed < 160; ++seed) {
    AllocatorOptions o;
    o.expandable_segments = seed % 2 == 1;
    o.limit = Bytes(seed % 4 < 2 ? 0 : static_cast<std::int64_t>(300 + 37 * (seed % 11)) * kMiB);
    o.gc_threshold = seed % 8 == 6 ? 0.6 : 0;
    o.max_split = seed % 5 == 4 ? 40 * kMiB : 0;
    o.round_up_divisions = seed % 7 == 3 ? 8 : 0;
    o.oldest_segment_first = seed % 3 != 1;
    const Traffic t = same(o, seed, 400);
    all.out_of_memory += t.out_of_memory;
    all.retries += t.retries;
    all.waited += t.waited;
  }
  CHECK(all.out_of_memory > 50);  // the traffic must really run out of memory
  CHECK(all.retries > all.out_of_memory);
  CHECK(all.waited > 1000);
}

TEST_CASE(
    "reserved is never below active, active never below allocated, allocated never below what was "
    "requested") {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    std::mt19937_64 random(seed);
    CachingAllocator a({.expandable_segments = seed % 2 == 1});
    std::vector<BlockId> live;
    for (int i = 0; i < 2000; ++i) {
      if (!live.empty() && random() % 2 == 0) {
        std::swap(live[random() % live.size()], live.back());
        a.release(live.back(), Time(i), Time(i + static_cast<std::int64_t>(random() % 20)));
        live.pop_back();
      } else {
        live.push_back(
            *a.allocate(static_cast<std::int64_t>(1 + random() % (1ULL << (random() % 28))),
                        static_cast<std::uint8_t>(random() % 4), Time(i)));
      }
      for (const AllocatorStats& s : {a.now(), a.peak()}) {
        REQUIRE(s.reserved >= s.active);
        REQUIRE(s.active >= s.allocated);
        REQUIRE(s.allocated >= s.requested);
      }
      REQUIRE(a.peak().reserved >= a.now().reserved);
    }
    std::int64_t reserved = 0;
    std::int64_t active = 0;
    for (const auto& segment : a.segments()) {
      reserved += segment.bytes;
      std::int64_t inside = 0;
      for (const auto& block : segment.blocks) {
        REQUIRE(block.offset >= inside);
        inside = block.offset + block.bytes;
        active += block.state != CachingAllocator::Block::State::free ? block.bytes : 0;
      }
    }
    REQUIRE(reserved == a.now().reserved);
    REQUIRE(active == a.now().active);
    for (const BlockId b : live) {
      a.release(b, Time(5000));
    }
    a.empty_cache(Time(5000));
    REQUIRE(a.now().active == 0);
    REQUIRE(a.now().reserved == 0);
  }
}

TEST_CASE("one size: expandable segments reserve no more than others, up to a page") {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    std::mt19937_64 random(seed);
    const auto bytes = static_cast<std::int64_t>(10 * kMiB + random() % (80 * kMiB));
    CachingAllocator plain;
    CachingAllocator expandable({.expandable_segments = true});
    std::vector<std::pair<BlockId, BlockId>> live;
    for (int i = 0; i < 300; ++i) {
      if (!live.empty() && random() % 5 < 2) {
        std::swap(live[random() % live.size()], live.back());
        plain.release(live.back().first);
        expandable.release(live.back().second);
        live.pop_back();
      } else {
        live.emplace_back(*plain.allocate(bytes, 0), *expandable.allocate(bytes, 0));
      }
      REQUIRE(expandable.now().reserved < plain.now().reserved + 20 * kMiB);
    }
  }
}
