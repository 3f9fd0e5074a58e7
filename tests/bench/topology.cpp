// Building clusters, groups and prices: 100,000 GPUs on a laptop.
#include <benchmark/benchmark.h>
#include <sys/resource.h>

#include <filesystem>
#include <numeric>

#include "../unit/cluster/clusters.h"
#include "stepcast/cost/collectives.h"

using namespace stepcast;
using namespace stepcast::test;

static void build(benchmark::State& state) {
  const auto c = hgx_h100(static_cast<int>(state.range(0)));
  for (auto _ : state) {
    const auto t = built(c);
    benchmark::DoNotOptimize(t.resources().size());
  }
}
BENCHMARK(build)->Arg(2048)->Arg(12500)->Unit(benchmark::kMillisecond);

static void shape(benchmark::State& state) {
  const auto t = built(hgx_h100(12500));
  const auto slots =
      every(0, 100000 / static_cast<int>(state.range(0)), static_cast<int>(state.range(0)));
  for (auto _ : state) {
    benchmark::DoNotOptimize(t.shape(slots));
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(shape)->Arg(8)->Arg(1024)->Arg(100000);

static void picture(benchmark::State& state) {
  const auto c = hgx_h100(2048);
  for (auto _ : state) {
    benchmark::DoNotOptimize(built(c).links().size());
  }
}
BENCHMARK(picture)->Unit(benchmark::kMillisecond);

static void collectives(benchmark::State& state) {
  const auto c = hgx_h100(64);
  const std::filesystem::path files = std::filesystem::path(STEPCAST_SOURCE_DIR) / "calibration";
  for (auto _ : state) {
    cost::CurveTable curves;
    const cost::Collectives with(c, {}, files, {}, curves);
    benchmark::DoNotOptimize(&with);
  }
}
BENCHMARK(collectives)->Unit(benchmark::kMicrosecond);

static void price(benchmark::State& state) {
  const auto c = hgx_h100(64);
  cost::CurveTable curves;
  const std::filesystem::path files = std::filesystem::path(STEPCAST_SOURCE_DIR) / "calibration";
  const cost::Collectives with(c, {}, files, {}, curves);
  const auto group = built(c).shape(every(0, 8, 64));
  std::int64_t bytes = 1;
  for (auto _ : state) {
    bytes = bytes * 3 % 1'000'000'007;
    benchmark::DoNotOptimize(with.price(cost::Collective::all_reduce, Bytes(bytes), group));
  }
}
BENCHMARK(price);

// Builds a fabric of 100,096 GPUs, places every communicator of a grid of 8 x 782 x 16 (tensor,
// data, pipeline), and evaluates the cost of an all-reduce, an all-gather and an all-to-all of each
// at three sizes.
static job::Cluster hundred_thousand(int fabric) {
  auto c = hgx_h100(12512);
  auto& f = c.fabric;
  switch (fabric) {
    case 0:
      break;  // rails
    case 1:
      f.kind = job::Fabric::Kind::fat_tree;
      f.nodes_per_leaf = 4;
      f.nodes_per_pod = 128;
      f.core_oversubscription = 4;
      f.routing = job::Fabric::Routing::ecmp;
      break;
    case 2:
      f.kind = job::Fabric::Kind::dragonfly;
      f.nodes_per_leaf = 4;
      f.nodes_per_pod = 64;
      f.core_oversubscription = 2;
      break;
    default:
      f.kind = job::Fabric::Kind::torus;
      f.torus = {32, 34, 92};  // 100,096 chips
  }
  return c;
}

static void grid(benchmark::State& state) {
  const auto c = hundred_thousand(static_cast<int>(state.range(0)));
  const cluster::Grid g{8, 1, 782, 16, 1, "tp-cp-ep-dp-pp"};
  const std::filesystem::path files = std::filesystem::path(STEPCAST_SOURCE_DIR) / "calibration";
  std::int64_t groups = 0;
  std::size_t resources = 0;
  for (auto _ : state) {
    const auto t = built(c);
    cost::CurveTable curves;
    const cost::Collectives with(c, {}, files, {}, curves);
    groups = 0;
    Time total{0};
    std::vector<int> ranks;
    const auto place = [&](int count, auto&& coordinates_of) {
      ranks.clear();
      for (int i = 0; i < count; ++i) {
        ranks.push_back(cluster::rank_at(g, coordinates_of(i)));
      }
      const auto shape = t.shape(ranks);
      for (const auto op : {cost::Collective::all_reduce, cost::Collective::all_gather,
                            cost::Collective::all_to_all}) {
        for (const std::int64_t bytes : {1 << 13, 1 << 20, 1 << 28}) {
          total += with.price(op, Bytes(bytes), shape).fluid;
        }
      }
      ++groups;
    };
    for (int p = 0; p < g.pipeline; ++p) {
      for (int d = 0; d < g.data; ++d) {
        place(g.tensor, [&](int i) { return cluster::Coordinates{i, 0, d, p}; });
      }
      for (int r = 0; r < g.tensor; ++r) {
        place(g.data, [&](int i) { return cluster::Coordinates{r, 0, i, p}; });
      }
    }
    for (int d = 0; d < g.data; ++d) {
      for (int r = 0; r < g.tensor; ++r) {
        place(g.pipeline, [&](int i) { return cluster::Coordinates{r, 0, d, i}; });
      }
    }
    benchmark::DoNotOptimize(total);
    resources = t.resources().size();
  }
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  state.counters["communicators"] = static_cast<double>(groups);
  state.counters["resources"] = static_cast<double>(resources);
  // Of the whole process so far.
  state.counters["peak_MiB"] = static_cast<double>(used.ru_maxrss) / 1024;
  static const char* const kNames[] = {"rail", "three-level fat tree, ECMP", "dragonfly+", "torus"};
  state.SetLabel(kNames[state.range(0)]);
}
BENCHMARK(grid)->DenseRange(0, 3)->Unit(benchmark::kMillisecond);

BENCHMARK_MAIN();
