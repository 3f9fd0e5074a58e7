// Building clusters, groups and prices: 100,000 GPUs on a laptop.
#include <benchmark/benchmark.h>

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

BENCHMARK_MAIN();
