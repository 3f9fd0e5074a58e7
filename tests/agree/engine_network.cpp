// Compares max-min fair rates with exact fractions by brute force, and the network's shortcuts with
// solving everything.
#include <map>
#include <numeric>

#include "../../src/engine/max_min.h"
#include "../../src/engine/network.h"
#include "catch.hpp"
#include "support/flows.h"

using namespace stepcast;
using namespace stepcast::testing;
using engine::Int128;
using engine::MaxMin;

namespace {

// The fraction x / y in lowest terms, y > 0.
struct Fraction {
  Int128 x = 0;
  Int128 y = 1;
  void reduce() {
    Int128 a = x < 0 ? -x : x;
    Int128 b = y;
    while (b != 0) {
      const Int128 c = a % b;
      a = b;
      b = c;
    }
    if (a > 1) {
      x /= a;
      y /= a;
    }
  }
  double value() const { return static_cast<double>(x) / static_cast<double>(y); }
};

Fraction minus(Fraction a, Fraction b) {
  Fraction r{a.x * b.y - b.x * a.y, a.y * b.y};
  r.reduce();
  return r;
}
Fraction times(Fraction a, Int128 k) {
  Fraction r{a.x * k, a.y};
  r.reduce();
  return r;
}
Fraction divided(Fraction a, Int128 k) {
  Fraction r{a.x, a.y * k};
  r.reduce();
  return r;
}
bool less(const Fraction& a, const Fraction& b) { return a.x * b.y < b.x * a.y; }

// Water filling by its definition, in fractions: one activity or one resource at a time.
std::vector<Fraction> brute_force(const MaxMin& m) {
  const std::size_t n = m.cap.size();
  std::vector<Fraction> rate(n);
  std::vector<bool> frozen(n, false);
  for (std::size_t left = n; left > 0;) {
    bool by_cap = true;
    std::size_t who = n;
    Fraction level;
    for (std::size_t i = 0; i < n; ++i) {
      const Fraction cap{m.cap[i], 1};
      if (!frozen[i] && (who == n || less(cap, level))) {
        level = cap;
        who = i;
      }
    }
    std::size_t which = 0;
    for (std::size_t j = 0; j < m.capacity.size(); ++j) {
      Fraction residual{Int128{m.capacity[j]} * kWeightOne, 1};
      Int128 rising = 0;
      for (std::size_t i = 0; i < n; ++i) {
        for (std::uint32_t k = m.first[i]; k < m.first[i + 1]; ++k) {
          if (m.uses[k].resource == j) {
            if (frozen[i]) {
              residual = minus(residual, times(rate[i], m.uses[k].weight));
            } else {
              rising += m.uses[k].weight;
            }
          }
        }
      }
      if (rising > 0 && less(divided(residual, rising), level)) {
        level = divided(residual, rising);
        which = j;
        by_cap = false;
      }
    }
    const auto freeze = [&](std::size_t i) {
      if (!frozen[i]) {
        frozen[i] = true;
        rate[i] = level;
        --left;
      }
    };
    if (by_cap) {
      freeze(who);
      continue;
    }
    for (std::size_t i = 0; i < n; ++i) {
      for (std::uint32_t k = m.first[i]; k < m.first[i + 1]; ++k) {
        if (m.uses[k].resource == which) {
          freeze(i);
        }
      }
    }
  }
  return rate;
}

MaxMin random_problem(Random& r) {
  MaxMin m;
  m.clear();
  const auto resources = r.in(1, 4);
  for (std::int64_t j = 0; j < resources; ++j) {
    m.capacity.push_back(r.in(1, 6) * 1'000'000'007);
  }
  const auto activities = r.in(1, 5);
  for (std::int64_t i = 0; i < activities; ++i) {
    m.cap.push_back(r.chance(30) ? 1'000'000'000'000 : r.in(1, 9) * 300'000'001);
    for (std::uint32_t j = 0; j < resources; ++j) {
      if (r.chance(50)) {
        m.uses.push_back({j, kWeightOne * r.in(1, 3)});
      }
    }
    m.first.push_back(static_cast<std::uint32_t>(m.uses.size()));
  }
  return m;
}

}  // namespace

TEST_CASE("Max-min rates are those of exact water filling") {
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    Random r(seed);
    MaxMin m = random_problem(r);
    CAPTURE(seed);
    const std::vector<Fraction> exact = brute_force(m);
    m.solve();
    for (std::size_t i = 0; i < exact.size(); ++i) {
      // Each level is rounded down to a byte per second; the remainder goes to later levels.
      CHECK(std::abs(static_cast<double>(m.rate[i]) - exact[i].value()) <= 20.0);
    }
    for (std::uint32_t j = 0; j < m.capacity.size(); ++j) {
      Int128 load = 0;
      for (std::size_t i = 0; i < m.cap.size(); ++i) {
        for (std::uint32_t k = m.first[i]; k < m.first[i + 1]; ++k) {
          load += m.uses[k].resource == j ? Int128{m.rate[i]} * m.uses[k].weight : 0;
        }
      }
      CHECK(load <= Int128{m.capacity[j]} * kWeightOne);
    }
  }
}

