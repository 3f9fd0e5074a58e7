// PyTorch's memory snapshot of a forecast: blocks fill their segments, and replaying the events
// gives these blocks.
#include "stepcast/interop/torch_snapshot.h"

#include <algorithm>
#include <map>

#include "laws/memory_timeline.h"
#include "support/pickle.h"

using namespace stepcast;
using nlohmann::json;
using test::kMemoryJobs;
using test::memory_of;

namespace {

// A set of address ranges that do not overlap.
class Stretches {
 public:
  bool add(std::int64_t address, std::int64_t size) {
    const auto above = by_address_.lower_bound(address);
    if (above != by_address_.end() && above->first < address + size) {
      return false;
    }
    if (above != by_address_.begin() &&
        std::prev(above)->first + std::prev(above)->second > address) {
      return false;
    }
    by_address_.emplace(address, size);
    return true;
  }
  bool remove(std::int64_t address, std::int64_t size) {
    const auto it = by_address_.find(address);
    if (it == by_address_.end() || it->second != size) {
      return false;
    }
    by_address_.erase(it);
    return true;
  }
  bool holds(std::int64_t address, std::int64_t size) const {
    auto above = by_address_.upper_bound(address);
    if (above == by_address_.begin()) {
      return false;
    }
    --above;
    return above->first + above->second >= address + size;
  }
  // Like add() and remove(), for part of an adjacent range: an expandable segment grows and shrinks
  // by pages.
  bool cover(std::int64_t address, std::int64_t size) {
    if (!add(address, size)) {
      return false;
    }
    auto at = by_address_.find(address);
    if (const auto next = std::next(at);
        next != by_address_.end() && at->first + at->second == next->first) {
      at->second += next->second;
      by_address_.erase(next);
    }
    if (at != by_address_.begin() && std::prev(at)->first + std::prev(at)->second == at->first) {
      std::prev(at)->second += at->second;
      by_address_.erase(at);
    }
    return true;
  }
  bool uncover(std::int64_t address, std::int64_t size) {
    if (!holds(address, size)) {
      return false;
    }
    const auto whole = std::prev(by_address_.upper_bound(address));
    const std::int64_t begin = whole->first, end = begin + whole->second;
    by_address_.erase(whole);
    if (begin < address) {
      by_address_[begin] = address - begin;
    }
    if (address + size < end) {
      by_address_[address + size] = end - address - size;
    }
    return true;
  }
  bool operator==(const Stretches&) const = default;

 private:
  std::map<std::int64_t, std::int64_t> by_address_;
};

struct Device {
  Stretches segments, live, waiting;
  bool operator==(const Device&) const = default;
};

Device at_end(const json& snapshot, int device) {
  Device out;
  for (const json& s : snapshot.at("segments")) {
    if (s.at("device") != device) {
      continue;
    }
    REQUIRE(out.segments.cover(s.at("address"), s.at("total_size")));
    for (const json& b : s.at("blocks")) {
      const std::int64_t address = b.at("address"), size = b.at("requested_size");
      if (b.at("state") == "active_allocated") {
        REQUIRE(out.live.add(address, size));
      } else if (b.at("state") == "active_pending_free") {
        REQUIRE(out.waiting.add(address, size));
      } else {
        REQUIRE(b.at("state") == "inactive");
      }
    }
  }
  return out;
}

// Applies or undoes one event; false if the state of the device does not allow it.
bool play(Device& d, const json& e, bool forwards) {
  const std::string action = e.at("action");
  const std::int64_t address = e.at("addr"), size = e.at("size");
  const auto make = [&](Stretches& s) {
    return forwards ? s.add(address, size) : s.remove(address, size);
  };
  const auto drop = [&](Stretches& s) {
    return forwards ? s.remove(address, size) : s.add(address, size);
  };
  if (action == "alloc") {
    return d.segments.holds(address, size) && make(d.live);
  }
  if (action == "free_requested") {
    return forwards ? drop(d.live) && make(d.waiting) : make(d.waiting) && drop(d.live);
  }
  if (action == "free_completed") {
    return drop(d.waiting);
  }
  const bool made = action == "segment_alloc" || action == "segment_map";
  return made == forwards ? d.segments.cover(address, size) : d.segments.uncover(address, size);
}

}  // namespace

TEST_CASE("A snapshot's blocks fill their segments without a gap") {
  const auto& [name, text] = GENERATE(from_range(kMemoryJobs));
  INFO(name);
  const auto memory = memory_of(text);
  test::PickleReader reader(interop::torch_snapshot(memory));
  const json snapshot = reader.read();
  CHECK(reader.protocol() == 4);
  std::vector<std::int64_t> reserved(memory.stages.size(), 0), allocated = reserved;
  for (const json& s : snapshot.at("segments")) {
    std::int64_t live = 0, active = 0, requested = 0, at = s.at("address");
    for (const json& b : s.at("blocks")) {
      CHECK(b.at("address") == at);
      const std::int64_t size = b.at("size");
      CHECK(size % 512 == 0);
      at += size;
      const bool used = b.at("state") != "inactive";
      live += b.at("state") == "active_allocated" ? size : 0;
      active += used ? size : 0;
      requested += used ? b.at("requested_size").get<std::int64_t>() : 0;
      CHECK(b.at("requested_size") <= size);
      CHECK(b.at("frames").is_array());
    }
    CHECK(at == s.at("address").get<std::int64_t>() + s.at("total_size").get<std::int64_t>());
    CHECK(s.at("allocated_size") == live);
    CHECK(s.at("active_size") == active);
    CHECK(s.at("requested_size") == requested);
    CHECK(s.at("segment_pool_id") == json::array({0, 0}));
    reserved.at(s.at("device")) += s.at("total_size").get<std::int64_t>();
    allocated.at(s.at("device")) += live;
  }
  for (std::size_t i = 0; i < memory.stages.size(); ++i) {
    INFO("stage " << i);
    CHECK(reserved[i] == memory.stages[i].reserved.count());
    CHECK(allocated[i] == memory.stages[i].steady.count());
  }
}

TEST_CASE("A snapshot's events lead from the step's start to its segments") {
  const auto& [name, text] = GENERATE(from_range(kMemoryJobs));
  INFO(name);
  const auto memory = memory_of(text);
  const json snapshot = test::PickleReader(interop::torch_snapshot(memory)).read();
  REQUIRE(snapshot.at("device_traces").size() == memory.stages.size());
  for (int d = 0; d < static_cast<int>(memory.stages.size()); ++d) {
    INFO("device " << d);
    const json& events = snapshot.at("device_traces").at(static_cast<std::size_t>(d));
    REQUIRE(events.size() > 10);
    const Device end = at_end(snapshot, d);
    Device device = end;
    for (auto e = events.rbegin(); e != events.rend(); ++e) {
      REQUIRE(play(device, *e, false));
    }
    std::int64_t time = 0;
    for (const json& e : events) {
      REQUIRE(play(device, e, true));
      REQUIRE(e.at("time_us") >= time);
      time = e.at("time_us");
      if (e.at("action") == "alloc") {
        REQUIRE(e.at("frames").size() >= 2);
        REQUIRE(e.at("frames")[0].contains("filename"));
        REQUIRE(e.at("frames")[0].contains("line"));
        REQUIRE(e.at("frames").back().at("name") == "stage " + std::to_string(d));
      }
    }
    CHECK(device == end);
  }
}
