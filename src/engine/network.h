// Fluid activities over shared resources. Changes of one instant are gathered; settle() then solves
// each touched component once and says which activities end at another time than before.
//
// A resource whose demand with everyone at its cap fits its capacity cannot bind: it connects
// nothing and costs nothing.
#pragma once

#include <cstdint>
#include <vector>

#include "max_min.h"
#include "stepcast/program/program.h"
#include "wide.h"

namespace stepcast::engine {

class Network {
 public:
  struct Ending {
    std::uint32_t activity = 0;
    std::int64_t time = 0;
  };

  explicit Network(const std::vector<program::Resource>& resources);

  // Activity ids are the caller's, small and reused. Alone it takes `price.fluid` at its cap if
  // that is `price.rate`.
  void start(std::uint32_t activity, const program::Usage* usages, std::uint32_t count,
             const program::Price& price, std::int64_t cap, std::int64_t now);
  void finish(std::uint32_t activity);
  void set_cap(std::uint32_t activity, std::int64_t cap);
  bool unsettled() const { return !changed_.empty() || !touched_.empty(); }
  // New ends of activities whose rate changed (or that started). Valid until the next call.
  const std::vector<Ending>& settle(std::int64_t now);
  std::int64_t rate(std::uint32_t activity) const { return activities_[activity].rate; }
  std::int64_t cap(std::uint32_t activity) const { return activities_[activity].cap; }
  std::uint64_t solves() const { return solves_; }

 private:
  struct Activity {
    Int128 remaining = 0;  // bytes per second times picoseconds
    std::int64_t rate = 0;
    std::int64_t cap = 0;
    std::int64_t since = 0;
    std::uint32_t first = 0;  // entries
    std::uint32_t count = 0;
    std::uint32_t mark = 0;
    bool active = false;
  };
  struct Entry {
    std::int64_t weight = 0;
    std::uint32_t activity = 0;
    std::uint32_t resource = 0;
    std::uint32_t previous = 0;
    std::uint32_t next = 0;
  };
  struct State {
    Int128 demand = 0;  // with everyone at its cap, times 2^16
    Int128 capacity = 0;
    std::uint32_t head = program::kNone;
    std::uint32_t mark = 0;
    std::uint32_t local = 0;  // index within the component being solved
    bool touched = false;
    bool over() const { return demand > capacity; }
  };

  std::vector<State> resources_;
  std::vector<std::int64_t> capacity_;
  std::vector<Activity> activities_;
  std::vector<Entry> entries_;
  std::vector<std::vector<std::uint32_t>> free_;  // runs of entries, by length
  std::vector<std::uint32_t> changed_;
  std::vector<std::uint32_t> touched_;
  std::vector<Ending> endings_;
  std::vector<std::uint32_t> component_;
  std::vector<std::uint32_t> open_;
  MaxMin solver_;
  std::uint32_t epoch_ = 0;
  std::uint64_t solves_ = 0;

  std::uint32_t allocate(std::uint32_t count);
  void touch(std::uint32_t resource);
  void apply(std::uint32_t activity, std::int64_t rate, std::int64_t now);
  void gather();
  void solve(std::int64_t now);
};

}  // namespace stepcast::engine
