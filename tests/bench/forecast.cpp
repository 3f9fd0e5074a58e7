// The speed that a capacity planner or a search experiences: whole jobs from the job struct to the
// timeline.
//   forecast: everything (plan, topology, prices, lowering, folding, engine with sensitivities,
//             report)
//   engine:   only the engine on the same world, with tasks, events and time per event
// The 64-GPU job is Llama-3 70B, tensor 8, pipeline 8, 32 micro-batches of 8,192 tokens.
#include <benchmark/benchmark.h>

#include <map>
#include <string>
#include <vector>

#include "program_heap.h"
#include "stepcast/bound/bound.h"
#include "stepcast/config/config.h"
#include "stepcast/engine/engine.h"
#include "stepcast/forecast/forecaster.h"
#include "stepcast/lower/fold.h"
#include "stepcast/lower/lower.h"
#include "stepcast/text/document.h"

using namespace stepcast;

namespace {

job::Job llama70b(int gpus) {
  const int data = gpus / 64;
  return config::load("llama70b.yaml",
                      {"cluster.nodes=" + std::to_string(gpus / 8), "parallelism.pipeline=8",
                       "parallelism.virtual_pipeline=1", "parallelism.overlap.pipeline=false",
                       "workload.global_batch=" + std::to_string(32 * data)})
      .job;
}

job::Job gpt3() { return config::load("gpt3-175b.yaml").job; }

job::Job llama405b() { return config::load("llama405b.yaml").job; }

struct World {
  cost::CurveTable curves;
  cluster::Topology topology;
  cost::Kernels kernels;
  cost::Collectives collectives;
  strategy::Plan plan;
  program::World full;

  explicit World(const job::Job& job)
      : topology(std::get<cluster::Topology>(cluster::Topology::build(job.cluster))),
        kernels(job.cluster.device, job.kernels.library, text::data_directory() / "calibration", {},
                curves),
        collectives(job.cluster, job.nccl, text::data_directory() / "calibration", {}, curves),
        plan(std::get<strategy::Plan>(strategy::resolve(job))) {
    full = lower::build_world(plan, topology, prices(job));
  }
  lower::Prices prices(const job::Job& job) {
    lower::Prices p;
    p.kernels[job.cluster.device.name] = &kernels;
    p.collectives = &collectives;
    p.curves = &curves;
    return p;
  }
};

void forecast(benchmark::State& state, const job::Job& job, forecast::Fidelity fidelity) {
  forecast::Forecaster forecaster(text::data_directory());
  forecast::Options options;
  options.fidelity = fidelity;
  double ranks = 0;
  for (auto _ : state) {
    auto report = std::get<result::Report>(forecaster.forecast(job, options));
    ranks = static_cast<double>(report.engine.ranks);
    benchmark::DoNotOptimize(report.step_time.value);
  }
  state.counters["ranks"] = ranks;
}

void engine_alone(benchmark::State& state, const job::Job& job, bool full) {
  const World world(job);
  const auto folded = lower::fold(world.full);
  const program::World& run = full ? world.full : folded->world;
  double events = 0;
  double tasks = 0;
  double steps = 0;
  for (auto _ : state) {
    const auto timeline = std::get<program::Timeline>(engine::run(run));
    events += static_cast<double>(timeline.events);
    tasks = static_cast<double>(timeline.tasks);
    steps = timeline.steps;
  }
  state.counters["classes"] = static_cast<double>(run.ranks.size());
  state.counters["tasks"] = tasks;
  state.counters["steps"] = steps;
  state.counters["events"] = events / static_cast<double>(state.iterations());
  state.counters["events/s"] = benchmark::Counter(events, benchmark::Counter::kIsRate);
  state.counters["s/event"] =
      benchmark::Counter(events, benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

void bound_rate(benchmark::State& state) {
  const job::Job job = config::load("gpt3-175b.yaml").job;
  World world(job);
  bound::Bound bound(job, world.topology, world.prices(job));
  std::vector<bound::Candidate> space;
  for (int tensor : {1, 2, 4, 8}) {
    for (int pipeline : {1, 2, 4, 8, 16, 32}) {
      for (int chunks : {1, 2, 3}) {
        for (int micro : {1, 2, 4}) {
          for (const auto kind : {job::Recompute::Kind::none, job::Recompute::Kind::full}) {
            const int data = 1024 / tensor / pipeline;
            bound::Candidate c;
            c.tensor = tensor;
            c.pipeline = pipeline;
            c.virtual_pipeline = chunks;
            c.data = data;
            c.micro_batch = micro;
            c.sequence_parallel = tensor > 1;
            c.sharding = job::Sharding::zero1;
            c.recompute.kind = kind;
            space.push_back(c);
          }
        }
      }
    }
  }
  double feasible = 0;
  for (auto _ : state) {
    feasible = 0;
    for (const auto& c : space) {
      feasible += bound.evaluate(c).feasible ? 1 : 0;
    }
  }
  state.counters["feasible"] = feasible;
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(space.size()));
  state.counters["feasible/s"] = benchmark::Counter(
      feasible * static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
}

BENCHMARK_CAPTURE(forecast, llama70b_64_folded, llama70b(64), forecast::Fidelity::folded)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(forecast, llama70b_64_full, llama70b(64), forecast::Fidelity::full)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(forecast, llama70b_1024_folded, llama70b(1024), forecast::Fidelity::folded)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(forecast, llama405b_16384_folded, llama405b(), forecast::Fidelity::folded)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(forecast, gpt3_175b_1024_folded, gpt3(), forecast::Fidelity::folded)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(engine_alone, llama70b_64_folded, llama70b(64), false)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(engine_alone, llama70b_64_full, llama70b(64), true)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(engine_alone, llama70b_1024_folded, llama70b(1024), false)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(engine_alone, llama405b_16384_folded, llama405b(), false)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(engine_alone, llama405b_16384_full, llama405b(), true)
    ->Unit(benchmark::kSecond)
    ->Iterations(1);
BENCHMARK(bound_rate)->Unit(benchmark::kMillisecond);

}  // namespace

int main(int argc, char** argv) { return bench::run_on_program_heap(argc, argv); }
