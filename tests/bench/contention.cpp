// Shared bandwidth: random flows over a fat tree, regular ring steps, and collectives expanded into
// their exchange steps. bench_simgrid runs SimGrid on the same flows.
#include <benchmark/benchmark.h>
#include <sys/resource.h>

#include <chrono>
#include <string>

#include "../../src/engine/event_queue.h"
#include "../../src/engine/network.h"
#include "stepcast/engine/engine.h"
#include "stepcast/lower/expand.h"
#include "stepcast/lower/fold.h"
#include "support/flows.h"
#include "unit/cluster/clusters.h"

namespace {

using namespace stepcast;
using namespace stepcast::testing;

// Completes flows as they end; `on_end` may start others at that instant.
class Runner {
 public:
  explicit Runner(const std::vector<Resource>& links) : network_(links) {}

  void start(std::uint32_t id, const Flow& f) {
    if (generation_.size() <= id) {
      generation_.resize(id + 1, 0);
    }
    usages_.clear();
    for (const ResourceId link : f.links) {
      usages_.push_back({link, 0, 1});
    }
    Price p;
    p.rate = f.cap;
    p.weight[0] = kWeightOne;
    p.fluid = Time(static_cast<std::int64_t>(
        engine::ceil_divide(engine::Int128{f.bytes} * 1'000'000'000'000, f.cap)));
    network_.start(id, usages_.data(), static_cast<std::uint32_t>(usages_.size()), p, p.rate,
                   queue_.now());
  }
  // Advances to the next instant at which flows end; false if none is left.
  template <class OnEnd>
  bool advance(OnEnd&& on_end) {
    if (network_.unsettled()) {
      for (const engine::Network::Ending& e : network_.settle(queue_.now())) {
        queue_.push({e.time, e.activity, ++generation_[e.activity]});
      }
    }
    if (!queue_.next(batch_)) {
      return false;
    }
    for (const engine::Event& e : batch_) {
      if (e.generation == generation_[e.subject]) {
        ++generation_[e.subject];
        network_.finish(e.subject);
        ++ended_;
        on_end(e.subject);
      }
    }
    return true;
  }
  std::int64_t ended() const { return ended_; }
  const engine::Network& network() const { return network_; }

 private:
  engine::Network network_;
  engine::EventQueue queue_;
  std::vector<engine::Event> batch_;
  std::vector<std::uint32_t> generation_;
  std::vector<Usage> usages_;
  std::int64_t ended_ = 0;
};

void report(benchmark::State& state, const Runner& runner, std::int64_t before) {
  state.counters["flows/s"] =
      benchmark::Counter(static_cast<double>(runner.ended() - before), benchmark::Counter::kIsRate);
}

// Keeps as many flows in flight as there are hosts; whenever one ends, the next begins.
void random_flows(benchmark::State& state, std::int64_t uplink) {
  FatTree tree(kBenchmarkPorts, kBenchmarkRate);
  for (std::size_t j = static_cast<std::size_t>(2 * tree.hosts()); j < tree.links.size(); ++j) {
    tree.links[j].capacity = uplink;
  }
  RandomTraffic traffic(tree);
  Runner runner(tree.links);
  for (int i = 0; i < tree.hosts(); ++i) {
    runner.start(static_cast<std::uint32_t>(i), traffic.next());
  }
  const auto next = [&](std::uint32_t id) { runner.start(id, traffic.next()); };
  while (runner.ended() < 10'000) {
    runner.advance(next);
  }
  const std::int64_t before = runner.ended();
  const std::uint64_t levels = runner.network().evaluations();
  for (auto _ : state) {
    const std::int64_t until = runner.ended() + 1000;
    while (runner.ended() < until) {
      runner.advance(next);
    }
  }
  report(state, runner, before);
  state.counters["levels/flow"] =
      static_cast<double>(runner.network().evaluations() - levels) /
      static_cast<double>(std::max<std::int64_t>(1, runner.ended() - before));
}
void random_1024_flows(benchmark::State& state) { random_flows(state, kBenchmarkRate); }
void random_1024_flows_oversubscribed(benchmark::State& state) {
  random_flows(state, kBenchmarkRate / 2);
}
BENCHMARK(random_1024_flows)->Unit(benchmark::kMillisecond);
BENCHMARK(random_1024_flows_oversubscribed)->Unit(benchmark::kMillisecond);

// Ring steps over all hosts: all begin and end together. With `binding`, the links limit the flows,
// so that every link is a constraint.
void ring_steps(benchmark::State& state, bool binding) {
  const FatTree tree(kBenchmarkPorts, kBenchmarkRate);
  std::vector<Flow> step = ring_step(tree, 1 << 20);
  for (Flow& f : step) {
    f.cap *= binding ? 2 : 1;
  }
  Runner runner(tree.links);
  for (auto _ : state) {
    for (std::uint32_t i = 0; i < step.size(); ++i) {
      runner.start(i, step[i]);
    }
    while (runner.advance([](std::uint32_t) {})) {
    }
  }
  report(state, runner, 0);
}
void ring_steps_1024(benchmark::State& state) { ring_steps(state, false); }
void ring_steps_1024_every_link_binds(benchmark::State& state) { ring_steps(state, true); }
BENCHMARK(ring_steps_1024)->Unit(benchmark::kMicrosecond);
BENCHMARK(ring_steps_1024_every_link_binds)->Unit(benchmark::kMicrosecond);

// A 1 GiB all-reduce over 4,096 ranks, eight per node. Every step of every rank is an event.
lower::ExpandedCollective all_reduce(int ranks, lower::StepPattern pattern) {
  lower::ExpandedCollective c;
  c.slots = test::every(0, 1, ranks);
  c.pattern = pattern;
  c.bytes = Bytes(std::int64_t{1} << 30);
  c.chunks = pattern == lower::StepPattern::hierarchical_tree ? 32 : 1;
  return c;
}

// Peak resident memory since the process began. It is meaningful if a process runs one benchmark.
double peak_mib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024.0;
}

