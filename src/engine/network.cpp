#include "network.h"

namespace stepcast::engine {

using program::kNone;

Network::Network(const std::vector<program::Resource>& resources) : resources_(resources.size()) {
  for (std::size_t j = 0; j < resources.size(); ++j) {
    resources_[j].capacity = Int128{resources[j].capacity} * program::kWeightOne;
    capacity_.push_back(resources[j].capacity);
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
  const auto first = static_cast<std::uint32_t>(entries_.size());
  entries_.resize(entries_.size() + count);
  return first;
}

void Network::touch(std::uint32_t resource) {
  if (!resources_[resource].touched) {
    resources_[resource].touched = true;
    touched_.push_back(resource);
  }
}

void Network::start(std::uint32_t activity, const program::Usage* usages, std::uint32_t count,
                    const program::Price& price, std::int64_t cap, std::int64_t now) {
  if (activities_.size() <= activity) {
    activities_.resize(activity + 1);
  }
  std::uint32_t used = 0;
  for (std::uint32_t k = 0; k < count; ++k) {
    used += price.weight[usages[k].kind] > 0 ? 1 : 0;
  }
  Activity& a = activities_[activity];
  a.remaining = Int128{price.fluid} * price.rate;
  a.rate = 0;
  a.cap = cap;
  a.since = now;
  a.first = used > 0 ? allocate(used) : 0;
  a.count = used;
  a.active = true;
  std::uint32_t e = a.first;
  for (std::uint32_t k = 0; k < count; ++k) {
    const std::int64_t weight = price.weight[usages[k].kind] * usages[k].count;
    if (weight == 0) {
      continue;
    }
    State& r = resources_[usages[k].resource];
    entries_[e] = Entry{weight, activity, usages[k].resource, kNone, r.head};
    if (r.head != kNone) {
      entries_[r.head].previous = e;
    }
    r.head = e;
    r.demand += Int128{cap} * weight;
    if (r.over()) {
      touch(usages[k].resource);
    }
    ++e;
  }
  changed_.push_back(activity);
}

void Network::finish(std::uint32_t activity) {
  Activity& a = activities_[activity];
  for (std::uint32_t e = a.first; e < a.first + a.count; ++e) {
    const Entry& x = entries_[e];
    State& r = resources_[x.resource];
    if (r.over()) {
      touch(x.resource);
    }
    r.demand -= Int128{a.cap} * x.weight;
    if (x.previous != kNone) {
      entries_[x.previous].next = x.next;
    } else {
      r.head = x.next;
    }
    if (x.next != kNone) {
      entries_[x.next].previous = x.previous;
    }
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
  for (std::uint32_t e = a.first; e < a.first + a.count; ++e) {
    State& r = resources_[entries_[e].resource];
    const bool before = r.over();
    r.demand += (Int128{cap} - a.cap) * entries_[e].weight;
    if (before || r.over()) {
      touch(entries_[e].resource);
    }
  }
  a.cap = cap;
  changed_.push_back(activity);
}

void Network::apply(std::uint32_t activity, std::int64_t rate, std::int64_t now) {
  Activity& a = activities_[activity];
  if (a.rate == rate) {
    return;
  }
  a.remaining -= Int128{a.rate} * (now - a.since);
  a.since = now;
  a.rate = rate;
  endings_.push_back({activity, now + ceil_divide(a.remaining, rate)});
}

// Everything that shares a binding resource, directly or through others, with a touched one.
void Network::gather() {
  component_.clear();
  open_.clear();
  for (const std::uint32_t j : touched_) {
    resources_[j].mark = epoch_;
    resources_[j].touched = false;
    open_.push_back(j);
  }
  touched_.clear();
  solver_.clear();
  while (!open_.empty()) {
    const std::uint32_t j = open_.back();
    open_.pop_back();
    if (resources_[j].over()) {
      resources_[j].local = static_cast<std::uint32_t>(solver_.capacity.size());
      solver_.capacity.push_back(capacity_[j]);
    }
    for (std::uint32_t e = resources_[j].head; e != kNone; e = entries_[e].next) {
      Activity& a = activities_[entries_[e].activity];
      if (a.mark == epoch_) {
        continue;
      }
      a.mark = epoch_;
      component_.push_back(entries_[e].activity);
      for (std::uint32_t x = a.first; x < a.first + a.count; ++x) {
        State& r = resources_[entries_[x].resource];
        if (r.mark != epoch_ && r.over()) {
          r.mark = epoch_;
          open_.push_back(entries_[x].resource);
        }
      }
    }
  }
}

void Network::solve(std::int64_t now) {
  ++solves_;
  for (const std::uint32_t id : component_) {
    const Activity& a = activities_[id];
    solver_.cap.push_back(a.cap);
    for (std::uint32_t e = a.first; e < a.first + a.count; ++e) {
      const State& r = resources_[entries_[e].resource];
      if (r.over()) {
        solver_.uses.push_back({r.local, entries_[e].weight});
      }
    }
    solver_.first.push_back(static_cast<std::uint32_t>(solver_.uses.size()));
  }
  solver_.solve();
  for (std::size_t i = 0; i < component_.size(); ++i) {
    apply(component_[i], solver_.rate[i], now);
  }
}

const std::vector<Network::Ending>& Network::settle(std::int64_t now) {
  endings_.clear();
  ++epoch_;
  if (!touched_.empty()) {
    gather();
    if (!component_.empty()) {
      solve(now);
    }
  }
  for (const std::uint32_t id : changed_) {
    if (activities_[id].active && activities_[id].mark != epoch_) {
      apply(id, activities_[id].cap, now);
    }
  }
  changed_.clear();
  return endings_;
}

}  // namespace stepcast::engine
