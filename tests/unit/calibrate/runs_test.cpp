// Site calibrations: refusals with their reasons, faulty rows, reading and writing of files, and
// the fit.
#include "stepcast/calibrate/runs.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>

#include "calibrate/runs_fit.h"
#include "catch.hpp"
#include "stepcast/cost/site.h"
#include "stepcast/forecast/forecaster.h"
#include "stepcast/input/input.h"
#include "stepcast/report/report.h"
#include "stepcast/text/document.h"
#include "support/folder.h"

using stepcast::test::Folder;
using namespace stepcast;

namespace {

namespace fs = std::filesystem;

std::string job_text(int nodes, int micro_batch, const std::string& more = "",
                     const std::string& cluster = "dgx-h100") {
  return fmt::format(
      "model: {{layers: 4, hidden: 4096, heads: 32, ffn: 16384, vocab: 32000}}\n"
      "cluster: {{use: {}, nodes: {}}}\n"
      "workload: {{sequence_length: 2048, global_batch: 64, micro_batch: {}, precision: bf16}}\n{}",
      cluster, nodes, micro_batch, more);
}

result::MeasuredStep measured(int line, double seconds, int nodes = 1, int micro_batch = 1,
                              const std::string& more = "",
                              const std::string& cluster = "dgx-h100") {
  result::MeasuredStep s;
  s.id = fmt::format("row {}", line);
  s.file = "rows.jsonl";
  s.line = line;
  s.job = input::parse(job_text(nodes, micro_batch, more, cluster), "job").job;
  s.seconds = {seconds};
  return s;
}

result::SiteCalibration fit(const std::vector<result::MeasuredStep>& steps,
                            const calibrate::SiteOptions& options = {}) {
  return calibrate::calibrate_runs(steps, options, text::data_directory());
}

const result::SiteFitted& parameter(const result::SiteCalibration& c, const std::string& name) {
  for (const auto& p : c.parameters) {
    if (p.name == name) {
      return p;
    }
  }
  FAIL("no parameter " << name);
  return c.parameters.front();
}

std::string faults_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const InputError& error) {
    std::string all;
    for (const Fault& f : error.faults()) {
      all += to_string(f) + "\n";
    }
    return all;
  }
  return "";
}

}  // namespace

TEST_CASE("fewer than two jobs are refused") {
  CHECK(fit({}).refused ==
        "0 usable rows of different jobs; at least 2 are needed to separate a site's factors from "
        "the error of one job");
  // A repeat is no second job.
  const auto one = fit({measured(1, 1.0), measured(2, 1.01)});
  CHECK(one.refused ==
        "1 usable row of different jobs; at least 2 are needed to separate a site's factors from "
        "the error of one job");
  CHECK(one.yaml.empty());
}

TEST_CASE("what rows cannot determine is refused with the reason") {
  const auto slow = [](int line, int micro_batch) {
    auto s = measured(line, 1, 1, micro_batch);
    forecast::Forecaster forecaster(text::data_directory());
    auto report = forecaster.forecast(s.job);
    s.seconds = {std::get<result::Report>(report).step_time.value / 0.85};
    return s;
  };
  const auto found = fit({slow(1, 1), slow(2, 2), slow(3, 4)});
  INFO(report::terminal(found, false));
  REQUIRE(found.refused.empty());
  CHECK(parameter(found, "clock").determined);
  CHECK(parameter(found, "clock").value < 0.92);
  CHECK(parameter(found, "fabric").reason == "every row is of a single node");
  CHECK(parameter(found, "launch").reason ==
        "no row's step waits for the host: kernels outlast their launches");
  CHECK(parameter(found, "layer").reason == "no row's step waits for the host");
  CHECK_FALSE(parameter(found, "overlap").determined);
  CHECK(found.after.median < found.before.median / 3);
  CHECK(found.left_out.median < found.before.median / 2);

  SECTION("the same rows give the same bytes") {
    const auto again = fit({slow(1, 1), slow(2, 2), slow(3, 4)});
    CHECK(again.yaml == found.yaml);
    CHECK(report::json(again) == report::json(found));
    CHECK(found.yaml.find('/' + std::string("tmp")) == std::string::npos);
  }
  SECTION("what the job states stays") {
    auto a = slow(1, 1);
    auto b = slow(2, 2);
    for (auto* s : {&a, &b}) {
      s->job.system.launch_stated = true;
      s->job.system.layer_overhead_stated = true;
    }
    const auto stated = fit({a, b});
    CHECK(parameter(stated, "launch").reason == "every row's job states system.launch");
    CHECK(parameter(stated, "layer").reason == "every row's job states system.layer_overhead");
  }
  SECTION("an outlier counts for less") {
    auto wrong = slow(4, 8);
    wrong.seconds[0] *= 1.8;
    const auto robust = fit({slow(1, 1), slow(2, 2), slow(3, 4), wrong});
    CHECK(robust.rows[3].weight < 0.5);
    CHECK(std::abs(parameter(robust, "clock").value / parameter(found, "clock").value - 1) < 0.08);
  }
}

