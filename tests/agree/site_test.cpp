// Fits a site with hidden factors to three noisy runs on 64 GPUs and forecasts a run on 1,024.
#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <random>

#include "catch.hpp"
#include "stepcast/base/statistics.h"
#include "stepcast/calibrate/runs.h"
#include "stepcast/config/config.h"
#include "stepcast/forecast/forecaster.h"
#include "stepcast/text/document.h"

using namespace stepcast;

namespace {

constexpr double kNoise = 0.015;

struct Layout {
  int tensor, pipeline, micro_batch, per_rank;  // per_rank: micro-batches of a pipeline
};

job::Job job_on(int nodes, int layers, const Layout& l) {
  const int data = nodes * 8 / (l.tensor * l.pipeline);
  return config::parse(
             fmt::format("model: {{layers: {}, hidden: 4096, heads: 32, kv_heads: 8, ffn: 14336, "
                         "vocab: 32000, gated_mlp: true, norm: rms, positions: rotary}}\n"
                         "cluster: {{use: dgx-h100, nodes: {}}}\n"
                         "system: megatron-lm\n"
                         "workload: {{sequence_length: 4096, global_batch: {}, micro_batch: {}, "
                         "precision: bf16}}\n"
                         "parallelism: {{tensor: {}, pipeline: {}, sequence_parallel: {}, "
                         "sharding: zero1}}\n",
                         layers, nodes, data * l.micro_batch * l.per_rank, l.micro_batch, l.tensor,
                         l.pipeline, l.tensor > 1),
             "drawn")
      .job;
}

cost::Site hidden_site(std::mt19937& random, const job::Job& job) {
  auto between = [&](double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random);
  };
  cost::Site site;
  site.system = job.system.name;
  site.fabric = job.cluster.fabric.name;
  const auto set = [&](cost::SiteParameter p, double value) {
    site[p].value = value;
    site[p].determined = true;
  };
  set(cost::SiteParameter::clock, between(0.78, 0.95));
  set(cost::SiteParameter::launch, between(3e-6, 15e-6));
  set(cost::SiteParameter::overlap, between(0.6, 1.8));
  set(cost::SiteParameter::fabric, between(0.55, 0.95));
  return site;
}

result::Estimate step(forecast::Forecaster& forecaster, const job::Job& job,
                      const cost::Site* site) {
  forecast::Options options;
  options.site = site;
  auto outcome = forecaster.forecast(job, options);
  REQUIRE(std::holds_alternative<result::Report>(outcome));
  return std::get<result::Report>(outcome).step_time;
}

class SiteFile {
 public:
  SiteFile(int number, const std::string& yaml)
      : path_(std::filesystem::temp_directory_path() /
              fmt::format("stepcast-agree-{}-{}.yaml", ::getpid(), number)) {
    std::ofstream(path_) << yaml;
  }
  ~SiteFile() { std::filesystem::remove(path_); }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

}  // namespace

