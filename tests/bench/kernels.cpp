// Prices of kernels; a search asks for millions.
#include "stepcast/cost/kernels.h"

#include <benchmark/benchmark.h>

#include "../unit/cost_kernels/devices.h"

using namespace stepcast;
using namespace stepcast::test;

namespace {
cost::Kernels made(cost::CurveTable& curves) {
  return {h100(), "cublas", kCalibration, {}, curves};
}
}  // namespace

// After the first iteration, calibration files come from the process-wide cache.
static void construct(benchmark::State& state) {
  for (auto _ : state) {
    cost::CurveTable curves;
    benchmark::DoNotOptimize(made(curves));
  }
}
BENCHMARK(construct)->Unit(benchmark::kMicrosecond);

static void gemm(benchmark::State& state) {
  cost::CurveTable curves;
  const auto kernels = made(curves);
  std::int64_t m = 0;
  for (auto _ : state) {
    m = (m + 128) & 16383;
    benchmark::DoNotOptimize(kernels.gemm({.shape = {1024 + m, 6144, 12288, 1}}));
  }
}
BENCHMARK(gemm);

static void attention(benchmark::State& state) {
  cost::CurveTable curves;
  const auto kernels = made(curves);
  std::int64_t s = 0;
  for (auto _ : state) {
    s = (s + 128) & 16383;
    benchmark::DoNotOptimize(kernels.attention({{1, 1024 + s, 1024 + s, 16, 16, 128, 128, true},
                                                job::AttentionKernel::flash3,
                                                job::DType::bf16,
                                                false}));
  }
}
BENCHMARK(attention);

static void memory(benchmark::State& state) {
  cost::CurveTable curves;
  const auto kernels = made(curves);
  std::int64_t bytes = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(kernels.memory(cost::MemoryOp::norm, Bytes(bytes += 4096)));
  }
}
BENCHMARK(memory);

BENCHMARK_MAIN();