TEST_CASE("Rates do not depend on the order of activities, and k equal ones are one of weight k") {
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    Random r(seed);
    MaxMin m = random_problem(r);
    m.solve();
    // Contains every activity three times, in reverse order. Capacities and caps are unchanged, and
    // weights are three times as large.
    MaxMin copies;
    copies.clear();
    copies.capacity = m.capacity;
    MaxMin heavy = copies;
    const std::size_t n = m.cap.size();
    for (int c = 0; c < 3; ++c) {
      for (std::size_t i = n; i-- > 0;) {
        copies.cap.push_back(m.cap[i]);
        for (std::uint32_t k = m.first[i]; k < m.first[i + 1]; ++k) {
          copies.uses.push_back(m.uses[k]);
        }
        copies.first.push_back(static_cast<std::uint32_t>(copies.uses.size()));
      }
    }
    for (std::size_t i = 0; i < n; ++i) {
      heavy.cap.push_back(m.cap[i]);
      for (std::uint32_t k = m.first[i]; k < m.first[i + 1]; ++k) {
        heavy.uses.push_back({m.uses[k].resource, m.uses[k].weight * 3});
      }
      heavy.first.push_back(static_cast<std::uint32_t>(heavy.uses.size()));
    }
    copies.solve();
    heavy.solve();
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t c = 0; c < 3; ++c) {
        REQUIRE(copies.rate[c * n + (n - 1 - i)] == heavy.rate[i]);
      }
    }
  }
}

namespace {

// A network and its naive twin: both get the same changes, and the twin solves everything from its
// definition.
class Twins {
 public:
  explicit Twins(const std::vector<Resource>& resources)
      : network_(resources), resources_(resources) {}

