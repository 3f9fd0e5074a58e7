// Turns measured steps into a site calibration. The method is in this folder's README.
#include "stepcast/calibrate/runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <set>

#include "runs_fit.h"
#include "runs_forecasts.h"
#include "runs_groups.h"
#include "runs_prior.h"
#include "runs_select.h"
#include "site_result.h"
#include "stepcast/base/statistics.h"

namespace stepcast::calibrate {
namespace {

using result::MeasuredStep;
using result::SiteCalibration;

// Relative error of a forecast beyond a site's factors: the errors of a dozen GEMM shapes, each 5 %
// (held-out residuals in calibration/*/gemm-*.yaml), averaged over a step.
constexpr double kDiscrepancy = 0.03;

// Forecasts the rows that the fit does not use, without and with the site.
void check(const std::vector<MeasuredStep>& steps, const cost::Site& plain, const cost::Site& site,
           RowForecasts& forecasts, SiteCalibration& out) {
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

// Returns the rows whose jobs can be simulated; the others are skipped, each with its reason.
std::vector<MeasuredStep> usable_of(const std::vector<MeasuredStep>& steps, const cost::Site& plain,
                                    RowForecasts& forecasts, SiteCalibration& out) {
  std::vector<const job::Job*> jobs;
  for (const MeasuredStep& s : steps) {
    jobs.push_back(&s.job);
  }
  const auto reports = forecasts.run(jobs, plain);
  std::vector<MeasuredStep> usable;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (const auto* why = std::get_if<std::string>(&reports[i])) {
      out.skipped.push_back(skip(steps[i], *why));
    } else {
      usable.push_back(steps[i]);
    }
  }
  return usable;
}

// The measured steps as a problem of least squares in logarithms. It refers to all its arguments.
FitProblem problem_of(const std::vector<RepeatedRun>& groups, const Priors& priors,
                      RowForecasts& forecasts, const SiteCalibration& out) {
  FitProblem problem;
  std::vector<const job::Job*> jobs;
  for (const RepeatedRun& g : groups) {
    jobs.push_back(&g.step->job);
  }
  // The same point is forecast only once.
  problem.forecasts =
      [jobs, &priors, &forecasts, &out,
       known = std::make_shared<std::map<std::vector<double>, Vector>>()](const Vector& x) {
        const std::vector<double> key(x.data(), x.data() + x.size());
        if (const auto at = known->find(key); at != known->end()) {
          return at->second;
        }
        const auto reports = forecasts.run(jobs, site_at(out, priors, x, nullptr));
        Vector steps_at(static_cast<Eigen::Index>(reports.size()));
        for (std::size_t i = 0; i < reports.size(); ++i) {
          const auto* report = std::get_if<result::Report>(&reports[i]);
          STEPCAST_CHECK(report != nullptr, "a row that could be simulated before cannot be now");
          steps_at[static_cast<Eigen::Index>(i)] = std::log(report->step_time.value);
        }
        known->emplace(key, steps_at);
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
  return problem;
}

// From three rows on, each is also forecast by a fit without it.
constexpr Eigen::Index kEnoughToLeaveOut = 3;

// Fills every row with its forecasts before and after the fit and by the fit without it; then the
// errors over all rows.
void fill_rows(const std::vector<RepeatedRun>& groups, const FitProblem& problem,
               const Selected& selected, SiteCalibration& out) {
  const Fit& fit = selected.fit;
  const auto n = static_cast<Eigen::Index>(groups.size());
  const Vector before = problem.forecasts(Vector::Zero(fit.x.size()));
  const Vector left = selected.determined.empty() ? Vector(fit.residual)
                                                  : left_out(problem, fit, selected.determined);
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
    row.left_out = n >= kEnoughToLeaveOut ? g.measured * std::exp(left[i]) : 0;
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
  if (n >= kEnoughToLeaveOut) {
    out.left_out = over(&result::SiteRow::left_out);
  }
}

// The reason that the fit is refused; empty: it is accepted.
std::string refusal_of(const Selected& selected, const SiteCalibration& out) {
  // Rows that the model does not describe distort the parameters. A fit that does not improve the
  // forecasts of rows left out of it does not improve other forecasts.
  constexpr double kWorse = 1.1;
  constexpr double kNoticed = 0.005;
  if (static_cast<Eigen::Index>(out.rows.size()) >= kEnoughToLeaveOut &&
      out.left_out.median > kWorse * out.before.median + kNoticed) {
    return fmt::format(
        "the parameters do not describe these rows: the median error of a row left out of the fit "
        "is {:.1f} %, without any fit {:.1f} %",
        100 * out.left_out.median, 100 * out.before.median);
  }
  return selected.determined.empty() ? "the rows determine no parameter" : "";
}

std::string provenance_of(const std::vector<MeasuredStep>& usable, const SiteCalibration& out) {
  std::string text = fmt::format(
      "{} measured steps on {}{}; median error {:.1f} % before, {:.1f} % after", out.rows.size(),
      gpu_counts(out.rows), dates(usable), 100 * out.before.median, 100 * out.after.median);
  if (static_cast<Eigen::Index>(out.rows.size()) >= kEnoughToLeaveOut) {
    text += fmt::format(", {:.1f} % of rows left out", 100 * out.left_out.median);
  }
  return text;
}

}  // namespace

SiteCalibration calibrate_runs(std::vector<MeasuredStep> steps, const SiteOptions& options,
                               const std::filesystem::path& data_directory) {
  SiteCalibration out;
  out.name = options.name;
  choose(steps, out, "device", "--device", options.device, device_of);
  choose(steps, out, "training system", "--system", options.system, system_of);

  RowForecasts forecasts(data_directory, options.progress);
  cost::Site plain;
  if (!steps.empty()) {
    plain.system = system_of(steps.front());
  }
  const std::vector<MeasuredStep> usable = usable_of(steps, plain, forecasts, out);
  const std::vector<RepeatedRun> groups = group(usable, out);
  if (!groups.empty()) {
    out.device = device_of(usable.front());
    out.system = system_of(usable.front());
    out.fabric = fabric_of(groups);
  }
  if (groups.size() < 2) {
    out.refused = fmt::format(
        "{} usable {} of different jobs; at least 2 are needed to separate a site's factors from "
        "the error of one job",
        groups.size(), groups.size() == 1 ? "row" : "rows");
    return out;
  }

  const Priors priors(groups.front().step->job.system);
  FitProblem problem = problem_of(groups, priors, forecasts, out);
  // select() may raise the deviations of the rows to their scatter.
  const Selected selected = select(problem, priors, structural(groups));
  const Vector& sigma = problem.sigma;
  out.discrepancy = median(std::vector<double>(sigma.data(), sigma.data() + sigma.size())) *
                    scatter(problem, selected.fit, selected.active);

  cost::Site site = site_at(out, priors, selected.fit.x, &selected.active);
  site.scatter = out.discrepancy;
  fill_deviations(selected, priors, site);
  fill_rows(groups, problem, selected, out);
  fill_parameters(selected, priors, site, out);
  check(options.check, plain, site, forecasts, out);
  out.refused = refusal_of(selected, out);
  if (out.refused.empty()) {
    site.provenance = provenance_of(usable, out);
    out.yaml = cost::to_yaml(site);
  }
  return out;
}

}  // namespace stepcast::calibrate