TEST_CASE("three runs on 64 GPUs sharpen a forecast for 1,024") {
  std::mt19937 random(20261);
  std::normal_distribution<double> noise(0, kNoise);
  const auto data = text::data_directory();
  forecast::Forecaster forecaster(data);
  std::vector<double> before, after, width_before, width_after;
  int inside = 0;
  int clocks = 0;
  constexpr int kSites = 6;
  for (int n = 0; n < kSites; ++n) {
    const int layers = n % 2 == 0 ? 16 : 24;
    const std::vector<Layout> layouts = {{8, 1, 1, 4}, {2, 2, 1, 8}, {1, 1, 1, 2}};
    const cost::Site hidden = hidden_site(random, job_on(8, layers, layouts[0]));
    std::vector<result::MeasuredStep> steps;
    for (const Layout& l : layouts) {
      result::MeasuredStep s;
      s.id = fmt::format("run {}", steps.size() + 1);
      s.job = job_on(8, layers, l);
      s.seconds = {step(forecaster, s.job, &hidden).value * std::exp(noise(random))};
      steps.push_back(s);
    }
    const auto found = calibrate::calibrate_runs(steps, {}, data);
    INFO(found.yaml);
    REQUIRE(found.refused.empty());
    for (const auto& p : found.parameters) {
      // Every factor that the fit determines is within three deviations of its hidden value.
      if (p.determined && p.name != "layer") {
        const auto& truth = hidden.values[static_cast<std::size_t>(&p - found.parameters.data())];
        INFO(p.name << " " << p.value << " of " << truth.value << " +- " << p.deviation);
        CHECK(std::abs(std::log(p.value / truth.value)) < 3 * p.deviation);
      }
      CHECK(p.determined == p.reason.empty());
      clocks += p.name == "clock" && p.determined ? 1 : 0;
    }
    // The site is applied as a user would: by a file in the job's list.
    const SiteFile file(n, found.yaml);
    job::Job large = job_on(128, layers, {4, 2, 1, 8});
    const double truth = step(forecaster, large, &hidden).value;
    const auto plain = step(forecaster, large, nullptr);
    large.calibration = {"auto", file.path()};
    const auto sharp = step(forecaster, large, nullptr);
    before.push_back(std::abs(plain.value / truth - 1));
    after.push_back(std::abs(sharp.value / truth - 1));
    width_before.push_back((plain.high - plain.low) / plain.value);
    width_after.push_back((sharp.high - sharp.low) / sharp.value);
    inside += truth >= sharp.low && truth <= sharp.high ? 1 : 0;
    CHECK(after.back() < before.back());
  }
  CHECK(clocks == kSites);
  CHECK(median(before) > 0.08);
  CHECK(median(after) < 0.025);
  CHECK(median(width_after) < median(width_before));
  CHECK(inside >= kSites - 1);  // the intervals are 90 % intervals
}

TEST_CASE("a site that is as the calibration changes nothing") {
  forecast::Forecaster forecaster(text::data_directory());
  const job::Job job = job_on(8, 16, {4, 2, 1, 8});
  const auto plain = step(forecaster, job, nullptr);
  const cost::Site usual;
  const auto same = step(forecaster, job, &usual);
  CHECK(plain.value == same.value);
  CHECK(plain.low == same.low);
  CHECK(plain.high == same.high);
}

TEST_CASE("each parameter does what it says") {
  forecast::Forecaster forecaster(text::data_directory());
  const job::Job compute = job_on(1, 16, {1, 1, 1, 4});
  cost::Site site;
  site.system = compute.system.name;
  site.fabric = compute.cluster.fabric.name;
  const auto with = [&](cost::SiteParameter p, double value, const job::Job& job) {
    cost::Site one = site;
    one[p].value = value;
    one[p].determined = true;
    return step(forecaster, job, &one).value;
  };
  const double plain = step(forecaster, compute, nullptr).value;
  // At half the clock the step at most doubles, and nearly does, since most of it is arithmetic.
  CHECK(with(cost::SiteParameter::clock, 0.5, compute) > 1.6 * plain);
  CHECK(with(cost::SiteParameter::clock, 0.5, compute) <= 2 * plain);
  // One node has no network.
  CHECK(with(cost::SiteParameter::fabric, 0.3, compute) == plain);
  // 4k tokens of hidden size 4096 on one rank never wait for launches of 8 us.
  CHECK(with(cost::SiteParameter::launch, 8e-6, compute) == Approx(plain).epsilon(2e-3));
  const job::Job split = job_on(1, 16, {8, 1, 1, 4});
  const double undisturbed = step(forecaster, split, nullptr).value;
  CHECK(with(cost::SiteParameter::launch, 50e-6, split) > 1.002 * undisturbed);
  // 3 ms for each of 16 layers, 2 passes and 4 micro-batches: the host takes 0.38 s.
  CHECK(with(cost::SiteParameter::layer, 3e-3, split) > 0.38);
  CHECK(undisturbed < 0.2);
  const job::Job spread = job_on(8, 16, {1, 1, 1, 1});
  CHECK(with(cost::SiteParameter::fabric, 0.3, spread) >
        1.05 * step(forecaster, spread, nullptr).value);
  CHECK(with(cost::SiteParameter::overlap, 4, spread) >=
        with(cost::SiteParameter::overlap, 0.1, spread));
}
