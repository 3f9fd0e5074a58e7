// Turns a profile into a site calibration. The method is in this folder's README.
#include "stepcast/calibrate/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <set>

#include "device_names.h"
#include "runs_groups.h"
#include "runs_select.h"
#include "site_result.h"
#include "stepcast/base/diagnostics.h"
#include "stepcast/calibrate/profiled_work.h"
#include "stepcast/forecast/forecaster.h"
#include "stepcast/trace/explain.h"

namespace stepcast::calibrate {
namespace {

using cost::SiteParameter;
using result::SiteCalibration;

// A GPU's clock and a network's rate differ between runs of one job by about this much, whatever
// the steps of one profile show (relative standard deviations; that of steps: runs_groups.cpp).
constexpr double kProductNoise = 0.01;
constexpr double kTransferNoise = 0.03;
// What a device waits for its host is the small difference of two long times, the host's and its
// own, of which the host's varies by some per cent.
constexpr double kHostNoise = 0.05;
// What a forecast leaves out of a step beyond a site's factors (runs.cpp).
constexpr double kStepDiscrepancy = 0.03;
// A profile that waits for its host for less than this share of its steps says nothing about the
// host.
constexpr double kHostShare = 0.02;
// The fastest quarter of fewer calls says little about a call that nobody waited for.
constexpr std::int64_t kEnoughCalls = 8;

// Of the step: smaller sums say nothing.
constexpr double kLeastShare = 1e-3;

// A sum over a step that profile and forecast both have.
struct Quantity {
  enum class Kind { step, host, alone, beside, transfer };
  Kind kind = Kind::step;
  std::size_t rank = 0;
  std::string operation;  // of a transfer
  int group_size = 0;
  double measured = 0, sigma = 0;
  std::string id;
};

const char* quantity_words(Quantity::Kind kind) {
  switch (kind) {
    case Quantity::Kind::step:
      return "step";
    case Quantity::Kind::host:
      return "waiting for launches";
    case Quantity::Kind::alone:
      return "products alone";
    case Quantity::Kind::beside:
      return "products beside communication";
    case Quantity::Kind::transfer:
      return "";
  }
  return "";
}

// Forecasts with traces at points of the fit.
class TraceForecasts {
 public:
  TraceForecasts(const result::TraceProfile& profile, const job::Job& job,
                 const TraceSiteOptions& options, const std::filesystem::path& data)
      : profile_(profile), job_(job), options_(options), forecaster_(data) {}

  // nullopt: the job cannot be simulated, and why.
  std::optional<result::Report> at(const cost::Site& site, std::string* why = nullptr) {
    forecast::Options run;
    run.site = &site;
    run.trace = true;
    run.samples = -1;
    run.allocator = forecast::Allocator::rule;  // only times are compared
    auto outcome = forecaster_.forecast(job_, run);
    if (options_.progress) {
      options_.progress(++evaluations_);
    }
    if (const auto* infeasible = std::get_if<Infeasible>(&outcome)) {
      if (why != nullptr) {
        *why =
            fmt::format("the job cannot be simulated: {}: {}", infeasible->key, infeasible->reason);
      }
      return std::nullopt;
    }
    return std::get<result::Report>(std::move(outcome));
  }

  // Seconds of each quantity; 0: the forecast has no such work.
  std::vector<double> seconds(const std::vector<Quantity>& quantities,
                              const result::Report& report) const {
    std::map<int, trace::ProductSeconds> products;
    std::map<int, std::vector<trace::TransferSeconds>> transfers;
    std::vector<double> out;
    for (const Quantity& q : quantities) {
      const int stage = options_.stages[q.rank];
      if (!products.contains(stage)) {
        products[stage] = trace::forecast_products(report, stage).value_or(trace::ProductSeconds());
        transfers[stage] = trace::forecast_transfers(report, stage);
      }
      out.push_back(q.kind == Quantity::Kind::step     ? report.step_time.value
                    : q.kind == Quantity::Kind::host   ? waiting(report, stage)
                    : q.kind == Quantity::Kind::alone  ? products[stage].alone
                    : q.kind == Quantity::Kind::beside ? products[stage].beside
                                                       : transfer(q, transfers[stage]));
    }
    return out;
  }

  // Of each size that the profile has, the forecast's call of most nearly the same bytes.
  static const trace::TransferSeconds* alike(const result::TraceCollective& row,
                                             const std::vector<trace::TransferSeconds>& all) {
    constexpr double kSame = 0.02;  // buckets are padded
    const trace::TransferSeconds* best = nullptr;
    for (const trace::TransferSeconds& one : all) {
      const double off =
          std::abs(static_cast<double>(one.bytes) / static_cast<double>(row.bytes) - 1);
      if (one.operation == row.operation && one.group_size == row.group_size && off < kSame &&
          (best == nullptr ||
           std::abs(one.bytes - row.bytes) < std::abs(best->bytes - row.bytes))) {
        best = &one;
      }
    }
    return best;
  }

