// The engine's own run under another calibration, written as a profile, gives that calibration
// back, and with it the step on more GPUs.
#include "stepcast/calibrate/trace.h"

#include <fmt/format.h>

#include <fstream>
#include <random>

#include "catch.hpp"
#include "stepcast/cost/site.h"
#include "stepcast/engine/engine.h"
#include "stepcast/forecast/forecaster.h"
#include "stepcast/input/input.h"
#include "stepcast/text/document.h"
#include "stepcast/text/json_stream.h"
#include "stepcast/trace/explain.h"
#include "stepcast/trace/profile.h"
#include "stepcast/trace/write.h"
#include "support/folder.h"

using namespace stepcast;
using cost::SiteParameter;

namespace {

job::Job job_on(int nodes) {
  return input::load("llama8b-fsdp", {fmt::format("cluster.nodes={}", nodes),
                                      fmt::format("workload.global_batch={}", 16 * nodes)})
      .job;
}

cost::Site site_of(const job::Job& job) {
  cost::Site site;
  site.system = job.system.name;
  site.fabric = job.cluster.fabric.name;
  for (const auto& [parameter, value] :
       {std::pair(SiteParameter::clock, 0.88), {SiteParameter::fabric, 0.8}}) {
    site[parameter].value = value;
    site[parameter].determined = true;
  }
  return site;
}

result::Report forecast_of(const job::Job& job, const cost::Site* site) {
  forecast::Forecaster forecaster(text::data_directory());
  forecast::Options options;
  options.trace = true;
  options.site = site;
  return std::get<result::Report>(forecaster.forecast(job, options));
}

// The same run with kernels whose times vary, as the engine then has it.
void vary(result::Report& report, std::uint64_t seed) {
  std::mt19937_64 random(seed);  // the same numbers everywhere
  for (program::Program& program : report.trace->world.programs) {
    for (program::Task& task : program.tasks) {
      const double factor =
          1 + 0.02 * (2 * std::ldexp(static_cast<double>(random() >> 11), -53) - 1);
      task.duration = seconds(to_seconds(task.duration) * factor);
    }
  }
  engine::Options run;
  run.record_slices = true;
  report.trace->timeline = std::get<program::Timeline>(engine::run(report.trace->world, run));
}

result::TraceProfile profile_of(const result::Report& report, const job::Job& job) {
  const test::Folder folder;
  const auto path = folder / "rank0.json";
  OutputFile file(path);
  trace::KinetoOptions options;
  options.world_size = job.cluster.ranks();
  trace::write_kineto(report, 0, options, file);
  file.commit();
  return trace::profile_files({path});
}

double fitted(const result::SiteCalibration& found, const char* name) {
  for (const result::SiteFitted& parameter : found.parameters) {
    if (parameter.name == name) {
      return parameter.value;
    }
  }
  return 0;
}

// A job's own run under another clock and network and with kernels that vary: its profile gives
// them back, with the step of the job, and of the same on 8 times the GPUs.
void closes(const job::Job& small, const job::Job& large, std::uint64_t seed) {
  const cost::Site truth = site_of(small);
  result::Report run = forecast_of(small, &truth);
  vary(run, seed);
  calibrate::TraceSiteOptions options;
  options.stages = {0};
  const auto found =
      calibrate::calibrate_trace(profile_of(run, small), small, options, text::data_directory());
  INFO(small.model.name << "\n" << found.yaml);
  REQUIRE(found.refused.empty());
  CHECK(fitted(found, "clock") == Approx(0.88).epsilon(0.02));
  CHECK(fitted(found, "fabric") == Approx(0.8).epsilon(0.02));
  const test::Folder folder;
  std::ofstream(folder / "site.yaml") << found.yaml;
  const cost::Site site = cost::read_site(folder / "site.yaml");
  const double step = to_seconds(run.trace->timeline.period);
  CHECK(forecast_of(small, &site).step_time.value == Approx(step).epsilon(0.01));
  CHECK(forecast_of(large, &site).step_time.value ==
        Approx(forecast_of(large, &truth).step_time.value).epsilon(0.02));
}

}  // namespace

TEST_CASE("a profile of the engine's own run gives back the calibration that it ran under") {
  if (!text::have_json_stream()) {
    return;
  }
  closes(job_on(2), job_on(16), 5);
}

