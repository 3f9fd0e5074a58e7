// From measured steps to a site calibration. The method stands in this folder's README.
#include "stepcast/calibrate/runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <map>
#include <memory>
#include <set>
#include <thread>

#include "runs_fit.h"
#include "runs_prior.h"
#include "runs_select.h"
#include "stepcast/base/median.h"
#include "stepcast/config/config.h"
#include "stepcast/forecast/forecaster.h"

namespace stepcast::calibrate {
namespace {

using cost::SiteParameter;
using result::MeasuredStep;
using result::SiteCalibration;

// Run-to-run scatter of one measured step where no row is repeated: NeMo 24.07's three revisions of
// one table and DGXC's identical runs differ by 1 to 3 %.
constexpr double kNoise = 0.02;
// What a forecast is off by beyond a site's factors: the errors of a dozen GEMM shapes, each 5 %
// (held-out residuals in calibration/*/gemm-*.yaml), averaged over a step.
constexpr double kDiscrepancy = 0.03;

struct RepeatedRun {
  const MeasuredStep* step = nullptr;
  double measured = 0;  // seconds
  int repeats = 1;
};

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

std::string device_of(const MeasuredStep& s) { return s.job.cluster.device.name; }
std::string system_of(const MeasuredStep& s) { return s.job.system.name; }

result::SiteSkipped skip(const MeasuredStep& s, std::string reason) {
  return {s.id, s.file, s.line, std::move(reason)};
}

// Rows that an option asks for; all must agree where it does not.
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

// Forecasts of all rows at once, a Forecaster a thread.
class Steps {
 public:
  Steps(const std::filesystem::path& data, std::function<void(int)> progress)
      : progress_(std::move(progress)) {
    const unsigned threads = std::clamp(std::thread::hardware_concurrency(), 1U, 16U);
    for (unsigned i = 0; i < threads; ++i) {
      forecasters_.push_back(std::make_unique<forecast::Forecaster>(data));
    }
  }

  // Seconds, or why there are none.
  using Result = std::variant<result::Report, std::string>;
  std::vector<Result> run(const std::vector<const job::Job*>& jobs, const cost::Site& site) {
    std::vector<Result> out(jobs.size(), std::string());
    std::atomic<std::size_t> next{0};
    std::vector<std::exception_ptr> errors(forecasters_.size());
    const auto work = [&](std::size_t thread) {
      try {
        for (std::size_t i = next++; i < jobs.size(); i = next++) {
          out[i] = one(*forecasters_[thread], *jobs[i], site);
        }
      } catch (...) {
        errors[thread] = std::current_exception();
      }
    };
    std::vector<std::thread> threads;
    for (std::size_t t = 1; t < std::min(forecasters_.size(), jobs.size()); ++t) {
      threads.emplace_back(work, t);
    }
    work(0);
    for (std::thread& t : threads) {
      t.join();
    }
    for (const auto& error : errors) {
      if (error) {
        std::rethrow_exception(error);
      }
    }
    if (progress_) {
      progress_(++evaluations_);
    }
    return out;
  }

 private:
  static Result one(forecast::Forecaster& forecaster, const job::Job& job, const cost::Site& site) {
    try {
      forecast::Options options;
      options.site = &site;
      options.allocator = forecast::Allocator::rule;  // times alone are compared
      auto outcome = forecaster.forecast(job, options);
      if (const auto* why = std::get_if<Infeasible>(&outcome)) {
        return fmt::format("cannot be simulated: {}: {}", why->key, why->reason);
      }
      return std::get<result::Report>(std::move(outcome));
    } catch (const InputError&) {
      throw;  // a calibration file is at fault, not the row
    } catch (const std::exception& error) {
      const std::string text = error.what();
      return fmt::format("cannot be simulated: {}", text.substr(0, text.find('\n')));
    }
  }