  static bool tells(const result::TraceCollective& row) {
    return row.compared || row.count >= kEnoughCalls;
  }

 private:
  // Logarithms want more than nothing.
  static double waiting(const result::Report& report, int stage) {
    double out = kLeastShare * report.step_time.value;
    for (const result::StageBreakdown& b : report.breakdown) {
      out = b.stage == stage ? std::max(out, to_seconds(b.host)) : out;
    }
    return out;
  }

  double transfer(const Quantity& q, const std::vector<trace::TransferSeconds>& all) const {
    double sum = 0;
    for (const result::TraceCollective& row : profile_.ranks[q.rank].collectives) {
      if (row.operation != q.operation || row.group_size != q.group_size || !tells(row)) {
        continue;
      }
      if (const auto* one = alike(row, all)) {
        sum += static_cast<double>(row.count) * (row.compared ? one->transfer : one->fast);
      }
    }
    return sum;
  }

  const result::TraceProfile& profile_;
  const job::Job& job_;
  const TraceSiteOptions& options_;
  forecast::Forecaster forecaster_;
  int evaluations_ = 0;
};

// Adds the sum of each operation in groups of each size whose calls the forecast has too.
void add_transfers(const result::TraceRank& rank, Quantity q,
                   const std::vector<trace::TransferSeconds>& forecast,
                   std::vector<Quantity>& out) {
  std::map<std::pair<std::string, int>, double> sums;
  for (const result::TraceCollective& row : rank.collectives) {
    if (TraceForecasts::tells(row) && TraceForecasts::alike(row, forecast) != nullptr) {
      sums[{row.operation, row.group_size}] +=
          static_cast<double>(row.count) * to_seconds(row.transfer);
    }
  }
  for (const auto& [key, seconds] : sums) {
    q.kind = Quantity::Kind::transfer;
    q.operation = key.first, q.group_size = key.second;
    q.measured = seconds;
    q.sigma = kTransferNoise;
    out.push_back(q);
  }
}

std::string rank_of(const result::TraceRank& rank) {
  return rank.rank < 0 ? rank.file : fmt::format("rank {}", rank.rank);
}

// What the profile measured of the job; ranks without steps of a device are skipped.
std::vector<Quantity> quantities_of(const result::TraceProfile& profile,
                                    const TraceSiteOptions& options, const result::Report& report,
                                    SiteCalibration& out) {
  std::vector<Quantity> all;
  for (std::size_t i = 0; i < profile.ranks.size(); ++i) {
    const result::TraceRank& rank = profile.ranks[i];
    const auto step = trace::measured_step(rank);
    if (!step || step->mean <= 0) {
      out.skipped.push_back({rank_of(rank), rank.file, 0, "holds no work of a device"});
      continue;
    }
    const double noise =
        std::max(kProductNoise, step->deviation / std::sqrt(std::max(1, step->steps)));
    out.noise = std::max(out.noise, noise);
    out.noise_measured = out.noise_measured || step->deviation > 0;
    trace::ProductSeconds sum;
    const auto products = trace::measured_products(rank);
    for (const trace::ProductSeconds& p : products) {
      sum.alone += p.alone / static_cast<double>(products.size());
      sum.beside += p.beside / static_cast<double>(products.size());
    }
    using Kind = Quantity::Kind;
    for (const auto& [kind, seconds, sigma] :
         {std::tuple(Kind::step, step->mean, std::hypot(noise, kStepDiscrepancy)),
          {Kind::alone, sum.alone, noise},
          {Kind::beside, sum.beside, noise}}) {
      all.push_back({kind, i, "", 0, seconds, sigma, ""});
    }
    if (step->host >= kHostShare * step->mean) {
      all.push_back({Kind::host, i, "", 0, step->host, kHostNoise, ""});
    }
    Quantity transfer;
    transfer.rank = i;
    add_transfers(rank, transfer, trace::forecast_transfers(report, options.stages[i]), all);
  }
  for (Quantity& q : all) {
    q.id = fmt::format("{}: {}", rank_of(profile.ranks[q.rank]),
                       q.kind == Quantity::Kind::transfer
                           ? fmt::format("{} of {}", q.operation, q.group_size)
                           : quantity_words(q.kind));
  }
  return all;
}

// Leaves out what the profile or the forecast does not have enough of.
void keep_common(std::vector<Quantity>& all, const std::vector<double>& forecast, double step,
                 const result::TraceProfile& profile, SiteCalibration& out) {
  const double least = kLeastShare * step;
  std::vector<Quantity> kept;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Quantity& q = all[i];
    const bool measured = q.measured > least;
    const bool known = forecast[i] > least || q.kind == Quantity::Kind::host;
    if (measured && known) {
      kept.push_back(q);
    } else if (measured || known) {
      out.skipped.push_back({q.id, profile.ranks[q.rank].file, 0,
                             measured ? "the forecast has less than 0.1 % of a step of it"
                                      : "the profile has less than 0.1 % of a step of it"});
    }
  }
  all = std::move(kept);
}

// Why a parameter cannot follow from this profile, known before any fit.
std::vector<std::string> reasons_of(const result::TraceProfile& profile, const job::Job& job,
                                    const std::vector<Quantity>& quantities) {
  std::vector<std::string> out(kParameters.size());
  const auto hold = [&](SiteParameter p, std::string why) {
    out[static_cast<std::size_t>(p)] = std::move(why);
  };
  double share = 0;
  for (const result::TraceRank& rank : profile.ranks) {
    if (const auto step = trace::measured_step(rank); step && step->mean > 0) {
      share = std::max(share, step->host / step->mean);
    }
  }
  if (share < kHostShare) {
    const std::string why = fmt::format(
        "the profile waits for its host in {:.1f} % of its steps; at least {:.0f} % show it",
        100 * share, 100 * kHostShare);
    hold(SiteParameter::launch, why);
    hold(SiteParameter::layer, why);
  }
  const auto has = [&](Quantity::Kind kind) {
    return std::any_of(quantities.begin(), quantities.end(),
                       [&](const Quantity& q) { return q.kind == kind; });
  };
  if (!has(Quantity::Kind::beside)) {
    hold(SiteParameter::overlap, "no products run beside communication");
  }
  if (job.cluster.nodes == 1) {
    hold(SiteParameter::fabric, "the profile is of a single node");
  } else if (!has(Quantity::Kind::transfer)) {
    hold(SiteParameter::fabric,
         "no collective's time without waiting is known: the trace records no bytes of NCCL's "
         "calls, or other sizes than the forecast");
  }
  return out;
}

Vector logarithms(const std::vector<double>& values) {
  Vector out(static_cast<Eigen::Index>(values.size()));
  for (std::size_t i = 0; i < values.size(); ++i) {
    out[static_cast<Eigen::Index>(i)] = std::log(std::max(values[i], 1e-12));
  }
  return out;
}

FitProblem trace_problem(const std::vector<Quantity>& quantities, const Priors& priors,
                         TraceForecasts& forecasts, const SiteCalibration& out) {
  FitProblem problem;
  problem.forecasts = [&quantities, &priors, &forecasts, &out,
                       known = std::make_shared<std::map<std::vector<double>, Vector>>()](
                          const Vector& x) {
    const std::vector<double> key(x.data(), x.data() + x.size());
    if (const auto at = known->find(key); at != known->end()) {
      return at->second;
    }
    const auto report = forecasts.at(site_at(out, priors, x, nullptr));
    STEPCAST_CHECK(report.has_value(), "a job that could be simulated before cannot be now");
    return known->emplace(key, logarithms(forecasts.seconds(quantities, *report))).first->second;
  };
  std::vector<double> measured;
  problem.sigma.resize(static_cast<Eigen::Index>(quantities.size()));
  for (std::size_t i = 0; i < quantities.size(); ++i) {
    measured.push_back(quantities[i].measured);
    problem.sigma[static_cast<Eigen::Index>(i)] = quantities[i].sigma;
  }
  problem.measured = logarithms(measured);
  priors.bounds(problem.low, problem.high);
  return problem;
}

void fill_trace_rows(const std::vector<Quantity>& quantities, const FitProblem& problem,
                     const Selected& selected, const result::TraceProfile& profile, int gpus,
                     SiteCalibration& out) {
  const Vector before = problem.forecasts(Vector::Zero(selected.fit.x.size()));
  std::vector<double> over_before, over_after;
  for (std::size_t i = 0; i < quantities.size(); ++i) {
    const auto at = static_cast<Eigen::Index>(i);
    result::SiteRow row;
    row.id = quantities[i].id;
    row.file = profile.ranks[quantities[i].rank].file;
    row.gpus = gpus;
    row.measured = quantities[i].measured;
    row.before = std::exp(before[at]);
    row.after = row.measured * std::exp(selected.fit.residual[at]);
    row.weight = selected.fit.weight[at];
    over_before.push_back(row.before / row.measured);
    over_after.push_back(row.after / row.measured);
    out.rows.push_back(row);
  }
  out.before = error_of(over_before);
  out.after = error_of(over_after);
}

// The largest error of a step and, of the product sums, the largest: whichever the factors could
// not remove will be there in other steps too.
double remaining(const std::vector<Quantity>& quantities, const SiteCalibration& out) {
  double worst = kStepDiscrepancy;
  for (std::size_t i = 0; i < quantities.size(); ++i) {
    if (quantities[i].kind != Quantity::Kind::transfer &&
        quantities[i].kind != Quantity::Kind::host) {
      worst = std::max(worst, std::abs(out.rows[i].after / out.rows[i].measured - 1));
    }
  }
  return std::min(worst, 1.0);
}

std::string step_errors(const std::vector<Quantity>& quantities, const SiteCalibration& out) {
  double before = 0, after = 0;
  for (std::size_t i = 0; i < quantities.size(); ++i) {
    const result::SiteRow& row = out.rows[i];
    if (quantities[i].kind == Quantity::Kind::step &&
        std::abs(row.before / row.measured - 1) > std::abs(before)) {
      before = row.before / row.measured - 1;
      after = row.after / row.measured - 1;
    }
  }
  return fmt::format("its step {:+.1f} % off before, {:+.1f} % after", 100 * before, 100 * after);
}

// Why nothing was fitted. No site's clock, host or network, which differ by some per cent to tens
// of them (runs_prior.cpp), makes a step half as long again: such a profile is another job's.
std::string nothing_determined(const std::vector<Quantity>& quantities,
                               const SiteCalibration& out) {
  constexpr double kOtherJob = 1.5;
  std::string words = "the profile determines no parameter";
  for (std::size_t i = 0; i < quantities.size(); ++i) {
    const double ratio = out.rows[i].measured / out.rows[i].before;
    if (quantities[i].kind == Quantity::Kind::step &&
        (ratio > kOtherJob || ratio < 1 / kOtherJob)) {
      return fmt::format(
          "{}: its step takes {:.3g} times the {:.3g} s that are forecast, more "
          "than a site explains; is it a profile of this job?",
          words, ratio, out.rows[i].before);
    }
  }
  return words;
}

}  // namespace

