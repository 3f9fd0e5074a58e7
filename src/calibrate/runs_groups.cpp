#include "runs_groups.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "runs_select.h"
#include "stepcast/base/statistics.h"
#include "stepcast/config/config.h"
#include "stepcast/job/facts.h"

namespace stepcast::calibrate {

using cost::SiteParameter;
using result::MeasuredStep;
using result::SiteCalibration;

namespace {

// Run-to-run scatter of one measured step where no row is repeated: NeMo 24.07's three revisions of
// one table and DGXC's identical runs differ by 1 to 3 %.
constexpr double kNoise = 0.02;

[[noreturn]] void several(const std::vector<MeasuredStep>& steps, const char* what,
                          const char* option, std::string (*of)(const MeasuredStep&)) {
  std::vector<Fault> faults;
  const std::string first = of(steps.front());
  for (const MeasuredStep& s : steps) {
    if (of(s) != first) {
      faults.push_back(
          {{s.file, s.line, 1},
           fmt::format("{} '{}' differs from '{}' of line {}; expected rows of one ({} "
                       "chooses)",
                       what, of(s), first, steps.front().line, option)});
    }
  }
  throw InputError(std::move(faults));
}

}  // namespace

std::string device_of(const MeasuredStep& s) { return s.job.cluster.device.name; }
std::string system_of(const MeasuredStep& s) { return s.job.system.name; }

result::SiteSkipped skip(const MeasuredStep& s, std::string reason) {
  return {s.id, s.file, s.line, std::move(reason)};
}

void choose(std::vector<MeasuredStep>& steps, SiteCalibration& out, const char* what,
            const char* option, const std::string& wanted, std::string (*of)(const MeasuredStep&)) {
  if (wanted.empty()) {
    if (std::any_of(steps.begin(), steps.end(),
                    [&](const MeasuredStep& s) { return of(s) != of(steps.front()); })) {
      several(steps, what, option, of);
    }
    return;
  }
  std::vector<MeasuredStep> kept;
  for (MeasuredStep& s : steps) {
    if (of(s) == wanted) {
      kept.push_back(std::move(s));
    } else {
      out.skipped.push_back(skip(s, fmt::format("its {} is '{}'", what, of(s))));
    }
  }
  steps = std::move(kept);
}

std::vector<RepeatedRun> group(const std::vector<MeasuredStep>& steps, SiteCalibration& out) {
  std::vector<RepeatedRun> groups;
  std::vector<std::vector<double>> seconds;
  std::map<std::string, std::size_t> at;
  for (const MeasuredStep& s : steps) {
    const auto [it, fresh] = at.try_emplace(config::to_json(s.job), groups.size());
    if (fresh) {
      groups.push_back({&s, 0, 0});
      seconds.emplace_back();
    }
    seconds[it->second].insert(seconds[it->second].end(), s.seconds.begin(), s.seconds.end());
  }
  double squares = 0;
  std::size_t free = 0;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    groups[i].measured = median(seconds[i]);
    groups[i].repeats = static_cast<int>(seconds[i].size());
    double mean = 0;
    for (const double s : seconds[i]) {
      mean += std::log(s) / static_cast<double>(seconds[i].size());
    }
    for (const double s : seconds[i]) {
      squares += (std::log(s) - mean) * (std::log(s) - mean);
    }
    free += seconds[i].size() - 1;
  }
  constexpr std::size_t kEnough = 2;
  constexpr double kMinScatter = 0.003;  // even consecutive steps of one run differ by this much
  out.noise_measured = free >= kEnough;
  out.noise = out.noise_measured
                  ? std::max(kMinScatter, std::sqrt(squares / static_cast<double>(free)))
                  : kNoise;
  return groups;
}

std::vector<std::string> structural(const std::vector<RepeatedRun>& groups) {
  std::vector<std::string> out(kParameters.size());
  const auto all = [&](auto&& holds) {
    return std::all_of(groups.begin(), groups.end(),
                       [&](const RepeatedRun& g) { return holds(g.step->job); });
  };
  auto& launch = out[static_cast<std::size_t>(SiteParameter::launch)];
  if (all([](const job::Job& j) { return j.system.launch_stated; })) {
    launch = "every row's job states system.launch";
  } else if (all([](const job::Job& j) { return job::graphs_step(j.kernels); })) {
    launch = "every row's job runs from CUDA graphs";
  }
  if (all([](const job::Job& j) { return j.system.layer_overhead_stated; })) {
    out[static_cast<std::size_t>(SiteParameter::layer)] =
        "every row's job states system.layer_overhead";
  }
  auto& fabric = out[static_cast<std::size_t>(SiteParameter::fabric)];
  if (all([](const job::Job& j) { return j.cluster.nodes == 1; })) {
    fabric = "every row is of a single node";
  } else {
    // Rows of one node do not depend on the fabric, so only rows of several nodes must have the
    // same.
    const RepeatedRun* network = nullptr;
    for (const RepeatedRun& g : groups) {
      if (g.step->job.cluster.nodes == 1) {
        continue;
      }
      if (network != nullptr &&
          g.step->job.cluster.fabric.name != network->step->job.cluster.fabric.name) {
        fabric =
            fmt::format("the rows are of different fabrics ('{}', '{}')",
                        network->step->job.cluster.fabric.name, g.step->job.cluster.fabric.name);
      }
      network = network == nullptr ? &g : network;
    }
  }
  return out;
}

std::string fabric_of(const std::vector<RepeatedRun>& groups) {
  for (const RepeatedRun& g : groups) {
    if (g.step->job.cluster.nodes > 1) {
      return g.step->job.cluster.fabric.name;
    }
  }
  return groups.front().step->job.cluster.fabric.name;
}

}  // namespace stepcast::calibrate