  std::vector<std::unique_ptr<forecast::Forecaster>> forecasters_;
  std::function<void(int)> progress_;
  int evaluations_ = 0;
};

// Rows of one job are repeats. Noise of a single run from them, where there are enough.
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
  constexpr double kLeast = 0.003;  // even back-to-back steps of one run differ by so much
  out.noise_measured = free >= kEnough;
  out.noise = out.noise_measured ? std::max(kLeast, std::sqrt(squares / static_cast<double>(free)))
                                 : kNoise;
  return groups;
}

result::SiteError error_of(const std::vector<double>& forecast_over_measured) {
  std::vector<double> absolute, relative;
  for (const double q : forecast_over_measured) {
    relative.push_back(q - 1);
    absolute.push_back(std::abs(q - 1));
  }
  return {median(absolute),
          absolute.empty() ? 0 : *std::max_element(absolute.begin(), absolute.end()),
          median(relative)};
}

// Rows that the fit did not see, without and with the site.
void check(const std::vector<MeasuredStep>& steps, const cost::Site& plain, const cost::Site& site,
           Steps& forecasts, SiteCalibration& out) {
  std::vector<const job::Job*> jobs;
  std::vector<const MeasuredStep*> rows;
  for (const MeasuredStep& s : steps) {
    if (device_of(s) != out.device || system_of(s) != out.system) {
      out.skipped.push_back(skip(s, "a row to check is of another device or training system"));
      continue;
    }
    rows.push_back(&s);
    jobs.push_back(&s.job);
  }
  const auto before = forecasts.run(jobs, plain);
  const auto after = forecasts.run(jobs, site);
  std::vector<double> over_before, over_after;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto* b = std::get_if<result::Report>(&before[i]);
    const auto* a = std::get_if<result::Report>(&after[i]);
    if (a == nullptr || b == nullptr) {
      out.skipped.push_back(
          skip(*rows[i], std::get<std::string>(a == nullptr ? after[i] : before[i])));
      continue;
    }
    result::SiteCheck row;
    row.id = rows[i]->id;
    row.file = rows[i]->file;
    row.line = rows[i]->line;
    row.gpus = rows[i]->job.cluster.ranks();
    row.measured = median(rows[i]->seconds);
    const auto inside = [&](const result::Estimate& e) {
      return row.measured >= e.low && row.measured <= e.high ? 1.0 : 0.0;
    };
    row.before = b->step_time.value;
    row.before_low = b->step_time.low;
    row.before_high = b->step_time.high;
    row.after = a->step_time.value;
    row.after_low = a->step_time.low;
    row.after_high = a->step_time.high;
    over_before.push_back(row.before / row.measured);
    over_after.push_back(row.after / row.measured);
    out.covered_before += inside(b->step_time);
    out.covered_after += inside(a->step_time);
    out.checks.push_back(row);
  }
  if (!out.checks.empty()) {
    out.covered_before /= static_cast<double>(out.checks.size());
    out.covered_after /= static_cast<double>(out.checks.size());
  }
  out.check_before = error_of(over_before);
  out.check_after = error_of(over_after);
}

std::string gpu_counts(const std::vector<result::SiteRow>& rows) {
  int least = rows.front().gpus;
  int most = least;
  for (const auto& r : rows) {
    least = std::min(least, r.gpus);
    most = std::max(most, r.gpus);
  }
  return least == most ? fmt::format("{} GPUs", least) : fmt::format("{} to {} GPUs", least, most);
}

std::string dates(const std::vector<MeasuredStep>& steps) {
  std::set<std::string> all;
  for (const auto& s : steps) {
    if (!s.date.empty()) {
      all.insert(s.date);
    }
  }
  return all.empty()       ? ""
         : all.size() == 1 ? fmt::format(", {}", *all.begin())
                           : fmt::format(", {} to {}", *all.begin(), *all.rbegin());
}