bool may_be_of(const result::TraceRank& rank, const job::Job& job) {
  const std::vector<hardware::DeviceNodes> devices = hardware::device_nodes(job.cluster);
  return std::any_of(devices.begin(), devices.end(), [&](const hardware::DeviceNodes& d) {
    return may_be(rank.device, d.device->name);
  });
}

SiteCalibration calibrate_trace(const result::TraceProfile& profile, const job::Job& job,
                                const TraceSiteOptions& options,
                                const std::filesystem::path& data_directory) {
  SiteCalibration out;
  out.name = options.name;
  out.device = job.cluster.device.name;
  out.system = job.system.name;
  out.fabric = job.cluster.fabric.name;
  TraceForecasts forecasts(profile, job, options, data_directory);
  const Priors priors(job.system);
  const Vector start = Vector::Zero(static_cast<Eigen::Index>(kParameters.size()));
  const auto report = forecasts.at(site_at(out, priors, start, nullptr), &out.refused);
  if (!report) {
    return out;
  }
  for (std::size_t i = 0; i < profile.ranks.size(); ++i) {
    const result::TraceRank& rank = profile.ranks[i];
    const auto work = profiled_work(rank, job, *report, options.stages[i]);
    if (const WorkVerdict verdict = work ? judge_work(*work, job) : WorkVerdict();
        !verdict.refused.empty()) {
      throw InputError(
          Fault{{rank.file, 0, 0}, verdict.refused + "; expected a profile of this job"});
    }
  }
  std::vector<Quantity> quantities = quantities_of(profile, options, *report, out);
  keep_common(quantities, forecasts.seconds(quantities, *report), report->step_time.value, profile,
              out);
  if (quantities.empty()) {
    out.refused = "profile and forecast have no work in common";
    return out;
  }
  FitProblem problem = trace_problem(quantities, priors, forecasts, out);
  const Selected selected = select(problem, priors, reasons_of(profile, job, quantities));
  cost::Site site = site_at(out, priors, selected.fit.x, &selected.active);
  fill_deviations(selected, priors, site);
  fill_trace_rows(quantities, problem, selected, profile, job.cluster.ranks(), out);
  fill_parameters(selected, priors, site, out);
  site.scatter = out.discrepancy = remaining(quantities, out);
  out.refused = selected.determined.empty() ? nothing_determined(quantities, out) : "";
  if (out.refused.empty()) {
    site.provenance = fmt::format("profile of {} rank{} on {} GPUs; {}", profile.ranks.size(),
                                  profile.ranks.size() == 1 ? "" : "s", job.cluster.ranks(),
                                  step_errors(quantities, out));
    out.yaml = cost::to_yaml(site);
  }
  return out;
}

}  // namespace stepcast::calibrate