  bool running(std::uint32_t id) const { return running_.count(id) > 0; }
  void start(std::uint32_t id, std::vector<Usage> usages, const Price& price) {
    const Running& kept =
        running_.emplace(id, Running{std::move(usages), price, price.rate}).first->second;
    network_.start(id, kept.usages.data(), static_cast<std::uint32_t>(kept.usages.size()),
                   kept.price, kept.cap, now_);
  }
  void finish(std::uint32_t id) {
    network_.finish(id);
    running_.erase(id);
    known_.erase(id);
  }
  void set_cap(std::uint32_t id, std::int64_t cap) {
    running_.at(id).cap = cap;
    network_.set_cap(id, cap);
  }
  // Settles, compares all rates, and checks that exactly the changed ones were reported. Returns
  // the number of activities below their caps.
  std::size_t compare() {
    std::map<std::uint32_t, std::int64_t> told;
    for (const engine::Network::Ending& e : network_.settle(++now_)) {
      REQUIRE(told.emplace(e.activity, network_.rate(e.activity)).second);
    }
    MaxMin all;
    all.clear();
    for (const Resource& x : resources_) {
      all.capacity.push_back(x.capacity);
    }
    for (const auto& [id, a] : running_) {
      all.cap.push_back(a.cap);
      for (const Usage& u : a.usages) {
        if (a.price.weight[u.kind] > 0) {
          all.uses.push_back({u.resource, a.price.weight[u.kind] * u.count});
        }
      }
      all.first.push_back(static_cast<std::uint32_t>(all.uses.size()));
    }
    all.solve();
    std::size_t i = 0;
    std::size_t bound = 0;
    for (const auto& [id, a] : running_) {
      CAPTURE(id, a.cap);
      REQUIRE(network_.rate(id) == all.rate[i]);
      const auto before = known_.find(id);
      REQUIRE((told.count(id) > 0) == (before == known_.end() || before->second != all.rate[i]));
      known_[id] = all.rate[i];
      bound += all.rate[i] < a.cap ? 1 : 0;
      ++i;
    }
    return bound;
  }
  std::uint64_t evaluations() const { return network_.evaluations(); }

 private:
  struct Running {
    std::vector<Usage> usages;
    Price price;
    std::int64_t cap = 0;
  };
  engine::Network network_;
  std::vector<Resource> resources_;
  std::map<std::uint32_t, Running> running_;
  std::map<std::uint32_t, std::int64_t> known_;  // rates after the last comparison
  Time now_{0};
};

}  // namespace

TEST_CASE("Solving only what an instant touched gives what solving everything gives") {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Random r(seed);
    std::vector<Resource> resources;
    for (int j = 0; j < 12; ++j) {
      resources.push_back({r.in(1, 5) * 1'000'000'000});
    }
    Twins twins(resources);
    std::map<std::uint32_t, std::int64_t> rates;  // rate without contention of each running flow
    std::size_t bound = 0;
    for (int turn = 0; turn < 60; ++turn) {
      const auto changes = r.in(1, 3);
      for (std::int64_t c = 0; c < changes; ++c) {
        const auto id = static_cast<std::uint32_t>(r.in(0, 15));
        if (!twins.running(id)) {
          std::vector<Usage> usages;
          const auto uses = r.in(0, 3);
          for (std::int64_t k = 0; k < uses; ++k) {
            usages.push_back({program::ResourceId::at(r.in(0, 11)),
                              static_cast<std::uint32_t>(r.in(0, 2)), r.in(1, 3)});
          }
          const Price alone = price(0, 1'000'000, r.in(1, 20) * 100'000'000);
          rates[id] = alone.rate;
          twins.start(id, std::move(usages), alone);
        } else if (r.chance(60)) {
          twins.finish(id);
        } else {
          twins.set_cap(id, rates.at(id) * r.in(50, 100) / 100);
        }
      }
      bound += twins.compare();
    }
    CHECK(bound > 0);
  }
}

TEST_CASE("What uses many resources goes at the least of their levels, whichever of them change") {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    Random r(seed);
    CAPTURE(seed);
    constexpr std::int64_t kUnit = 1'000'000;
    const auto count = static_cast<std::uint32_t>(r.in(4, 64));
    std::vector<Resource> resources;
    for (std::uint32_t j = 0; j < count; ++j) {
      resources.push_back({(r.chance(80) ? 10 : r.in(5, 15)) * kUnit});
    }
    Twins twins(resources);
    for (std::uint32_t wide = 0; wide < 2; ++wide) {
      std::vector<Usage> all;
      for (std::uint32_t j = 0; j < count; ++j) {
        all.push_back({program::ResourceId::at(wide == 0 ? j : count - 1 - j), 0, 1});
      }
      twins.start(count + wide, std::move(all), price(0, 1'000'000, r.in(4, 10) * kUnit));
    }
    std::size_t bound = 0;
    for (int turn = 0; turn < 20; ++turn) {
      const auto share = r.in(0, 100);  // of the resources that change at once
      for (std::uint32_t j = 0; j < count; ++j) {
        if (!r.chance(static_cast<int>(share))) {
          continue;
        }
        if (twins.running(j)) {
          twins.finish(j);
        } else {
          twins.start(j, {{program::ResourceId::at(j), 0, 1}},
                      price(0, 1'000'000, r.in(1, 9) * kUnit));
        }
      }
      bound += twins.compare();
    }
    CHECK(bound > 0);
  }
}

