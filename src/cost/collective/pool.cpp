#include "pool.h"

#include <algorithm>
#include <cmath>
#include <functional>

namespace stepcast::cost {
namespace {

// Prior standard deviations of a level's shifts, in log2 units: of the latency factor, and of the
// shares of bandwidth. Found by leaving out logs and sites (scripts/nccl-table), with one set for
// all classes.
struct Sizes {
  double latency;
  double share;
};
constexpr Sizes kClass = {1, 1};
constexpr Sizes kKind = {0.4, 2};
constexpr Sizes kSize = {1, 1.8};
constexpr Sizes kMachine = {0.5, 0.15};
constexpr Sizes kOperation = {0.5, 0.42};
constexpr Sizes kCell = {1, 1.6};
// Scatter of a point, between logs, and between sites of one machine, in log2 units.
constexpr double kPoint = 0.06;
constexpr double kLog = 0.065;
constexpr double kSite = 0.045;

Prior prior_of(const Sizes& s) {
  constexpr double kSlope = 0.6;
  constexpr double kBend = 0.35;
  return {s.latency, s.share, kSlope * s.share, kBend * s.share};
}

// Prior standard deviation of a level's shift at x: the latency's for small messages, the
// bandwidth's for large ones.
double felt(const Sizes& s, double x) {
  const double large = std::clamp((x + 2) / 4, 0.0, 1.0);
  return s.latency * (1 - large) + s.share * large;
}

Shift plus(const Shift& a, const Shift& b, double reach) {
  Shift c = a;
  for (std::size_t i = 0; i < c.size(); ++i) {
    c[i] += reach * b[i];
  }
  return c;
}

// Logarithm to base 8 of a network group's number of domains over two.
double spread_of(int domains) { return std::clamp(std::log2(domains / 2.0) / 3, 0.0, 3.0); }

// The level's entry for a size, interpolated between the nearest sizes.
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
  const auto fit_level = [&](Level& level, const Sizes& size, const Sizes& below,
                             const std::function<Key(const Sample&)>& key_of,
                             const std::function<std::string(const Sample&)>& member_of,
                             const std::function<double(const Sample&)>& reach_of) {
    std::map<Key, std::vector<std::size_t>> groups;
    for (std::size_t i = 0; i < n; ++i) {
      if (reach_of(*samples[i]) > 0) {
        groups[key_of(*samples[i])].push_back(i);
      }
    }
    for (const auto& [key, indices] : groups) {
      std::map<std::pair<std::string, int>, int> together;
      std::map<std::pair<int, int>, int> same_site;
      const auto knot = [&](const Sample& s) {
        return knot_weight(knot_position(s.point.offer, s.point.bytes)).low;
      };
      for (const std::size_t i : indices) {
        const Sample& s = *samples[i];
        ++together[{member_of(s), knot(s)}];
        ++same_site[{s.site, knot(s)}];
      }
      std::vector<Seen> seen;
      for (const std::size_t i : indices) {
        const Sample& s = *samples[i];
        const double apart = felt(below, knot_position(s.point.offer, s.point.bytes));
        const double more = together[{member_of(s), knot(s)}] * apart * apart +
                            same_site[{s.site, knot(s)}] * kSite * kSite;
        seen.push_back({&s.point, &base[i], reach_of(s), 1 / (1 + more / (kPoint * kPoint))});
      }
      level[key] = fit_shift(seen, prior_of(size));
    }
    for (const auto& [key, indices] : groups) {
      for (const std::size_t i : indices) {
        base[i] = plus(base[i], level[key], reach_of(*samples[i]));
      }
    }
  };
  fit_level(
      class_, kClass, kKind,
      [&](const Sample& s) {
        return Key{machine(s).group, "", s.op, -1};
      },
      [&](const Sample& s) { return machine(s).kind; }, always);
  fit_level(
      kind_, kKind, kMachine,
      [&](const Sample& s) {
        return Key{machine(s).group, machine(s).kind, s.op, -1};
      },
      [&](const Sample& s) { return machine(s).system; }, always);
  fit_level(
      size_, kSize, kMachine,
      [&](const Sample& s) {
        return Key{machine(s).group, machine(s).kind, s.op, s.size};
      },
      [&](const Sample& s) { return machine(s).system; },
      [&](const Sample& s) { return network(s) ? 0.0 : 1.0; });
  fit_level(
      slope_, kSize, kMachine,
      [&](const Sample& s) {
        return Key{machine(s).group, machine(s).kind, s.op, -1};
      },
      [&](const Sample& s) { return machine(s).system + std::to_string(s.size); },
      [&](const Sample& s) { return network(s) ? spread_of(s.size) : 0.0; });
  fit_level(
      machine_, kMachine, kOperation,
      [&](const Sample& s) {
        return Key{machine(s).system, "", -1, -1};
      },
      [&](const Sample& s) { return std::to_string(s.op); }, always);
  fit_level(
      operation_, kOperation, kCell,
      [&](const Sample& s) {
        return Key{machine(s).system, "", s.op, -1};
      },
      [&](const Sample& s) { return std::to_string(s.size); }, always);
  fit_level(
      cell_, kCell, {kLog, kLog},
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
    add(slope_, {m.group, m.kind, op, -1}, spread_of(size));
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
    all[2] = 0;  // only the shift of the class, which is that of every size
  }
  return all;
}

}  // namespace stepcast::cost