// Parameters that the rows' jobs rule out before anything is fitted.
std::vector<std::string> structural(const std::vector<RepeatedRun>& groups) {
  std::vector<std::string> out(kParameters.size());
  const auto all = [&](auto&& holds) {
    return std::all_of(groups.begin(), groups.end(),
                       [&](const RepeatedRun& g) { return holds(g.step->job); });
  };
  auto& launch = out[static_cast<std::size_t>(SiteParameter::launch)];
  if (all([](const job::Job& j) { return j.system.launch_stated; })) {
    launch = "every row's job states system.launch";
  } else if (all([](const job::Job& j) { return j.kernels.cuda_graph; })) {
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
    // One node of any fabric says nothing about it: only rows of several nodes must agree.
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

}  // namespace

SiteCalibration calibrate_runs(std::vector<MeasuredStep> steps, const SiteOptions& options,
                               const std::filesystem::path& data_directory) {
  SiteCalibration out;
  out.name = options.name;
  choose(steps, out, "device", "--device", options.device, device_of);
  choose(steps, out, "training system", "--system", options.system, system_of);

  Steps forecasts(data_directory, options.progress);
  cost::Site plain;
  if (!steps.empty()) {
    plain.system = system_of(steps.front());
  }
  std::vector<MeasuredStep> usable;
  std::vector<const job::Job*> jobs;
  for (const MeasuredStep& s : steps) {
    jobs.push_back(&s.job);
  }
  const auto first = forecasts.run(jobs, plain);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (const auto* why = std::get_if<std::string>(&first[i])) {
      out.skipped.push_back(skip(steps[i], *why));
    } else {
      usable.push_back(steps[i]);
    }
  }
  const std::vector<RepeatedRun> groups = group(usable, out);
  if (!groups.empty()) {
    out.device = device_of(usable.front());
    out.system = system_of(usable.front());
    out.fabric = fabric_of(groups);
  }
  if (groups.size() < 2) {
    out.refused = fmt::format(
        "{} usable {} of different jobs; at least 2 are needed to tell a site's factors from one "
        "job's own error",
        groups.size(), groups.size() == 1 ? "row" : "rows");
    return out;
  }

  jobs.clear();
  for (const RepeatedRun& g : groups) {
    jobs.push_back(&g.step->job);
  }
  const Priors priors(groups.front().step->job.system);
  const auto site_at = [&](const Vector& x, const std::vector<bool>* only) {
    cost::Site site;
    site.name = options.name;
    site.devices = {out.device};
    site.system = out.system;
    site.fabric = out.fabric;
    for (std::size_t i = 0; i < kParameters.size(); ++i) {
      cost::SiteValue& v = site[kParameters[i]];
      v.prior = priors.value(kParameters[i], 0);
      const bool moves = only == nullptr ? x[static_cast<Eigen::Index>(i)] != 0 : (*only)[i];
      v.value = moves ? priors.value(kParameters[i], x[static_cast<Eigen::Index>(i)]) : v.prior;
      v.determined = moves;
    }
    return site;
  };
  std::map<std::vector<double>, Vector> known;  // the same point is asked for more than once
  FitProblem problem;
  problem.forecasts = [&](const Vector& x) {
    const std::vector<double> key(x.data(), x.data() + x.size());
    if (const auto at = known.find(key); at != known.end()) {
      return at->second;
    }
    const auto reports = forecasts.run(jobs, site_at(x, nullptr));
    Vector steps_at(static_cast<Eigen::Index>(reports.size()));
    for (std::size_t i = 0; i < reports.size(); ++i) {
      const auto* report = std::get_if<result::Report>(&reports[i]);
      STEPCAST_CHECK(report != nullptr, "a row that was simulated no longer is");
      steps_at[static_cast<Eigen::Index>(i)] = std::log(report->step_time.value);
    }
    known.emplace(key, steps_at);
    return steps_at;
  };
  const auto n = static_cast<Eigen::Index>(groups.size());
  problem.measured.resize(n);
  problem.sigma.resize(n);
  for (Eigen::Index i = 0; i < n; ++i) {
    const RepeatedRun& g = groups[static_cast<std::size_t>(i)];
    problem.measured[i] = std::log(g.measured);
    problem.sigma[i] = std::hypot(out.noise / std::sqrt(g.repeats), kDiscrepancy);
  }
  priors.bounds(problem.low, problem.high);

  const Selected selected = select(problem, priors, structural(groups));
  const Fit& fit = selected.fit;
  const auto& determined = selected.determined;
  out.discrepancy = median(std::vector<double>(problem.sigma.data(), problem.sigma.data() + n)) *
                    scatter(problem, fit, selected.active);

  cost::Site site = site_at(fit.x, &selected.active);
  site.scatter = out.discrepancy;
  const auto& kept = selected.known;
  for (std::size_t a = 0; a < kept.size(); ++a) {
    const auto ia = static_cast<std::size_t>(kept[a]);
    const auto index = static_cast<Eigen::Index>(a);
    const double deviation = std::sqrt(selected.covariance(index, index));
    site.values[ia].deviation = deviation * priors.deviation(kParameters[ia]);
    for (std::size_t b = 0; b < kept.size(); ++b) {
      const auto other = static_cast<Eigen::Index>(b);
      site.correlation[ia][static_cast<std::size_t>(kept[b])] =
          selected.covariance(index, other) /
          (deviation * std::sqrt(selected.covariance(other, other)));
    }
  }
  const Vector before = problem.forecasts(Vector::Zero(fit.x.size()));
  const Vector left =
      determined.empty() ? Vector(fit.residual) : left_out(problem, fit, determined);
  for (Eigen::Index i = 0; i < n; ++i) {
    const RepeatedRun& g = groups[static_cast<std::size_t>(i)];
    result::SiteRow row;
    row.id = g.step->id;
    row.file = g.step->file;
    row.line = g.step->line;
    row.gpus = g.step->job.cluster.ranks();
    row.repeats = g.repeats;
    row.measured = g.measured;
    row.before = std::exp(before[i]);
    row.after = g.measured * std::exp(fit.residual[i]);
    row.left_out = n >= 3 ? g.measured * std::exp(left[i]) : 0;
    row.weight = fit.weight[i];
    out.rows.push_back(row);
  }
  const auto over = [&](double result::SiteRow::*which) {
    std::vector<double> q;
    for (const auto& r : out.rows) {
      q.push_back(r.*which / r.measured);
    }
    return error_of(q);
  };
  out.before = over(&result::SiteRow::before);
  out.after = over(&result::SiteRow::after);
  if (n >= 3) {
    out.left_out = over(&result::SiteRow::left_out);
  }
  for (std::size_t i = 0; i < kParameters.size(); ++i) {
    cost::SiteValue& v = site.values[i];
    v.reason = selected.reasons[i];
    out.parameters.push_back(
        {to_string(kParameters[i]), describe(kParameters[i]), Priors::in_seconds(kParameters[i]),
         v.prior, v.value, priors.deviation(kParameters[i]), v.deviation, v.determined, v.reason});
  }
  check(options.check, plain, site, forecasts, out);
  // Rows that the law does not describe pull its parameters about: what does not help rows that the
  // fit did not see does not help a forecast.
  constexpr double kWorse = 1.1;
  constexpr double kNoticed = 0.005;
  if (n >= 3 && out.left_out.median > kWorse * out.before.median + kNoticed) {
    out.refused = fmt::format(
        "the parameters do not describe these rows: the median error of a row left out of the fit "
        "is "
        "{:.1f} %, without any fit {:.1f} %",
        100 * out.left_out.median, 100 * out.before.median);
    return out;
  }
  if (determined.empty()) {
    out.refused = "the rows determine no parameter";
    return out;
  }
  site.provenance = fmt::format(
      "{} measured steps on {}{}; median error {:.1f} % before, {:.1f} % after", out.rows.size(),
      gpu_counts(out.rows), dates(usable), 100 * out.before.median, 100 * out.after.median);
  if (n >= 3) {
    site.provenance += fmt::format(", {:.1f} % of rows left out", 100 * out.left_out.median);
  }
  out.yaml = cost::to_yaml(site);
  return out;
}

}  // namespace stepcast::calibrate
