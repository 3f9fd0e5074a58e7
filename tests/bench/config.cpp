// Text to job: a shipped job from its file, and a row of published data as `validate` writes it.
#include "stepcast/config/config.h"

#include <benchmark/benchmark.h>

namespace {

using namespace stepcast;

void load_ready_job(benchmark::State& state) {
  for (auto _ : state) {
    benchmark::DoNotOptimize(config::load("llama70b"));
  }
}
BENCHMARK(load_ready_job)->Unit(benchmark::kMicrosecond);

void parse_row(benchmark::State& state) {
  const std::string row =
      R"({"model": {"layers": 24, "hidden": 2048, "heads": 16, "vocab": 51200},
          "cluster": {"use": "dgx-a100", "nodes": 4}, "system": {"use": "megatron-lm"},
          "workload": {"sequence_length": 2048, "global_batch": 64}, "parallelism": {"tensor": 2}})";
  for (auto _ : state) {
    benchmark::DoNotOptimize(config::parse(row, "row"));
  }
}
BENCHMARK(parse_row)->Unit(benchmark::kMicrosecond);

void write_json(benchmark::State& state) {
  const job::Job job = config::load("llama70b").job;
  for (auto _ : state) {
    benchmark::DoNotOptimize(config::to_json(job));
  }
}
BENCHMARK(write_json)->Unit(benchmark::kMicrosecond);

}  // namespace

BENCHMARK_MAIN();
