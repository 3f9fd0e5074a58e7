// Compares the engine's sharing of links with SimGrid: the same flows on the same links, on random
// networks. SimGrid is an independent oracle; only tests link it.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <queue>
#include <set>

#include "../../src/engine/network.h"
#include "catch.hpp"
#include "support/simgrid_flows.h"

using namespace stepcast;
using namespace stepcast::testing;

namespace {

constexpr double kTolerance = 1e-3;
constexpr int kNetworksOfAKind = 40;
constexpr std::int64_t kSecond = 1'000'000'000'000;  // picoseconds
constexpr std::int64_t kUncapped = 1'000'000'000'000;

struct Problem {
  std::string name;
  std::vector<Resource> links;
  std::vector<Flow> flows;
};

std::int64_t random_capacity(Random& r) { return r.in(1'000, 12'500) * 1'000'000; }

// Sizes and starts are such that flows take about a second and overlap; a third is capped, and some
// start together.
Flow random_flow(Random& r, std::vector<ResourceId> route) {
  Flow f;
  f.links = std::move(route);
  f.bytes = r.in(50, 4'000) * 1'000'000 + r.in(0, 999'999);
  f.cap = r.chance(35) ? r.in(50, 4'000) * 1'000'000 : kUncapped;
  f.start = r.chance(40) ? 0 : r.in(0, 3'000) * (kSecond / 1'000);
  return f;
}

// Nodes in a ring with one link per direction between neighbours; routes take the shorter way.
Problem ring(Random& r) {
  Problem p;
  const auto nodes = r.in(3, 16);
  for (std::int64_t i = 0; i < 2 * nodes; ++i) {
    p.links.push_back({random_capacity(r)});
  }
  for (std::int64_t i = r.in(2, 40); i > 0; --i) {
    const auto from = r.in(0, nodes - 1);
    const auto distance = r.in(1, nodes - 1);
    std::vector<ResourceId> route;
    if (2 * distance <= nodes) {
      for (std::int64_t k = 0; k < distance; ++k) {
        route.push_back(program::ResourceId::at((from + k) % nodes));
      }
    } else {
      for (std::int64_t k = 0; k < nodes - distance; ++k) {
        route.push_back(program::ResourceId::at(nodes + (from + nodes - k) % nodes));
      }
    }
    p.flows.push_back(random_flow(r, route));
  }
  return p;
}

// Fat trees of 16 or 54 hosts with hashed routes; a fifth of the links is degraded.
Problem fat_tree(Random& r) {
  const FatTree tree(r.chance(50) ? 4 : 6, random_capacity(r));
  Problem p;
  p.links = tree.links;
  for (Resource& link : p.links) {
    link.capacity = r.chance(20) ? link.capacity * r.in(10, 90) / 100 : link.capacity;
  }
  for (std::int64_t i = r.in(10, 80); i > 0; --i) {
    const auto from = static_cast<int>(r.in(0, tree.hosts() - 1));
    const auto to = (from + static_cast<int>(r.in(1, tree.hosts() - 1))) % tree.hosts();
    p.flows.push_back(random_flow(r, tree.route(from, to, r.next())));
  }
  return p;
}

// The benchmarks' fat tree of 1,024 hosts with hundreds of concurrent flows, which connect distant
// components.
Problem large_fat_tree(Random& r) {
  const FatTree tree(kBenchmarkPorts, random_capacity(r));
  Problem p;
  p.links = tree.links;
  for (std::size_t j = static_cast<std::size_t>(2 * tree.hosts()); j < p.links.size(); ++j) {
    p.links[j].capacity = p.links[j].capacity * 2 / 3;
  }
  for (int i = 0; i < 700; ++i) {
    const auto from = static_cast<int>(r.in(0, tree.hosts() - 1));
    const auto to = (from + static_cast<int>(r.in(1, tree.hosts() - 1))) % tree.hosts();
    p.flows.push_back(random_flow(r, tree.route(from, to, r.next())));
  }
  return p;
}

// A random connected graph with one link per direction for each edge; routes have the least random
// weight.
Problem graph(Random& r) {
  struct Edge {
    std::size_t to;
    ResourceId link;
    std::int64_t weight;
  };
  Problem p;
  const auto nodes = static_cast<std::size_t>(r.in(4, 24));
  std::vector<std::vector<Edge>> edges(nodes);
  const auto join = [&](std::size_t a, std::size_t b) {
    for (const auto& [x, y] : {std::pair(a, b), std::pair(b, a)}) {
      edges[x].push_back({y, program::ResourceId::at(p.links.size()), r.in(1, 10)});
      p.links.push_back({random_capacity(r)});
    }
  };
  for (std::size_t i = 1; i < nodes; ++i) {
    join(i, r.next() % i);
  }
  for (std::size_t extra = r.next() % (2 * nodes); extra > 0; --extra) {
    const std::size_t a = r.next() % nodes;
    join(a, (a + 1 + r.next() % (nodes - 1)) % nodes);
  }
  for (std::int64_t i = r.in(4, 60); i > 0; --i) {
    const std::size_t from = r.next() % nodes;
    const std::size_t to = (from + 1 + r.next() % (nodes - 1)) % nodes;
    struct Reached {
      std::int64_t distance = std::numeric_limits<std::int64_t>::max();
      std::size_t before = 0;
      ResourceId link = 0;
    };
    std::vector<Reached> reached(nodes);
    std::set<std::pair<std::int64_t, std::size_t>> open{{0, from}};
    reached[from].distance = 0;
    while (!open.empty()) {
      const auto [distance, at] = *open.begin();
      open.erase(open.begin());
      for (const Edge& e : edges[at]) {
        if (distance + e.weight < reached[e.to].distance) {
          open.erase({reached[e.to].distance, e.to});
          reached[e.to] = {distance + e.weight, at, e.link};
          open.insert({distance + e.weight, e.to});
        }
      }
    }
    std::vector<ResourceId> route;
    for (std::size_t at = to; at != from; at = reached[at].before) {
      route.push_back(reached[at].link);
    }
    p.flows.push_back(random_flow(r, route));
  }
  return p;
}

// A network without structure: each flow crosses a few arbitrary links.
Problem tangle(Random& r) {
  Problem p;
  const auto links = r.in(1, 12);
  for (std::int64_t i = 0; i < links; ++i) {
    p.links.push_back({random_capacity(r)});
  }
  for (std::int64_t i = r.in(2, 50); i > 0; --i) {
    std::set<ResourceId> route;
    for (std::int64_t k = r.in(1, 5); k > 0; --k) {
      route.insert(program::ResourceId::at(r.in(0, links - 1)));
    }
    p.flows.push_back(random_flow(r, {route.begin(), route.end()}));
  }
  return p;
}

// Rates between two instants without an event of the same network between them.
struct Sample {
  std::size_t problem = 0;
  double from = 0;
  double to = 0;
  std::map<std::size_t, double> rates;  // by flow
};

struct Outcome {
  std::vector<double> ends;
  std::vector<Sample> samples;
};

constexpr double seconds(std::int64_t picoseconds) {
  return static_cast<double>(picoseconds) / static_cast<double>(kSecond);
}

// Selects the longest intervals and those with most flows, from those long enough to measure a
// rate.
std::vector<Sample> chosen(const std::vector<Sample>& all) {
  constexpr double kShortest = 1e-3;  // seconds; SimGrid's precision is a nanosecond
  constexpr std::size_t kOfEither = 3;
  std::vector<Sample> out;
  for (const bool longest : {true, false}) {
    std::vector<Sample> some;
    std::copy_if(all.begin(), all.end(), std::back_inserter(some), [&](const Sample& s) {
      return s.to - s.from >= kShortest &&
             std::none_of(out.begin(), out.end(),
                          [&](const Sample& o) { return o.from == s.from; });
    });
    std::stable_sort(some.begin(), some.end(), [&](const Sample& a, const Sample& b) {
      return longest ? a.to - a.from > b.to - b.from : a.rates.size() > b.rates.size();
    });
    some.resize(std::min(some.size(), kOfEither));
    out.insert(out.end(), some.begin(), some.end());
  }
  return out;
}

Outcome simulate(const Problem& p) {
  engine::Network network(p.links);
  program::Price price;
  price.weight[0] = kWeightOne;
  price.rate = kSecond;  // so that fluid is counted in bytes
  std::vector<std::vector<Usage>> usages(p.flows.size());
  std::vector<std::size_t> by_start(p.flows.size());
  for (std::size_t i = 0; i < p.flows.size(); ++i) {
    by_start[i] = i;
    for (const ResourceId link : p.flows[i].links) {
      usages[i].push_back({link, 0, 1});
    }
  }
  std::stable_sort(by_start.begin(), by_start.end(), [&](std::size_t a, std::size_t b) {
    return p.flows[a].start < p.flows[b].start;
  });
  Outcome out;
  out.ends.resize(p.flows.size());
  std::map<std::size_t, std::int64_t> running;  // from a flow to its end
  std::int64_t now = 0;
  for (auto next = by_start.begin(); next != by_start.end() || !running.empty();) {
    constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max();
    std::int64_t then = next != by_start.end() ? p.flows[*next].start : never;
    for (const auto& [flow, end] : running) {
      then = std::min(then, end);
    }
    if (!running.empty() && then > now) {
      const double length = seconds(then - now);
      Sample s;
      s.from = seconds(now) + 0.25 * length;
      s.to = seconds(now) + 0.75 * length;
      for (const auto& [flow, end] : running) {
        s.rates[flow] = static_cast<double>(network.rate(static_cast<std::uint32_t>(flow)));
      }
      out.samples.push_back(std::move(s));
    }
    now = then;
    for (auto it = running.begin(); it != running.end();) {
      if (it->second == now) {
        network.finish(static_cast<std::uint32_t>(it->first));
        out.ends[it->first] = seconds(now);
        it = running.erase(it);
      } else {
        ++it;
      }
    }
    for (; next != by_start.end() && p.flows[*next].start == now; ++next) {
      price.fluid = Time(p.flows[*next].bytes);
      network.start(static_cast<std::uint32_t>(*next), usages[*next].data(),
                    static_cast<std::uint32_t>(usages[*next].size()), price, p.flows[*next].cap,
                    Time(now));
      running[*next] = now;
    }
    for (const auto& changed : network.settle(Time(now))) {
      running.at(changed.activity) = changed.time.count();
    }
  }
  out.samples = chosen(out.samples);
  return out;
}

// Simulates all networks at once, since a process has only one SimGrid engine. Each network is a
// separate zone; they share nothing.
std::vector<Outcome> simulate_in_simgrid(const std::vector<Problem>& problems,
                                         const std::vector<Sample>& samples) {
  configure_simgrid();
  auto* root = simgrid::s4u::create_full_zone("networks");
  std::vector<SimgridNetwork> networks;
  struct Action {
    double at = 0;
    int order = 0;  // start of a flow, begin of a sample, end of a sample
    std::size_t which = 0;
    std::size_t flow = 0;
  };
  std::vector<Action> actions;
  for (std::size_t n = 0; n < problems.size(); ++n) {
    networks.emplace_back(root, problems[n].name, problems[n].links, problems[n].flows);
    for (std::size_t i = 0; i < problems[n].flows.size(); ++i) {
      actions.push_back({seconds(problems[n].flows[i].start), 0, n, i});
    }
  }
  root->seal();
  for (std::size_t s = 0; s < samples.size(); ++s) {
    actions.push_back({samples[s].from, 1, s, 0});
    actions.push_back({samples[s].to, 2, s, 0});
  }
  std::stable_sort(actions.begin(), actions.end(),
                   [](const Action& a, const Action& b) { return a.at < b.at; });
  std::vector<Outcome> out(problems.size());
  std::vector<Sample> measured = samples;
  const auto* engine = simgrid::s4u::Engine::get_instance();
  for (const Action& a : actions) {
    if (a.at > simgrid::s4u::Engine::get_clock()) {
      engine->run_until(a.at);
    }
    if (a.order == 0) {
      networks[a.which].start(a.flow, problems[a.which].flows[a.flow]);
      continue;
    }
    // The remaining bytes at the begin give the rate at the end.
    Sample& s = measured[a.which];
    for (auto& [flow, value] : s.rates) {
      const auto& comm = networks[s.problem].comms[flow];
      const double left = comm ? comm->get_remaining() : 0;
      value = a.order == 1 ? left : (value - left) / (s.to - s.from);
    }
    if (a.order == 2) {
      out[s.problem].samples.push_back(s);
    }
  }
  engine->run();
  for (std::size_t n = 0; n < problems.size(); ++n) {
    for (const auto& comm : networks[n].comms) {
      out[n].ends.push_back(comm->get_finish_time());
    }
  }
  return out;
}

}  // namespace

TEST_CASE("Rates and completion times are SimGrid's on random networks") {
  std::vector<Problem> problems;
  const std::pair<const char*, Problem (*)(Random&)> kinds[] = {
      {"ring", ring}, {"fat tree", fat_tree}, {"graph", graph}, {"tangle", tangle}};
  for (const auto& [kind, make] : kinds) {
    for (int i = 0; i < kNetworksOfAKind; ++i) {
      Random r(problems.size());
      problems.push_back(make(r));
      problems.back().name = fmt::format("{} {}", kind, i);
    }
  }
  for (std::uint64_t seed = 0; seed < 2; ++seed) {
    Random r(1000 + seed);
    problems.push_back(large_fat_tree(r));
    problems.back().name = fmt::format("large fat tree {}", seed);
  }
  std::vector<Outcome> ours;
  std::vector<Sample> samples;
  for (const Problem& p : problems) {
    ours.push_back(simulate(p));
    for (Sample s : ours.back().samples) {
      s.problem = ours.size() - 1;
      samples.push_back(std::move(s));
    }
  }
  const std::vector<Outcome> theirs = simulate_in_simgrid(problems, samples);

  std::size_t flows = 0;
  std::size_t shared = 0;
  std::size_t rates = 0;
  double worst_time = 0;
  double worst_rate = 0;
  for (std::size_t n = 0; n < problems.size(); ++n) {
    const Problem& p = problems[n];
    for (std::size_t i = 0; i < p.flows.size(); ++i) {
      const double lasted = ours[n].ends[i] - seconds(p.flows[i].start);
      const double difference = std::abs(ours[n].ends[i] - theirs[n].ends[i]) / lasted;
      INFO(p.name << ", flow " << i << ": " << ours[n].ends[i] << " s, SimGrid "
                  << theirs[n].ends[i] << " s");
      CHECK(difference <= kTolerance);
      worst_time = std::max(worst_time, difference);
      ++flows;
    }
  }
  std::size_t at = 0;
  for (const Outcome& theirs_of_network : theirs) {
    at += theirs_of_network.samples.size();
  }
  REQUIRE(at == samples.size());
  for (std::size_t n = 0; n < problems.size(); ++n) {
    // SimGrid's samples come in the order of their ends in time.
    for (const Sample& measured : theirs[n].samples) {
      const auto same = std::find_if(ours[n].samples.begin(), ours[n].samples.end(),
                                     [&](const Sample& s) { return s.from == measured.from; });
      REQUIRE(same != ours[n].samples.end());
      for (const auto& [flow, rate] : same->rates) {
        const double difference = std::abs(measured.rates.at(flow) - rate) / rate;
        INFO(problems[n].name << ", flow " << flow << " at " << same->from << " s: " << rate
                              << " B/s, SimGrid " << measured.rates.at(flow) << " B/s");
        CHECK(difference <= kTolerance);
        worst_rate = std::max(worst_rate, difference);
        const Flow& f = problems[n].flows[flow];
        std::int64_t alone = f.cap;
        for (const ResourceId link : f.links) {
          alone = std::min(alone, problems[n].links[link].capacity);
        }
        shared += rate < 0.999 * static_cast<double>(alone) ? 1 : 0;
        ++rates;
      }
    }
  }
  // The rates were limited by sharing and not only by the flows' caps.
  CHECK(shared > rates / 4);
  fmt::print(
      "{} networks, {} flows: completion times differ by at most {:.1e}; {} rates ({} below what "
      "the flow reaches alone): by at most {:.1e}\n",
      problems.size(), flows, worst_time, rates, shared, worst_rate);
}
