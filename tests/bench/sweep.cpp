// Points of a sweep by their bounds, computed on one thread; also with an empty store, which writes
// each point, and with a full one, from which all points are read.
#include "stepcast/planner/sweep.h"

#include <benchmark/benchmark.h>

#include <filesystem>
#include <optional>
#include <string>

#include "stepcast/store/store.h"
#include "stepcast/text/document.h"
#include "support/folder.h"

namespace {

using namespace stepcast;

enum class Kept { no, written, read };

void sweep_bounds(benchmark::State& state, Kept kept) {
  const auto data = text::data_directory();
  planner::SweepRequest request;
  request.config = "llama8b-fsdp";
  request.overrides = {"workload.micro_batch=1"};
  request.axes = planner::sweep_axes(
      "--vary", {"workload.sequence_length=1024..20524+500", "workload.global_batch=8..400+8"});
  request.fidelity = forecast::Fidelity::bound;
  request.threads = 1;
  const test::Folder folder;
  std::optional<store::Store> store;
  const auto open = [&](int number) {
    store.reset();
    store.emplace("--store", folder.file(std::to_string(number) + ".db"),
                  store::model_version(data));
    request.store = &*store;
  };
  if (kept == Kept::read) {
    open(0);
    planner::sweep(request, data);
  }
  std::int64_t points = 0;
  int number = 0;
  for (auto _ : state) {
    if (kept == Kept::written) {
      state.PauseTiming();
      open(++number);
      state.ResumeTiming();
    }
    points += static_cast<std::int64_t>(planner::sweep(request, data).points.size());
  }
  state.counters["points"] =
      benchmark::Counter(static_cast<double>(points), benchmark::Counter::kIsRate);
}
BENCHMARK_CAPTURE(sweep_bounds, alone, Kept::no)
    ->Unit(benchmark::kMillisecond)
    ->MeasureProcessCPUTime();
BENCHMARK_CAPTURE(sweep_bounds, written, Kept::written)
    ->Unit(benchmark::kMillisecond)
    ->MeasureProcessCPUTime();
BENCHMARK_CAPTURE(sweep_bounds, read, Kept::read)
    ->Unit(benchmark::kMillisecond)
    ->MeasureProcessCPUTime();

}  // namespace

BENCHMARK_MAIN();