enum class Fidelity { full, folded };

// Full: expands and simulates, starting from the topology. Folded: simulates only; `fold_us` is the
// time of expanding and folding once.
void expanded(benchmark::State& state, int nodes_per_leaf, lower::StepPattern pattern,
              Fidelity fidelity) {
  constexpr int kRanks = 4096;
  job::Cluster cluster = test::hgx_h100(kRanks / 8);
  cluster.fabric.nodes_per_leaf = nodes_per_leaf;
  const cluster::Topology topology = test::built(cluster);
  engine::Options once;
  once.once = true;
  World world;
  if (fidelity == Fidelity::folded) {
    const auto begin = std::chrono::steady_clock::now();
    world = lower::fold(lower::expand(topology, all_reduce(kRanks, pattern)))->world;
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin;
    state.counters["fold_us"] = took.count();
  }
  double tasks = 0;
  for (auto _ : state) {
    if (fidelity == Fidelity::full) {
      world = lower::expand(topology, all_reduce(kRanks, pattern));
    }
    const auto result = engine::run(world, once);
    const auto* t = std::get_if<Timeline>(&result);
    if (t == nullptr) {
      state.SkipWithError("deadlock");
      return;
    }
    tasks += static_cast<double>(t->tasks);
    state.SetLabel(std::to_string(t->first_step.count()) + " ps");
  }
  state.counters["steps/s"] = benchmark::Counter(tasks, benchmark::Counter::kIsRate);
  state.counters["steps"] = tasks / static_cast<double>(state.iterations());
  state.counters["classes"] = static_cast<double>(world.ranks.size());
  state.counters["peak_MiB"] = peak_mib();
}

// kFlat: one switch above all nodes, which makes all paths alike, as in ASTRA-sim's networks of
// dimensions. Leaves of 32 nodes: paths that cross the spine take longer, so that there are more
// classes.
constexpr int kFlat = 512;
constexpr int kLeaves = 32;
void all_reduce_4096(const char* name, int nodes_per_leaf, lower::StepPattern pattern) {
  benchmark::RegisterBenchmark((std::string(name) + "_folded").c_str(), expanded, nodes_per_leaf,
                               pattern, Fidelity::folded)
      ->Unit(benchmark::kMicrosecond);
  benchmark::RegisterBenchmark((std::string(name) + "_full").c_str(), expanded, nodes_per_leaf,
                               pattern, Fidelity::full)
      ->Unit(benchmark::kSecond)
      ->Iterations(1);
}

}  // namespace

int main(int argc, char** argv) {
  using lower::StepPattern;
  all_reduce_4096("all_reduce_4096_hierarchical", kFlat, StepPattern::hierarchical);
  all_reduce_4096("all_reduce_4096_hierarchical_leaves", kLeaves, StepPattern::hierarchical);
  all_reduce_4096("all_reduce_4096_hierarchical_tree", kFlat, StepPattern::hierarchical_tree);
  all_reduce_4096("all_reduce_4096_ring", kFlat, StepPattern::ring);
  all_reduce_4096("all_reduce_4096_ring_leaves", kLeaves, StepPattern::ring);
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
