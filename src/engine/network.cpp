#include "network.h"

#include <algorithm>
#include <functional>

namespace stepcast::engine {

namespace {

// Resources of a large collective are asked of memory so many before they are used.
constexpr std::uint32_t kAhead = 8;

}  // namespace

Network::Network(const std::vector<program::Resource>& resources) : resources_(resources.size()) {
  for (std::size_t j = 0; j < resources.size(); ++j) {
    resources_[j].capacity = Int128{resources[j].capacity} * program::kWeightOne;
  }
}

std::uint32_t Network::allocate(std::uint32_t count) {
  if (free_.size() <= count) {
    free_.resize(count + 1);
  }
  if (!free_[count].empty()) {
    const std::uint32_t first = free_[count].back();
    free_[count].pop_back();
    return first;
  }
  const auto first = static_cast<std::uint32_t>(uses_.size());
  uses_.resize(uses_.size() + count);
  return first;
}

void Network::touch(std::uint32_t resource) {
  if (!resources_[resource].touched) {
    resources_[resource].touched = true;
    touched_.push_back(resource);
  }
}

void Network::change(std::uint32_t activity) {
  if (!activities_[activity].changed) {
    activities_[activity].changed = true;
    changed_.push_back(activity);
  }
}

void Network::start(std::uint32_t activity, const program::Usage* usages, std::uint32_t count,
                    const program::Price& price, std::int64_t cap, Time now) {
  if (activities_.size() <= activity) {
    activities_.resize(activity + 1);
  }
  // What it uses is all over memory, and read twice: the least level first, for its key.
  std::uint32_t used = 0;
  Key key = cap_key(cap);
  for (std::uint32_t k = 0; k < count; ++k) {
    if (k + kAhead < count) {
      __builtin_prefetch(&resources_[usages[k + kAhead].resource], 1);
    }
    if (price.weight[usages[k].kind] * usages[k].count != 0) {
      ++used;
      const State& r = resources_[usages[k].resource];
      __builtin_prefetch(r.users.data() + r.users.size(), 1);
      key = std::min(key, r.level);
    }
  }
  Activity& a = activities_[activity];
  a.remaining = work(price.rate, price.fluid);
  a.rate = 0;
  a.cap = cap;
  a.since = now;
  a.key = key;
  a.first = used > 0 ? allocate(used) : 0;
  a.count = 0;
  a.active = true;
  for (std::uint32_t k = 0; k < count; ++k) {
    const std::int64_t weight = price.weight[usages[k].kind] * usages[k].count;
    if (weight == 0) {
      continue;
    }
    State& r = resources_[usages[k].resource];
    const std::uint32_t use = a.first + a.count++;
    uses_[use] = {weight, activity, usages[k].resource, static_cast<std::uint32_t>(r.users.size())};
    r.users.push_back({key, weight, use});
    r.demand += Int128{cap} * weight;
    if (r.over()) {
      touch(usages[k].resource);
    }
  }
  change(activity);
}

void Network::finish(std::uint32_t activity) {
  Activity& a = activities_[activity];
  const std::uint32_t end = a.first + a.count;
  for (std::uint32_t u = a.first; u < end; ++u) {
    if (u + 2 * kAhead < end) {
      __builtin_prefetch(&resources_[uses_[u + 2 * kAhead].resource], 1);
    }
    if (u + kAhead < end) {
      const Use& later = uses_[u + kAhead];
      __builtin_prefetch(resources_[later.resource].users.data() + later.position, 1);
    }
    const Use& use = uses_[u];
    State& r = resources_[use.resource];
    if (r.over()) {
      touch(use.resource);
    }
    r.demand -= Int128{a.cap} * use.weight;
    if (use.position + 1 != r.users.size()) {
      r.users[use.position] = r.users.back();
      uses_[r.users[use.position].use].position = use.position;
    }
    r.users.pop_back();
  }
  if (a.count > 0) {
    free_[a.count].push_back(a.first);
  }
  a.active = false;
}

void Network::set_cap(std::uint32_t activity, std::int64_t cap) {
  Activity& a = activities_[activity];
  if (a.cap == cap) {
    return;
  }
  for (std::uint32_t u = a.first; u < a.first + a.count; ++u) {
    State& r = resources_[uses_[u].resource];
    const bool before = r.over();
    r.demand += (Int128{cap} - a.cap) * uses_[u].weight;
    if (before || r.over()) {
      touch(uses_[u].resource);
    }
  }
  a.cap = cap;
  set_key(activity, fair_key(a));
  change(activity);
}

Network::Key Network::fair_key(const Activity& a) const {
  Key key = cap_key(a.cap);
  for (std::uint32_t u = a.first; u < a.first + a.count; ++u) {
    key = std::min(key, resources_[uses_[u].resource].level);
  }
  return key;
}

// The same, where no level of what it uses is below `water`: one that is there ends the search. It
// begins behind use `from`, since resources of one level are worked out in their order, and what
// lies behind is still there when many of them rise at once.
Network::Key Network::fair_key(const Activity& a, std::uint32_t from, Key water) const {
  Key key = cap_key(a.cap);
  const std::uint32_t end = a.first + a.count;
  std::uint32_t u = from;
  for (std::uint32_t k = 0; k < a.count && key > water; ++k) {
    u = u + 1 == end ? a.first : u + 1;
    key = std::min(key, resources_[uses_[u].resource].level);
  }
  return key;
}

// The level at which a resource is full: the least L with L >= what is left by those who stop below
// L, divided among the others. Below that L, what is left per weight is more than L, and grows as
// others stop; so from any lower L the way up finds it. Nothing of lower key than `water` will
// change, and the level is not below it.
Network::Key Network::fair_level(const State& r, Key water) const {
  if (!r.over()) {
    return kUnlimited;
  }
  for (;;) {
    Int128 residual = r.capacity;
    Int128 rising = 0;
    Key next = kUnlimited;
    for (const User& u : r.users) {
      if (u.key < water) {
        residual -= Int128{rate_of(u.key)} * u.weight;
      } else {
        rising += u.weight;
        next = std::min(next, u.key);
      }
    }
    if (rising == 0) {
      return kUnlimited;
    }
    const Key level = level_key(static_cast<std::int64_t>(floor_divide(residual, rising)));
    if (level <= next || level <= water) {
      return level;
    }
    water = level;
  }
}

void Network::set_key(std::uint32_t activity, Key key) {
  Activity& a = activities_[activity];
  if (a.key == key) {
    return;
  }
  const Key lower = std::min(a.key, key);
  a.key = key;
  for (std::uint32_t u = a.first; u < a.first + a.count; ++u) {
    State& r = resources_[uses_[u].resource];
    r.users[uses_[u].position].key = key;
    if (lower < r.level && r.over()) {
      touch(uses_[u].resource);
    }
  }
  change(activity);
}

// Works out the levels of touched resources; those that are no longer what they were wait in the
// heap at the lower of both.
void Network::examine(Key water) {
  for (const std::uint32_t j : touched_) {
    State& r = resources_[j];
    r.touched = false;
    ++evaluations_;
    const Key level = fair_level(r, water);
    const Key at = level == r.level ? -1 : std::min(level, r.level);
    if (at != r.queued && at >= 0) {
      heap_.emplace_back(at, j);
      std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
    }
    r.queued = at;
  }
  touched_.clear();
}

// Those who were stopped by the resource, or now are, take their new keys.
void Network::move_level(State& r, Key level, Key water) {
  const Key before = r.level;
  r.level = level;
  for (const User& u : r.users) {
    const std::uint32_t id = uses_[u.use].activity;
    if (u.key > level) {
      set_key(id, level);
    } else if (u.key == before) {
      set_key(id, fair_key(activities_[id], u.use, water));
    }
  }
}

void Network::solve() {
  ++solves_;
  examine(0);
  while (!heap_.empty()) {
    const Key water = heap_.front().first;
    while (!heap_.empty() && heap_.front().first == water) {
      const std::uint32_t j = heap_.front().second;
      std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
      heap_.pop_back();
      State& r = resources_[j];
      if (r.queued == water) {
        r.queued = -1;
        move_level(r, fair_level(r, water), water);
      }
    }
    examine(water);
  }
}

void Network::apply(Activity& a, std::uint32_t activity, Time now) {
  const std::int64_t rate = std::max<std::int64_t>(rate_of(a.key), 1);
  if (a.rate == rate) {
    return;
  }
  a.remaining -= work(a.rate, now - a.since);
  a.since = now;
  a.rate = rate;
  endings_.push_back({activity, now + time_of(a.remaining, rate)});
}

const std::vector<Network::Ending>& Network::settle(Time now) {
  endings_.clear();
  if (!touched_.empty()) {
    solve();
  }
  for (const std::uint32_t id : changed_) {
    Activity& a = activities_[id];
    a.changed = false;
    if (a.active) {
      apply(a, id, now);
    }
  }
  changed_.clear();
  return endings_;
}

}  // namespace stepcast::engine