TEST_CASE("Incremental equals plain, bit by bit, over thousands of changes and rounding ties") {
  // With small numbers, levels coincide: by rounding, at caps, and on several resources at once.
  std::size_t bound = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    Random r(seed);
    CAPTURE(seed);
    const std::int64_t unit = r.chance(50) ? 1 : r.in(1, 3) * 1'000'003;
    const auto count = r.in(1, 30);
    const bool alike = r.chance(30);
    std::vector<Resource> resources;
    for (std::int64_t j = 0; j < count; ++j) {
      resources.push_back({(alike ? 17 : r.in(1, 60)) * unit});
    }
    Twins twins(resources);
    const auto most = r.in(2, 40);
    const auto reach = r.in(1, 6);
    for (int turn = 0; turn < 50; ++turn) {
      for (std::int64_t c = r.in(1, r.chance(10) ? 30 : 4); c > 0; --c) {
        const auto id = static_cast<std::uint32_t>(r.in(0, most));
        if (!twins.running(id)) {
          std::vector<Usage> usages;
          for (std::int64_t k = r.in(0, reach); k > 0; --k) {
            usages.push_back({program::ResourceId::at(r.in(0, count - 1)),
                              static_cast<std::uint32_t>(r.in(0, 3)), r.in(1, 3)});
          }
          Price p = price(0, 1'000'000, (r.chance(30) ? 1000 : r.in(1, 20)) * unit);
          p.weight[2] = kWeightOne / 3;
          twins.start(id, std::move(usages), p);
        } else if (r.chance(60)) {
          twins.finish(id);
        } else {
          twins.set_cap(id, r.in(1, 25) * unit);
        }
      }
      bound += twins.compare();
    }
  }
  CHECK(bound > 50'000);
}

TEST_CASE("Incremental equals plain on a busy fat tree, and works out little of it") {
  Random r(16);
  FatTree tree(8, 25'000'000'000);  // 128 hosts
  // Some links are degraded or nearly failed.
  for (int k = 0; k < 20; ++k) {
    tree.links[static_cast<std::size_t>(r.in(0, static_cast<std::int64_t>(tree.links.size()) - 1))]
        .capacity /= r.in(2, 1000);
  }
  Twins twins(tree.links);
  RandomTraffic traffic(tree);
  const auto begin = [&](std::uint32_t id) {
    const Flow f = traffic.next();
    std::vector<Usage> usages;
    for (const ResourceId link : f.links) {
      usages.push_back({link, 0, 1});
    }
    twins.start(id, std::move(usages), price(0, f.bytes, r.chance(20) ? f.cap / 7 : f.cap));
  };
  for (std::uint32_t id = 0; id < 200; ++id) {
    begin(id);
  }
  std::size_t bound = twins.compare();
  const std::uint64_t first = twins.evaluations();
  for (int turn = 0; turn < 2000; ++turn) {
    const auto id = static_cast<std::uint32_t>(r.in(0, 199));
    twins.finish(id);
    if (r.chance(50)) {
      bound += twins.compare();
    }
    begin(id);
    bound += twins.compare();
  }
  CHECK(bound > 200'000);
  CHECK((twins.evaluations() - first) / 2000 < first / 4);
}