TEST_CASE("rows of several machines are an error with their lines, unless chosen") {
  const auto two = std::vector{measured(1, 1.0), measured(7, 1.0, 1, 2, "", "dgx-a100")};
  CHECK(faults_of([&] { fit(two); }) ==
        "rows.jsonl:7:1: error: device 'a100-sxm-80' differs from 'h100-sxm' of line 1; expected "
        "rows "
        "of one (--device chooses)\n");
  calibrate::SiteOptions options;
  options.device = "h100-sxm";
  const auto chosen = fit(two, options);
  REQUIRE(chosen.skipped.size() == 1);
  CHECK(chosen.skipped[0].reason == "its device is 'a100-sxm-80'");
  CHECK(chosen.skipped[0].line == 7);
  const auto systems =
      std::vector{measured(1, 1.0), measured(2, 1.0, 1, 1, "system: pytorch-ddp\n")};
  CHECK(
      faults_of([&] { fit(systems); }) ==
      "rows.jsonl:2:1: error: training system 'pytorch-ddp' differs from 'megatron-lm' of line 1; "
      "expected rows of one (--system chooses)\n");
}

TEST_CASE("rows that cannot be simulated are listed with the reason") {
  auto impossible = measured(3, 1.0, 1, 4);
  impossible.job.parallelism.tensor = 3;
  const auto found = fit({measured(1, 1.0), measured(2, 1.0, 1, 2), impossible});
  REQUIRE(found.skipped.size() == 1);
  CHECK(found.skipped[0].line == 3);
  CHECK(found.skipped[0].reason.starts_with("cannot be simulated: parallelism.tensor: "));
  CHECK(found.rows.size() == 2);
}

TEST_CASE("repeats give the noise") {
  auto a = measured(1, 1.0);
  a.seconds = {1.00, 1.02, 0.98};
  auto b = measured(2, 1.0, 1, 2);
  const auto found = fit({a, b});
  CHECK(found.noise_measured);
  CHECK(found.noise == Approx(0.02).epsilon(0.05));
  CHECK(found.rows[0].repeats == 3);
  CHECK(found.rows[0].measured == 1.0);
}

TEST_CASE("a site file reads back as written; faults have lines") {
  cost::Site site;
  site.name = "lab";
  site.devices = {"h100-sxm"};
  site.system = "megatron-lm";
  site.fabric = "ib-ndr-rail";
  site.provenance = "3 measured steps, \"night\"";
  site.scatter = 0.036;
  site[cost::SiteParameter::clock] = {0.9, 1, 0.02, true, ""};
  site[cost::SiteParameter::launch] = {1e-5, 5e-6, 0.2, true, ""};
  site[cost::SiteParameter::overlap].reason = "no row has communication beside kernels";
  site.correlation[0][1] = site.correlation[1][0] = -0.4;
  const Folder folder;
  const auto path = folder.write("site.yaml", cost::to_yaml(site));
  const auto back = cost::read_site(path);
  CHECK(cost::to_yaml(back) == cost::to_yaml(site));
  CHECK(back[cost::SiteParameter::launch].value == 1e-5);
  CHECK(back.correlation[0][1] == -0.4);

  std::vector<std::string> list = {"auto", path};
  CHECK(cost::take_site(list, "nowhere").has_value());
  CHECK(list == std::vector<std::string>{"auto"});

  const auto fault = [&](const std::string& from, const std::string& to) {
    std::string text = cost::to_yaml(site);
    text.replace(text.find(from), from.size(), to);
    const auto file = folder.write("bad.yaml", text);
    return faults_of([&] { cost::read_site(file); });
  };
  CHECK(fault("clock: {value: 0.9", "clock: {value: 0.1")
            .find(":10:18: error: value is 0.1; expected 0.5 to 1.1") != std::string::npos);
  CHECK(fault("value: 0.9", "value: .nan") != "");
  CHECK(fault("deviation: 0.02,", "deviation: 0,").find("has a deviation above 0") !=
        std::string::npos);
  CHECK(fault("  launch:", "  lanch:").find("'lanch' is not a parameter of a site") !=
        std::string::npos);
  CHECK(fault("scatter", "scater")
            .find("unknown key 'scater' of a site calibration (did you mean "
                  "'scatter'?)") != std::string::npos);
  CHECK(fault("[clock, launch]", "[clock, clock]").find("with itself") != std::string::npos);
  list = {path, folder.write("second.yaml", cost::to_yaml(site))};
  CHECK(faults_of([&] {
          cost::take_site(list, "nowhere");
        }).find("a second site calibration in addition to") != std::string::npos);
}