// The same where stages wait for each other, and where tokens go to experts: clock, network and
// step of the job, and of the job on 8 times the GPUs.
TEST_CASE("profiles of a pipeline and of experts give back the calibration that they ran under") {
  if (!text::have_json_stream()) {
    return;
  }
  struct Loop {
    const char* name;
    std::vector<std::string> settings;
    int nodes, sequences;  // of the small job
  };
  for (const Loop& loop :
       {Loop{"llama70b", {}, 8, 64},
        Loop{"mixtral-8x7b",
             {"model.use=qwen3-30b-a3b", "memory.recompute=full", "parallelism.tensor=1",
              "parallelism.pipeline=1", "parallelism.virtual_pipeline=1",
              "parallelism.sequence_parallel=false", "parallelism.expert=16",
              "parallelism.expert_tensor=1"},
             4,
             128}}) {
    const auto job_of = [&](int times) {
      std::vector<std::string> set = loop.settings;
      set.push_back(fmt::format("cluster.nodes={}", loop.nodes * times));
      set.push_back(fmt::format("workload.global_batch={}", loop.sequences * times));
      return input::load(loop.name, set).job;
    };
    closes(job_of(1), job_of(8), 7);
  }
}

TEST_CASE("a profile that waits for its host shows how long a launch takes") {
  if (!text::have_json_stream()) {
    return;
  }
  // A script that reads the gradient norm in each step: a host that never waits for its GPU is
  // ahead of it for as long as the GPU has more to do.
  const job::Job job =
      input::load("llama8b-fsdp", {"workload.sequence_length=1024", "workload.micro_batch=1",
                                   "workload.global_batch=8", "system.sync_before_optimizer=true"})
          .job;
  cost::Site truth = site_of(job);
  truth[SiteParameter::launch].value = 30e-6;
  truth[SiteParameter::launch].determined = true;
  const result::Report run = forecast_of(job, &truth);
  calibrate::TraceSiteOptions options;
  options.stages = {0};
  const auto found =
      calibrate::calibrate_trace(profile_of(run, job), job, options, text::data_directory());
  INFO(found.yaml);
  REQUIRE(found.refused.empty());
  CHECK(fitted(found, "clock") == Approx(0.88).epsilon(0.02));
  CHECK(fitted(found, "launch") == Approx(30e-6).epsilon(0.02));
}

TEST_CASE("a profile of the forecast itself differs from it in no phase") {
  if (!text::have_json_stream()) {
    return;
  }
  const job::Job job = job_on(1);
  const result::Report run = forecast_of(job, nullptr);
  const result::TraceProfile profile = profile_of(run, job);
  const auto explained = trace::explain(profile.ranks.at(0), run, 0);
  REQUIRE(explained);
  const double step = run.step_time.value;
  Time differences{0};
  bool backward = false, optimizer = false;
  for (const result::TraceDifference& row : explained->rows) {
    INFO(row.phase << " " << row.what << ": " << row.cause);
    CHECK(std::abs(to_seconds(row.measured - row.forecast)) < 1e-3 * step);
    differences += row.measured - row.forecast;
    backward = backward || (row.phase == "backward" && row.measured > Time(0));
    optimizer = optimizer || (row.phase == "optimizer" && row.measured > Time(0));
  }
  CHECK(differences == explained->measured - explained->forecast);
  CHECK(backward);
  CHECK(optimizer);
}

TEST_CASE(
    "a profile without shapes of another job determines nothing, and the reason is its step") {
  if (!text::have_json_stream()) {
    return;
  }
  const job::Job job = job_on(1);
  const result::TraceProfile profile = profile_of(forecast_of(job, nullptr), job);
  const job::Job other =
      input::load("llama8b-fsdp", {"cluster.nodes=1", "workload.global_batch=16",
                                   "model.use=llama-3-70b", "memory.recompute=full"})
          .job;
  calibrate::TraceSiteOptions options;
  options.stages = {0};
  const auto found = calibrate::calibrate_trace(profile, other, options, text::data_directory());
  CHECK_THAT(found.refused, ContainsSubstring("determines no parameter: its step takes 0.1"));
  CHECK(found.yaml.empty());
}

TEST_CASE("a profile of another GPU is told by its name") {
  const job::Job job = job_on(1);  // on H100s
  result::TraceRank rank;
  CHECK(calibrate::may_be_of(rank, job));  // it does not say
  rank.device = "NVIDIA H100 80GB HBM3";
  CHECK(calibrate::may_be_of(rank, job));
  rank.device = "NVIDIA A100-SXM4-80GB";
  CHECK_FALSE(calibrate::may_be_of(rank, job));
}
