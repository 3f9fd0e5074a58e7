// Events per second and the speed of whole steps. Worlds have the size of real jobs after kernels
// are merged; the prices are invented.
#include "stepcast/engine/engine.h"

#include <benchmark/benchmark.h>

#include <cstdlib>

#include "../../src/engine/event_queue.h"
#include "stepcast/lower/fold.h"
#include "support/random_world.h"

namespace {

using namespace stepcast;
using namespace stepcast::testing;

// Llama-3 70B: tp8 pp8, 32 micro-batches, 10 layers per stage with four tensor collectives per
// layer and pass: about 7,700 tasks per rank.
World llama70b(int dp, int gpus_per_nic = 1) {
  JobTraits t;
  t.gpus_per_nic = gpus_per_nic;
  t.tp = 8;
  t.pp = 8;
  t.dp = dp;
  t.micro_batches = 32;
  t.layers = 40;
  t.splits = 2;
  t.overlap_tensor = true;
  t.launch_cost = 4'000'000;
  t.kernel_time = 200'000'000;
  Random r(70);
  return random_world(t, r);
}

// Llama-3.1 405B: tp8 pp16 dp128: 16,384 GPUs, about 2,900 tasks per rank.
World llama405b() {
  JobTraits t;
  t.tp = 8;
  t.pp = 16;
  t.dp = 128;
  t.micro_batches = 16;
  t.layers = 30;
  t.splits = 2;
  t.overlap_tensor = true;
  t.launch_cost = 4'000'000;
  t.kernel_time = 300'000'000;
  Random r(405);
  return random_world(t, r);
}

void simulate(benchmark::State& state, const World& w) {
  double events = 0;
  double tasks = 0;
  int steps = 0;
  for (auto _ : state) {
    const auto result = engine::run(w, {});
    const auto* t = std::get_if<Timeline>(&result);
    if (t == nullptr) {
      state.SkipWithError("deadlock");
      return;
    }
    events += static_cast<double>(t->events);
    tasks += static_cast<double>(t->tasks);
    steps = t->steps;
  }
  state.counters["events/s"] = benchmark::Counter(events, benchmark::Counter::kIsRate);
  state.counters["tasks/s"] = benchmark::Counter(tasks, benchmark::Counter::kIsRate);
  state.counters["s/event"] =
      benchmark::Counter(events, benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
  state.counters["tasks"] = tasks / static_cast<double>(state.iterations());
  state.counters["steps"] = steps;
}

void fold_and_simulate(benchmark::State& state, const World& full) {
  std::size_t classes = 0;
  for (auto _ : state) {
    const auto folded = lower::fold(full);
    classes = folded->world.ranks.size();
    benchmark::DoNotOptimize(engine::run(folded->world, {}));
  }
  state.counters["classes"] = static_cast<double>(classes);
}

void llama70b_64_folded(benchmark::State& state) {
  const World w = llama70b(1);
  simulate(state, lower::fold(w)->world);
}
void llama70b_64_fold_and_run(benchmark::State& state) { fold_and_simulate(state, llama70b(1)); }
void llama70b_64_full(benchmark::State& state) { simulate(state, llama70b(1)); }
// Pairs of GPUs share a NIC.
void llama70b_128_shared_nics_full(benchmark::State& state) { simulate(state, llama70b(2, 2)); }
void llama70b_1024_fold_and_run(benchmark::State& state) { fold_and_simulate(state, llama70b(16)); }
void llama405b_16384_fold(benchmark::State& state) {
  const World w = llama405b();
  for (auto _ : state) {
    benchmark::DoNotOptimize(lower::fold(w));
  }
}
void llama405b_16384_fold_and_run(benchmark::State& state) {
  fold_and_simulate(state, llama405b());
}
void llama405b_16384_full(benchmark::State& state) { simulate(state, llama405b()); }

BENCHMARK(llama70b_64_folded)->Unit(benchmark::kMillisecond);
BENCHMARK(llama70b_64_fold_and_run)->Unit(benchmark::kMillisecond);
BENCHMARK(llama70b_64_full)->Unit(benchmark::kMillisecond);
BENCHMARK(llama70b_128_shared_nics_full)->Unit(benchmark::kMillisecond);
BENCHMARK(llama70b_1024_fold_and_run)->Unit(benchmark::kMillisecond);
BENCHMARK(llama405b_16384_fold)->Unit(benchmark::kMillisecond);
BENCHMARK(llama405b_16384_fold_and_run)->Unit(benchmark::kMillisecond);
BENCHMARK(llama405b_16384_full)->Unit(benchmark::kSecond)->Iterations(1);

// The hold model: pop one event and push one. Delays are distributed as in training (half of them
// take a few discrete values).
void event_queue_hold(benchmark::State& state) {
  engine::EventQueue q;
  Random r(1);
  const auto delay = [&] {
    const auto kind = r.in(0, 9);
    return kind < 5   ? r.in(1, 16) * 1'000'000
           : kind < 9 ? r.in(1, 50'000'000)
                      : r.in(1, 5'000'000'000);
  };
  for (std::int64_t i = 0; i < state.range(0); ++i) {
    q.push({Time(delay()), static_cast<std::uint32_t>(i), 0});
  }
  std::vector<engine::Event> batch;
  std::int64_t handled = 0;
  for (auto _ : state) {
    q.next(batch);
    for (const engine::Event& e : batch) {
      q.push({e.time + Time(delay()), e.subject, 0});
    }
    handled += static_cast<std::int64_t>(batch.size());
  }
  state.SetItemsProcessed(handled);
}
BENCHMARK(event_queue_hold)->Arg(16)->Arg(1000)->Arg(100'000);

}  // namespace

BENCHMARK_MAIN();
