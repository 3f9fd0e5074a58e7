#include "pool.h"

#include <algorithm>
#include <cmath>
#include <functional>

namespace stepcast::cost {
namespace {

// Expected sizes of the levels' shifts, log2 units, found by leaving logs and sites out
// (scripts/nccl-table): kinds hardly differ beyond what NCCL's own model says, group sizes and what
// one system does with one operation differ much.
constexpr double kKind = 0.06;
constexpr double kSize = 1.8;
constexpr double kMachine = 0.27;
constexpr double kOperation = 0.42;
constexpr double kCell = 1.6;
constexpr double kLog = 0.065;

Prior of_size(double latency, double share) { return {latency, share, 0.6 * share, 0.35 * share}; }

Shift plus(const Shift& a, const Shift& b, double reach) {
  Shift c = a;
  for (std::size_t i = 0; i < c.size(); ++i) {
    c[i] += reach * b[i];
  }
  return c;
}

// How far a network's group of so many domains is from two, in units of eight times.
double spread_of(int domains) { return std::clamp(std::log2(domains / 2.0) / 3, 0.0, 3.0); }

// Entry of a size, or between those that lie around it.
template <class Level, class Make>
Shift between(const Level& level, const Make& key, int size) {
  const auto low_end = level.lower_bound(key(0));
  const auto high_end = level.upper_bound(key(1 << 30));
  if (low_end == high_end) {
    return {};
  }
  const auto above = level.lower_bound(key(size));
  if (above == low_end) {
    return above->second;
  }
  const auto below = std::prev(above);
  if (above == high_end) {
    return below->second;
  }
  const double low = std::get<3>(below->first);
  const double high = std::get<3>(above->first);
  const double w = std::log(size / low) / std::log(high / low);
  return plus(plus({}, below->second, 1 - w), above->second, w);
}

}  // namespace

Pool::Pool(const std::vector<Machine>& machines, const std::vector<const Sample*>& samples) {
  const auto n = samples.size();
  std::vector<Shift> base(n, Shift{});
  const auto machine = [&](const Sample& s) -> const Machine& {
    return machines[static_cast<std::size_t>(s.machine)];
  };
  const auto network = [&](const Sample& s) { return machine(s).group == "network"; };
  const auto always = [](const Sample&) { return 1.0; };
  const auto fit_level = [&](Level& level, const Prior& prior, double below,
                             const std::function<Key(const Sample&)>& key_of,
                             const std::function<std::string(const Sample&)>& member_of,
                             const std::function<double(const Sample&)>& reach_of) {
    std::map<Key, std::vector<std::size_t>> groups;
    for (std::size_t i = 0; i < n; ++i) {
      if (reach_of(*samples[i]) > 0) {
        groups[key_of(*samples[i])].push_back(i);
      }
    }
    constexpr double kPointNoise = 0.06;
    const double v = below * below / (kPointNoise * kPointNoise);
    for (const auto& [key, indices] : groups) {
      std::map<std::pair<std::string, int>, int> together;
      const auto place = [&](std::size_t i) {
        const Sample& s = *samples[i];
        return std::pair(member_of(s),
                         knot_weight(knot_position(s.point.offer, s.point.bytes)).low);
      };
      for (const std::size_t i : indices) {
        ++together[place(i)];
      }
      std::vector<Seen> seen;
      for (const std::size_t i : indices) {
        seen.push_back({&samples[i]->point, &base[i], reach_of(*samples[i]),
                        1 / (1 + together[place(i)] * v)});
      }
      level[key] = fit_shift(seen, prior);
    }
    for (const auto& [key, indices] : groups) {
      for (const std::size_t i : indices) {
        base[i] = plus(base[i], level[key], reach_of(*samples[i]));
      }
    }
  };

  fit_level(
      class_, of_size(1, 1), kKind,
      [&](const Sample& s) {
        return Key{machine(s).group, "", s.op, -1};
      },
      [&](const Sample& s) { return machine(s).kind; }, always);
  fit_level(
      kind_, of_size(kKind, kKind), kMachine,
      [&](const Sample& s) {
        return Key{machine(s).group, machine(s).kind, s.op, -1};
      },
      [&](const Sample& s) { return machine(s).system; }, always);
  fit_level(
      size_, of_size(kSize, kSize), kMachine,
      [&](const Sample& s) {
        return Key{machine(s).group, machine(s).kind, s.op, s.size};
      },
      [&](const Sample& s) { return machine(s).system; },
      [&](const Sample& s) { return network(s) ? 0.0 : 1.0; });
  fit_level(
      slope_, of_size(kSize, kSize), kMachine,
      [&](const Sample& s) {
        return Key{machine(s).group, "", s.op, -1};
      },
      [&](const Sample& s) { return machine(s).system + std::to_string(s.size); },
      [&](const Sample& s) { return network(s) ? spread_of(s.size) : 0.0; });
  fit_level(
      machine_, of_size(kMachine, kMachine), kOperation,
      [&](const Sample& s) {
        return Key{machine(s).system, "", -1, -1};
      },
      [&](const Sample& s) { return std::to_string(s.op); }, always);
  fit_level(
      operation_, of_size(kOperation, kOperation), kCell,
      [&](const Sample& s) {
        return Key{machine(s).system, "", s.op, -1};
      },
      [&](const Sample& s) { return std::to_string(s.size); }, always);
  fit_level(
      cell_, of_size(kCell, kCell), kLog,
      [&](const Sample& s) {
        return Key{machine(s).system, "", s.op, s.size};
      },
      [&](const Sample& s) { return std::to_string(s.log); }, always);
  for (const Sample* s : samples) {
    ++points_[{machine(*s).system, "", s->op, s->size}];
  }
}

Shift Pool::at(const Machine& m, int op, int size) const {
  Shift sum{};
  const auto add = [&](const Level& level, const Key& key, double reach) {
    const auto found = level.find(key);
    if (found != level.end()) {
      sum = plus(sum, found->second, reach);
    }
  };
  add(class_, {m.group, "", op, -1}, 1);
  add(kind_, {m.group, m.kind, op, -1}, 1);
  sum = plus(sum,
             between(
                 size_,
                 [&](int s) {
                   return Key{m.group, m.kind, op, s};
                 },
                 size),
             1);
  if (m.group == "network") {
    add(slope_, {m.group, "", op, -1}, spread_of(size));
  }
  if (!m.system.empty()) {
    add(machine_, {m.system, "", -1, -1}, 1);
    add(operation_, {m.system, "", op, -1}, 1);
    sum = plus(sum,
               between(
                   cell_,
                   [&](int s) {
                     return Key{m.system, "", op, s};
                   },
                   size),
               1);
  }
  return sum;
}

std::map<int, int> Pool::sizes(const Machine& m, int op) const {
  std::map<int, int> all;
  if (class_.count({m.group, "", op, -1}) == 0) {
    return all;
  }
  for (const auto& [key, shift] : size_) {
    if (std::get<0>(key) == m.group && std::get<1>(key) == m.kind && std::get<2>(key) == op) {
      all[std::get<3>(key)] = 0;
    }
  }
  if (m.group == "network") {
    for (const int bend : {2, 8, 64, 1024}) {  // the slope in log2(domains) ends at 1024
      all[bend] = 0;
    }
  }
  for (const auto& [key, points] : points_) {
    if (!m.system.empty() && std::get<0>(key) == m.system && std::get<2>(key) == op) {
      all[std::get<3>(key)] = points;
    }
  }
  if (all.empty()) {
    all[2] = 0;  // the class's, of every size
  }
  return all;
}

}  // namespace stepcast::cost
