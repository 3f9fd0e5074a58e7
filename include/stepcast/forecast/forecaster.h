// Forecasts jobs: a job in, a Report out.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <variant>

#include "stepcast/base/diagnostics.h"
#include "stepcast/base/spelling.h"
#include "stepcast/base/stop.h"
#include "stepcast/bound/bound.h"
#include "stepcast/capture/capture.h"
#include "stepcast/cost/collectives.h"
#include "stepcast/cost/site.h"
#include "stepcast/cost/structure.h"
#include "stepcast/job/job.h"
#include "stepcast/lower/lower.h"
#include "stepcast/result/memory.h"
#include "stepcast/result/report.h"

namespace stepcast::forecast {

enum class Fidelity { bound, folded, full };

constexpr auto spellings(Fidelity) {
  return std::to_array<Spelling<Fidelity>>(
      {{Fidelity::bound, "bound"}, {Fidelity::folded, "folded"}, {Fidelity::full, "full"}});
}

// How reserved memory is found: by replaying the allocator, or by a rule of thumb, which takes no time (for searches).
enum class Allocator { replay, rule };

struct Options {
  Fidelity fidelity = Fidelity::folded;
  bool trace = false;  // fill Report::trace
  int samples = 0;     // Monte Carlo over curve residuals instead of sensitivities; below 0: no interval, which is faster
  const cost::Site* site = nullptr;  // instead of the one that the job's calibration names
  Allocator allocator = Allocator::replay;
  // Where the rule of thumb may be enough: asked with the report by the rule whether the same run of the engine is to be
  // replayed as well; if not, that report is the forecast. Its notes do not say whether recomputation would make the job
  // fit.
  std::function<bool(const result::Report& by_rule)> replay_if = nullptr;
  // Where memory may be enough: asked ahead of the engine's run, with a report of nothing but the memory by the rule of
  // thumb, whether to run it; if not, that report is the forecast.
  std::function<bool(const result::Report& memory)> run_if = nullptr;
  std::size_t most_tasks = lower::kMostTasks;  // larger jobs are Infeasible
  bool skip_repeats = true;                    // as of engine::Options: the same report without, later
  int threads = 1;                             // of one forecast; 0: as many as there are cores. The report is the same
  const Stop* stop = nullptr;  // once it is asked, forecast() throws Stopped, at the latest after the present phase
};

// Caches curves, and replays of allocators, between jobs. One Forecaster per thread.
class Forecaster {
 public:
  explicit Forecaster(const std::filesystem::path& data_directory);
  ~Forecaster();
  Forecaster(Forecaster&&) noexcept;

  std::variant<result::Report, Infeasible> forecast(const job::Job& job, const Options& options = {});

  // A capture on the cluster of `on`, of which its nccl, calibration, kernels, seed and memory.margin count as well; the
  // rest is not read. `tokens`: of a step, all ranks together; 0: not known. Stages of the report are recorded ranks.
  std::variant<result::Report, Infeasible> forecast(const capture::Capture& capture, const job::Job& on, double tokens,
                                                    const Options& options = {});

  // Each stage's memory over one steady step, for the rank that the report shows for the stage. COST: a traced forecast and
  // one recorded replay per stage. A bound has no timeline, so Fidelity::bound is treated as folded.
  std::variant<result::MemoryTimeline, Infeasible> memory(const job::Job& job, const Options& options = {});

  // Time of one middle layer alone on one micro-batch (lower::layer_time): the whole layer (as in Korthikanti's table 4) or
  // only its experts (as in Megatron-LM's moe_perf).
  struct LayerTime {
    result::Estimate forward, backward, both;
  };
  std::variant<LayerTime, Infeasible> layer_time(const job::Job& job, lower::LayerPart part = lower::LayerPart::whole);

  // Lower bounds of the job with other grids, micro-batches, sharding and recomputation. They use this Forecaster's
  // curves and must not outlive it.
  struct Bounds {
    std::unique_ptr<cost::Collectives> collectives;
    bound::Bound of;
    Bytes capacity;  // usable memory of the largest GPU
  };
  std::variant<Bounds, Infeasible> bounds(const job::Job& job);

  // What is kept of all jobs so far, and grows with the devices and the rates of links that they stated.
  struct Kept {
    std::size_t devices = 0;
    std::size_t curves = 0;
  };
  Kept kept() const;

  // How far memory lies off although a job is known, by its parts.
  const cost::MemoryStructure& memory_structure() const;

  struct State;  // of the implementation

 private:
  std::variant<result::Report, Infeasible> captured_within(const capture::Capture& capture, const job::Job& on,
                                                           double tokens, const Options& options);
  std::variant<result::Report, Infeasible> forecast_within(const job::Job& job, const Options& options);
  // Whether the job would fit if it recomputed everything, which it leaves open.
  void note_full_recomputation(const job::Job& job, const Options& options, result::Report& report);

  std::unique_ptr<State> state_;
};

}  // namespace stepcast::forecast