TEST_CASE("a site of another device is an error, of another system or fabric a note") {
  forecast::Forecaster forecaster(text::data_directory());
  const auto job = measured(1, 1, 2).job;
  cost::Site site;
  site.file = "lab.yaml";
  site.devices = {"a100-sxm-80"};
  forecast::Options options;
  options.site = &site;
  CHECK(faults_of([&] { forecaster.forecast(job, options); }) ==
        "lab.yaml: error: the site calibration is for a100-sxm-80, not for device 'h100-sxm'\n");
  site.devices = {"h100-sxm"};
  site.system = "nemo";
  site.fabric = "other";
  site[cost::SiteParameter::launch] = {2e-5, 5e-6, 0.1, true, ""};
  site[cost::SiteParameter::fabric] = {0.5, 1, 0.1, true, ""};
  const auto outcome = forecaster.forecast(job, options);
  const auto& report = std::get<result::Report>(outcome);
  const auto has = [&](const std::string& note) {
    return std::find(report.notes.begin(), report.notes.end(), note) != report.notes.end();
  };
  CHECK(
      has("lab.yaml: host time per kernel is not applied: it is for system 'nemo', not for "
          "'megatron-lm'"));
  CHECK(has(fmt::format(
      "lab.yaml: network bandwidth is not applied: it is for fabric 'other', not for '{}'",
      job.cluster.fabric.name)));
  CHECK(report.step_time.value ==
        std::get<result::Report>(forecaster.forecast(job)).step_time.value);
  CHECK(report.calibration.back().file == "lab.yaml");
}

TEST_CASE("the fit of a linear law is the closed form") {
  // ln step = a + J x with J known: x = (J'J/s^2 + I)^-1 J' r / s^2.
  calibrate::Matrix j(4, 2);
  j << 1, 0, 1, 0.2, 0.5, 1, 0.3, 0.8;
  calibrate::FitProblem problem;
  problem.measured = calibrate::Vector::Zero(4);
  problem.measured << 0.05, 0.04, 0.06, 0.05;
  problem.sigma = calibrate::Vector::Constant(4, 0.05);
  problem.low = calibrate::Vector::Constant(2, -5);
  problem.high = calibrate::Vector::Constant(2, 5);
  problem.forecasts = [&](const calibrate::Vector& x) { return calibrate::Vector(0.04 * j * x); };
  const auto found = calibrate::fit(problem, {true, true}, calibrate::Vector::Zero(2));
  const calibrate::Matrix a = 0.04 * j / 0.05;
  const calibrate::Vector b = problem.measured / 0.05;
  const calibrate::Vector exact =
      (a.transpose() * a + calibrate::Matrix::Identity(2, 2)).ldlt().solve(a.transpose() * b);
  CHECK(found.x[0] == Approx(exact[0]).margin(2e-3));
  CHECK(found.x[1] == Approx(exact[1]).margin(2e-3));
  // The leave-one-out estimate is compared with a fit that really leaves the row out.
  const auto left = calibrate::left_out(problem, found, {0, 1});
  calibrate::FitProblem rest = problem;
  rest.sigma[2] = 1e6;
  const auto without = calibrate::fit(rest, {true, true}, calibrate::Vector::Zero(2));
  CHECK(left[2] == Approx(without.residual[2]).margin(1e-3));
  // An inactive parameter stays at its prior.
  CHECK(calibrate::fit(problem, {true, false}, exact).x[1] == 0);
}
