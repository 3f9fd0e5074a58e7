// What a forecast, a sweep, a search and a process are asked to cost at most, in CPU time of one
// idle core, beside what they cost: `mark` in seconds, and `times_mark`, the least measured time
// over the mark (above 1: not reached). CPU time is user's and system's.
//   forecast: warm, whole, with memory and interval
//   process:  `simulate` from its start to its end
//   sweep:    a point of a sweep of one thread
#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "program_heap.h"
#include "stepcast/config/config.h"
#include "stepcast/forecast/forecaster.h"
#include "stepcast/text/document.h"

using namespace stepcast;

namespace {

double seconds_of(const timeval& t) {
  return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
}

struct Spent {
  double seconds = 0;
  double peak = 0;  // bytes resident
};

// Runs `simulate` without its output.
Spent run_simulate(const std::vector<std::string>& arguments) {
  std::vector<const char*> argv = {STEPCAST_SIMULATE};
  for (const std::string& a : arguments) {
    argv.push_back(a.c_str());
  }
  argv.push_back(nullptr);
  const pid_t child = vfork();
  if (child == 0) {
    const int nothing = open("/dev/null", O_WRONLY);
    dup2(nothing, STDOUT_FILENO);
    dup2(nothing, STDERR_FILENO);
    execv(argv[0], const_cast<char* const*>(argv.data()));
    _exit(127);
  }
  int status = 0;
  rusage used{};
  if (child < 0 || wait4(child, &status, 0, &used) != child || !WIFEXITED(status) ||
      WEXITSTATUS(status) == 127) {
    throw std::runtime_error("simulate did not run to its end");
  }
  return {seconds_of(used.ru_utime) + seconds_of(used.ru_stime),
          1024.0 * static_cast<double>(used.ru_maxrss)};
}

void beside(benchmark::State& state, double seconds, double mark) {
  state.counters["mark"] = mark;
  state.counters["times_mark"] = seconds / mark;
}

job::Job llama70b(int gpus) {
  return config::load("llama70b.yaml",
                      {"cluster.nodes=" + std::to_string(gpus / 8), "parallelism.pipeline=8",
                       "parallelism.virtual_pipeline=1", "parallelism.overlap.pipeline=false",
                       "workload.global_batch=" + std::to_string(32 * (gpus / 64))})
      .job;
}

double cpu_seconds() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  return seconds_of(used.ru_utime) + seconds_of(used.ru_stime);
}

// Times are the least of all iterations: other work on the machine only adds.
template <class F>
void least_of(benchmark::State& state, double mark, const F& f) {
  double least = 0;
  for (auto _ : state) {
    const double spent = f();
    state.SetIterationTime(spent);
    least = least == 0 || spent < least ? spent : least;
  }
  beside(state, least, mark);
}

void forecast(benchmark::State& state, const job::Job& job, forecast::Fidelity fidelity,
              double mark) {
  forecast::Forecaster forecaster(text::data_directory());
  forecast::Options options;
  options.fidelity = fidelity;
  forecaster.forecast(job, options);
  least_of(state, mark, [&] {
    const double before = cpu_seconds();
    benchmark::DoNotOptimize(forecaster.forecast(job, options));
    return cpu_seconds() - before;
  });
}

void process(benchmark::State& state, const std::vector<std::string>& arguments, double mark,
             double peak_mark = 0) {
  double peak = 0;
  least_of(state, mark, [&] {
    const Spent spent = run_simulate(arguments);
    peak = spent.peak;
    return spent.seconds;
  });
  if (peak_mark > 0) {
    state.counters["peak"] = peak;
    state.counters["peak_mark"] = peak_mark;
  }
}

// A point of a sweep by the engine.
void sweep(benchmark::State& state, double mark) {
  constexpr int kPoints = 40;
  const std::vector<std::string> arguments = {
      "sweep",     "--config", "llama70b", "--vary", "workload.sequence_length=1024..11008+256",
      "--threads", "1",        "--csv",    "-"};
  least_of(state, mark, [&] { return run_simulate(arguments).seconds / kPoints; });
}

// A search of a shipped space, with one thread.
void search(benchmark::State& state, const std::vector<std::string>& job, double mark) {
  std::vector<std::string> arguments = {"search", "--threads", "1", "--json", "-", "--config"};
  arguments.insert(arguments.end(), job.begin(), job.end());
  process(state, arguments, mark);
}

constexpr auto kFolded = forecast::Fidelity::folded;
constexpr auto kFull = forecast::Fidelity::full;
constexpr double kMilli = 1e-3;

#define MARK(what, name, ...) \
  BENCHMARK_CAPTURE(what, name, __VA_ARGS__)->Unit(benchmark::kMillisecond)->UseManualTime()

MARK(forecast, llama70b_64_gpus_folded, llama70b(64), kFolded, 8 * kMilli);
MARK(forecast, llama70b_64_gpus_every_rank, llama70b(64), kFull, 60 * kMilli);
MARK(forecast, llama70b_1024_gpus_folded, llama70b(1024), kFolded, 10 * kMilli);
MARK(forecast, gpt3_175b_1024_gpus_folded, config::load("gpt3-175b.yaml").job, kFolded,
     40 * kMilli);
MARK(forecast, llama405b_16384_gpus_folded, config::load("llama405b.yaml").job, kFolded,
     30 * kMilli);
// What `serve` answers for every ready job.
MARK(forecast, ready_gpt3_175b, config::load("gpt3-175b.yaml").job, kFolded, 100 * kMilli);
MARK(forecast, ready_llama405b, config::load("llama405b.yaml").job, kFolded, 100 * kMilli);
MARK(forecast, ready_llama70b, config::load("llama70b.yaml").job, kFolded, 100 * kMilli);
MARK(forecast, ready_llama8b, config::load("llama8b-fsdp.yaml").job, kFolded, 100 * kMilli);
MARK(forecast, ready_mixtral, config::load("mixtral-8x7b.yaml").job, kFolded, 100 * kMilli);
MARK(process, llama70b, {"--config", "llama70b.yaml"}, 50 * kMilli);
MARK(process, llama70b_bound, {"--config", "llama70b.yaml", "--fidelity", "bound"}, 15 * kMilli);
MARK(sweep, llama70b_point, 10 * kMilli);
// A third of what they took before searches ran only what fits (November 2026).
MARK(search, llama70b, {"llama70b"}, 3.3);
MARK(search, llama70b_stages, {"llama70b", "--space", "stages"}, 0.19);
MARK(search, llama8b_per_layer, {"llama8b-fsdp", "--space", "per-layer"}, 0.14);
MARK(search, mixtral, {"mixtral-8x7b"}, 1.4);
MARK(search, gpt3_175b, {"gpt3-175b"}, 0.8);
// Minutes of a core, and gigabytes: one run.
MARK(process, llama405b_every_rank, {"--config", "llama405b.yaml", "--fidelity", "full"}, 12.0,
     3.0 * (1U << 30U))
    ->Iterations(1);

}  // namespace

int main(int argc, char** argv) { return bench::run_on_program_heap(argc, argv); }
