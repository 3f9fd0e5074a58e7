// Fluid activities over shared resources. Changes of one instant are gathered; settle() then gives
// every activity its max-min fair rate (max_min.h says which) and tells which end at another time
// than before.
//
// A resource whose demand with everyone at its cap fits its capacity cannot bind: it costs nothing.
//
// Only what an instant changes is worked out again. An activity stops rising at a key: at its cap,
// or, just after all caps of that value, at the level of the first of its resources that is full.
// A resource's level follows from the keys of those of its users that stop below it, and from
// nothing above: so there is exactly one consistent assignment of keys and levels, whatever way
// leads to it, and a change at some level leaves everything below it as it is. settle() restores
// consistency upwards from the lowest inconsistent level with a heap, as incremental shortest paths
// do (Ramalingam and Reps 1996); what it reaches by way of wrong keys above the water is put right
// before the water passes it. MaxMin, which fills all from nothing, is the oracle in tests.
#pragma once

#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "stepcast/program/program.h"
#include "wide.h"

namespace stepcast::engine {

class Network {
 public:
  struct Ending {
    std::uint32_t activity = 0;
    Time time{0};
  };

  explicit Network(const std::vector<program::Resource>& resources);

  // Activity ids are the caller's, small and reused. Alone it takes `price.fluid` at its cap if
  // that is `price.rate`.
  void start(std::uint32_t activity, const program::Usage* usages, std::uint32_t count,
             const program::Price& price, std::int64_t cap, Time now);
  void finish(std::uint32_t activity);
  void set_cap(std::uint32_t activity, std::int64_t cap);
  bool unsettled() const { return !changed_.empty() || !touched_.empty(); }
  // New ends of activities whose rate changed (or that started). Valid until the next call.
  const std::vector<Ending>& settle(Time now);
  std::int64_t rate(std::uint32_t activity) const { return activities_[activity].rate; }
  std::int64_t cap(std::uint32_t activity) const { return activities_[activity].cap; }
  // Work left at the time `since`, in bytes per second times picoseconds.
  Int128 remaining(std::uint32_t activity) const { return activities_[activity].remaining; }
  Time since(std::uint32_t activity) const { return activities_[activity].since; }
  // The same state at a later time.
  void postpone(std::uint32_t activity, Time by) { activities_[activity].since += by; }
  // Instants that touched a resource that can bind, and levels worked out in them.
  std::uint64_t solves() const { return solves_; }
  std::uint64_t evaluations() const { return evaluations_; }

 private:
  // Twice a rate, plus one for the level of a resource: caps of a rate come before levels of it.
  using Key = std::int64_t;
  static constexpr Key kUnlimited = std::numeric_limits<Key>::max();
  static constexpr Key cap_key(std::int64_t rate) { return 2 * rate; }
  static constexpr Key level_key(std::int64_t level) { return 2 * level + 1; }
  static constexpr std::int64_t rate_of(Key key) { return key >> 1; }

  struct Activity {
    Int128 remaining = 0;  // bytes per second times picoseconds
    std::int64_t rate = 0;
    std::int64_t cap = 0;
    Time since{0};
    Key key = 0;
    std::uint32_t first = 0;  // uses
    std::uint32_t count = 0;
    bool active = false;
    bool changed = false;  // listed in changed_
  };
  struct Use {  // of a resource by an activity
    std::int64_t weight = 0;
    std::uint32_t activity = 0;
    std::uint32_t resource = 0;
    std::uint32_t position = 0;  // among the resource's users
  };
  struct User {  // the same, as the resource sees it
    Key key = 0;
    std::int64_t weight = 0;
    std::uint32_t use = 0;
  };
  struct State {
    Int128 demand = 0;  // with everyone at its cap, times 2^16
    Int128 capacity = 0;
    Key level = kUnlimited;
    Key queued = -1;       // where in the heap it waits
    bool touched = false;  // listed in touched_
    std::vector<User> users;
    bool over() const { return demand > capacity; }
  };
  using Waiting = std::pair<Key, std::uint32_t>;  // resource

  std::vector<State> resources_;
  std::vector<Activity> activities_;
  std::vector<Use> uses_;
  std::vector<std::vector<std::uint32_t>> free_;  // runs of uses, by length
  std::vector<std::uint32_t> changed_;            // activities whose key may have
  std::vector<std::uint32_t> touched_;            // resources whose level may have
  std::vector<Ending> endings_;
  std::vector<Waiting> heap_;
  std::uint64_t solves_ = 0;
  std::uint64_t evaluations_ = 0;

  std::uint32_t allocate(std::uint32_t count);
  void touch(std::uint32_t resource);
  void change(std::uint32_t activity);
  Key fair_key(const Activity& a) const;
  Key fair_key(const Activity& a, std::uint32_t from, Key water) const;
  Key fair_level(const State& r, Key water) const;
  void set_key(std::uint32_t activity, Key key);
  void examine(Key water);
  void move_level(State& r, Key level, Key water);
  void solve();
  void apply(Activity& a, std::uint32_t activity, Time now);
};

}  // namespace stepcast::engine
