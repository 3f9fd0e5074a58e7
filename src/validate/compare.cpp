#include "stepcast/validate/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "operator_rows.h"
#include "stepcast/base/interval.h"

namespace stepcast::validate {
namespace {

using result::ValidationRow;
using runs::Quantity;

constexpr const char* kRecompute = "memory.recompute";

// Reasons to leave a run out. An accepted one says that the run lies outside what is modelled; the
// other is a fault of the job or of this program until somebody shows which.
constexpr const char* kOperator = "operator";
constexpr const char* kNotPossible = "not possible";
struct SkipReason {
  const char* kind;
  const char* meaning;
  bool accepted;
};
constexpr SkipReason kSkipReasons[] = {
    {kOperator, "the run measures an operator that no layer has", true},
    {kNotPossible, "the job is at fault, contradicts itself or cannot be simulated", false},
};

// The results' name of a quantity: one name for all rates of throughput, whatever they count.
std::string metric_of(Quantity q) {
  switch (q) {
    case Quantity::tokens_per_second:
    case Quantity::tokens_per_second_per_gpu:
    case Quantity::sequences_per_second:
    case Quantity::sequences_per_second_per_gpu:
    case Quantity::model_flops_per_second_per_gpu:
      return "throughput";
    case Quantity::experts_time:
      return to_string(Quantity::layer_time);
    case Quantity::experts_forward_time:
      return to_string(Quantity::layer_forward_time);
    case Quantity::experts_backward_time:
      return to_string(Quantity::layer_backward_time);
    case Quantity::outcome:
      return "oom";
    default:
      return to_string(q);
  }
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

// The first quantity of the run that is of a layer by itself; nullptr: none is.
const runs::Measurement* layer_measurement(const runs::Run& run) {
  const auto found =
      std::find_if(run.measured.begin(), run.measured.end(),
                   [](const runs::Measurement& m) { return runs::is_of_layer(m.quantity); });
  return found == run.measured.end() ? nullptr : &*found;
}

std::optional<forecast::Forecaster::LayerTime> layer_of(forecast::Forecaster& forecaster,
                                                        const runs::Run& run, const job::Job& job) {
  const runs::Measurement* measured = layer_measurement(run);
  if (measured == nullptr) {
    return std::nullopt;
  }
  auto layer =
      forecaster.layer_time(job, runs::is_of_experts(measured->quantity) ? lower::LayerPart::experts
                                                                         : lower::LayerPart::whole);
  const auto* times = std::get_if<forecast::Forecaster::LayerTime>(&layer);
  return times == nullptr ? std::nullopt : std::optional(*times);
}

std::variant<RunForecast, Refused> forecast_with(forecast::Forecaster& forecaster,
                                                 const runs::Run& run,
                                                 const std::vector<std::string>& overrides) {
  RunForecast out;
  try {
    runs::stated_job(run, overrides);
  } catch (const InputError& error) {
    return Refused{error.faults().front().message, error.faults()};
  }
  try {
    out.job = runs::job_of(run, overrides).job;
  } catch (const InputError& error) {
    return Refused{error.faults().front().message};
  }
  try {
    auto report = forecaster.forecast(out.job);
    if (const auto* why = std::get_if<Infeasible>(&report)) {
      return Refused{fmt::format("{}: {}", why->key, why->reason)};
    }
    out.report = std::get<result::Report>(std::move(report));
    out.layer = layer_of(forecaster, run, out.job);
    return out;
  } catch (const InputError&) {
    throw;  // a calibration file is at fault, not the run
  } catch (const std::exception& error) {
    return Refused{first_line(error.what())};
  }
}

void skip(ValidationRow& row, const char* kind, const std::string& detail) {
  row.status = "skipped";
  row.reason = fmt::format("{}: {}", kind, detail);
  for (const SkipReason& reason : kSkipReasons) {
    if (std::string_view(reason.kind) == kind) {
      row.accepted = reason.accepted;
    }
  }
}

// Example: "compute 71 %, tensor 20 %; least sure of gemm bf16 (64 % of the variance)".
std::string why(const result::Report& report) {
  constexpr std::size_t kParts = 3;
  std::string out;
  const double step = report.step_time.value;
  for (std::size_t i = 0; i < std::min(kParts, report.critical_path.size()); ++i) {
    const result::PathShare& p = report.critical_path[i];
    out += fmt::format("{}{} {:.0f} %", i > 0 ? ", " : "", p.category, 100 * p.seconds / step);
  }
  double variance = 0;
  for (const result::Doubt& d : report.doubts) {
    variance += d.added() * d.added();
  }
  if (variance > 0) {
    const result::Doubt& most = report.doubts.front();
    out += fmt::format("; the most uncertain factor: {} ({:.0f} % of the variance)", most.name,
                       100 * most.added() * most.added() / variance);
  }
  return out;
}

// "activations 61 %, parameters 20 %" of the fullest stage.
std::string what_fills(const result::Report& report) {
  if (report.memory.empty()) {
    return "";
  }
  const auto& m =
      *std::max_element(report.memory.begin(), report.memory.end(),
                        [](const auto& a, const auto& b) { return a.allocated < b.allocated; });
  std::vector<std::pair<const char*, Bytes>> parts;
  for (const auto& [category, word] : spellings(program::MemoryCategory{})) {
    parts.emplace_back(word, result::part_of(m, category));
  }
  std::stable_sort(parts.begin(), parts.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  constexpr std::size_t kParts = 3;
  std::string out;
  for (std::size_t i = 0; i < kParts && m.allocated.count() > 0; ++i) {
    out += fmt::format("{}{} {:.0f} %", i > 0 ? ", " : "", parts[i].first,
                       100.0 * static_cast<double>(parts[i].second.count()) /
                           static_cast<double>(m.allocated.count()));
  }
  return out;
}

// Relative standard deviation of the step by kind of doubt.
std::vector<std::pair<std::string, double>> by_kind(const RunForecast& forecast) {
  std::vector<std::pair<std::string, double>> out;
  const double step = forecast.report.step_time.value;
  for (const result::Doubt& d : forecast.report.doubts) {
    auto at = std::find_if(out.begin(), out.end(),
                           [&](const auto& entry) { return entry.first == to_string(d.kind); });
    at = at == out.end() ? out.insert(out.end(), {to_string(d.kind), 0}) : at;
    at->second = std::hypot(at->second, d.added() / step);
  }
  return out;
}

// Bytes of a stage by part: tensors by category, what the allocator reserves beside them, and what
// lies outside it.
std::vector<std::pair<std::string, double>> bytes_of(const result::StageMemory& m) {
  std::vector<std::pair<std::string, double>> out;
  for (const auto& [category, word] : spellings(program::MemoryCategory{})) {
    out.emplace_back(word, static_cast<double>(result::part_of(m, category).count()));
  }
  out.emplace_back("reserved beside", static_cast<double>((m.reserved - m.allocated).count()));
  out.emplace_back("outside", static_cast<double>((m.process - m.reserved).count()));
  return out;
}

ValidationRow result_of(const runs::Run& run) {
  ValidationRow out;
  out.id = run.id;
  out.source = run.source;
  out.file = run.file;
  return out;
}

// The result of a run that yields no number.
ValidationRow skipped_run(const runs::Run& run, const char* kind, const std::string& detail) {
  ValidationRow r = result_of(run);
  r.metric = metric_of(run.measured.front().quantity);
  skip(r, kind, detail);
  return r;
}

// The run ran: a forecast that does not fit is wrong, unless the source leaves open what it rests
// on.
void state_fit(const result::Report& report, ValidationRow& row) {
  if (report.fits) {
    return;
  }
  row.status = report.fits_recomputed ? "open" : "oom";
  row.reason = "the forecast does not fit in memory";
  if (report.fits_recomputed) {
    *row.reason += "; it fits with full recomputation, which the source does not state";
  }
}

// Adds those that are not there: runs share jobs.
void add_faults(const std::vector<Fault>& faults, std::vector<Fault>& out) {
  for (const Fault& fault : faults) {
    if (std::none_of(out.begin(), out.end(),
                     [&](const Fault& other) { return to_string(other) == to_string(fault); })) {
      out.push_back(fault);
    }
  }
}

void compare_quantity(const runs::Run& run, const RunForecast& forecast, const runs::Measurement& m,
                      bool primary, const result::Estimate& e, std::vector<ValidationRow>& out) {
  ValidationRow r = result_of(run);
  r.metric = metric_of(m.quantity);
  r.primary = primary;
  r.rank = m.rank;
  r.published = m.value();
  r.predicted = e.value;
  r.low = e.low;
  r.high = e.high;
  r.step = forecast.report.step_time.value;
  r.system = forecast.job.system.name;
  if (runs::is_of_memory(m.quantity)) {
    r.why = what_fills(forecast.report);
    if (const result::StageMemory* stage = measured_stage(forecast, m)) {
      r.bytes = bytes_of(*stage);
      r.doubts = {{to_string(result::DoubtKind::open), stage->open_deviation}};
    }
  } else {
    r.why = why(forecast.report);
    r.path = forecast.report.critical_path;
    r.doubts = by_kind(forecast);
  }
  for (const runs::Assumption& assumption : run.assumed) {
    const bool recomputed = forecast.recomputed && assumption.key == kRecompute;
    r.open.push_back(fmt::format("{}: {}{}", assumption.key, assumption.why,
                                 recomputed ? "; full, since it fits no other way" : ""));
  }
  const double half = r.published > r.predicted ? r.high - r.predicted : r.predicted - r.low;
  r.deviations = half > 0 ? kDeviations90 * (r.published - r.predicted) / half : 0;
  if (m.quantity == Quantity::outcome) {
    r.error = std::abs(r.predicted - r.published);
    if (r.published == 0) {
      state_fit(forecast.report, r);
    }
  } else {
    r.error = (r.predicted - r.published) / r.published;
    // Memory is compared whether it fits or not, and a layer was measured without the rest of its
    // model.
    const bool whole_step = !runs::is_of_memory(m.quantity) && !runs::is_of_layer(m.quantity);
    if (whole_step) {
      state_fit(forecast.report, r);
    }
  }
  out.push_back(r);
}

void compare_run(const runs::Run& run, const RunForecast& forecast,
                 std::vector<ValidationRow>& out) {
  bool primary = true;
  for (const runs::Measurement& m : run.measured) {
    if (const auto e = predict(forecast, m, run)) {
      compare_quantity(run, forecast, m, primary, *e, out);
    }
    primary = false;
  }
}

// A run that measured one operator: allocated bytes, which lie off as far as the activations of a
// job do.
ValidationRow compare_operator(const cost::MemoryStructure& structure, const runs::Run& run) {
  const auto peak = operator_peak(*run.op);
  if (!peak) {
    return skipped_run(
        run, kOperator,
        "no operator of a layer works as " + run.op->provider + "'s " + run.op->kernel);
  }
  const runs::Measurement& m = run.measured.front();
  ValidationRow r = result_of(run);
  r.metric = metric_of(m.quantity);
  if (m.quantity != Quantity::peak_memory) {
    skip(r, kOperator, r.metric + " of an operator is not forecast");
    return r;
  }
  r.published = m.value();
  r.predicted = static_cast<double>(peak->count());
  const auto activations = static_cast<std::size_t>(cost::MemoryPart::activations);
  const double half = kDeviations90 * structure.deviation[activations] * r.predicted;
  r.low = r.predicted - half;
  r.high = r.predicted + half;
  r.error = (r.predicted - r.published) / r.published;
  return r;
}

// The largest micro-batch (a power of two that divides each rank's share) that surely fits: with
// all of its interval. With stages, whose bubble grows as micro-batches get fewer, the fastest of
// those that do: who fills memory there loses time.
std::variant<RunForecast, Refused> with_open_micro_batch(forecast::Forecaster& forecaster,
                                                         const runs::Run& run) {
  auto best = forecast_with(forecaster, run, {});
  if (std::holds_alternative<Refused>(best)) {
    return best;
  }
  const job::Job job = std::get<RunForecast>(best).job;
  const job::Parallelism& p = job.parallelism;
  const std::int64_t data_ranks =
      job.cluster.ranks() / (std::int64_t{p.tensor} * p.context * p.pipeline);
  const std::int64_t of_a_rank = job.workload.global_batch / data_ranks;
  for (std::int64_t micro = 2; micro <= of_a_rank && of_a_rank % micro == 0; micro *= 2) {
    auto next = forecast_with(forecaster, run, {fmt::format("workload.micro_batch={}", micro)});
    const auto* forecast = std::get_if<RunForecast>(&next);
    if (forecast == nullptr || !forecast->report.fits ||
        forecast->report.peak.high > static_cast<double>(forecast->report.capacity.count())) {
      break;
    }
    const double seconds = std::get<RunForecast>(best).report.step_time.value;
    if (p.pipeline == 1 || forecast->report.step_time.value < seconds) {
      best = std::move(next);
    }
  }
  return best;
}

bool ran(const runs::Run& run) {
  return std::none_of(run.measured.begin(), run.measured.end(), [](const auto& m) {
    return m.quantity == Quantity::outcome && m.value() != 0;
  });
}

// The run ran, its source does not say what it recomputed, and it fits with full recomputation but,
// with all of its interval, not as it is assumed: so it recomputed.
bool surely_recomputed(forecast::Forecaster& forecaster, const runs::Run& run,
                       const RunForecast& forecast) {
  if (!ran(run) || !run.recompute_open() || !forecast.report.fits_recomputed) {
    return false;
  }
  job::Job as_assumed = forecast.job;  // whose interval does not hold what it may have recomputed
  std::erase(as_assumed.assumed, kRecompute);
  const auto alone = forecaster.forecast(as_assumed);
  const auto* report = std::get_if<result::Report>(&alone);
  return report != nullptr && report->peak.low > static_cast<double>(report->capacity.count());
}

}  // namespace

std::variant<RunForecast, Refused> forecast_run(forecast::Forecaster& forecaster,
                                                const runs::Run& run) {
  auto out = run.micro_batch_open() ? with_open_micro_batch(forecaster, run)
                                    : forecast_with(forecaster, run, {});
  const auto* forecast = std::get_if<RunForecast>(&out);
  if (forecast == nullptr || !surely_recomputed(forecaster, run, *forecast)) {
    return out;
  }
  out = forecast_with(forecaster, run,
                      {fmt::format("workload.micro_batch={}", forecast->job.workload.micro_batch),
                       fmt::format("{}=full", kRecompute)});
  if (auto* recomputed = std::get_if<RunForecast>(&out)) {
    recomputed->recomputed = true;
  }
  return out;
}

result::Validation compare(forecast::Forecaster& forecaster, std::span<const runs::Run> runs,
                           const Options& options) {
  result::Validation out;
  std::set<std::string> seen;
  std::map<std::string, std::variant<RunForecast, Refused>> known;  // many runs repeat a job
  std::size_t done = 0;
  for (const runs::Run& run : runs) {
    if (options.progress) {
      options.progress(done, runs.size());
    }
    ++done;
    if (run.op) {
      out.rows.push_back(compare_operator(forecaster.memory_structure(), run));
      continue;
    }
    if (options.distinct && !seen.insert(text_of(run, false)).second) {
      continue;
    }
    std::string key = (layer_measurement(run) != nullptr ? "layer " : "") + text_of(run, true);
    key += ran(run) ? "" : " too large";
    for (const runs::Assumption& one : run.assumed) {
      key += " " + one.key;  // what is assumed widens the interval
    }
    auto at = known.find(key);
    if (at == known.end()) {
      at = known.emplace(key, forecast_run(forecaster, run)).first;
    }
    if (const auto* refused = std::get_if<Refused>(&at->second)) {
      out.rows.push_back(skipped_run(run, kNotPossible, refused->reason));
      add_faults(refused->faults, out.faults);
      continue;
    }
    compare_run(run, std::get<RunForecast>(at->second), out.rows);
  }
  out.summary = summarize(out.rows);
  for (const SkipReason& reason : kSkipReasons) {
    const auto count = std::count_if(out.rows.begin(), out.rows.end(), [&](const auto& r) {
      return r.status == "skipped" &&
             r.reason->substr(0, r.reason->find(':')) == std::string_view(reason.kind);
    });
    out.skips.push_back({reason.kind, reason.meaning, reason.accepted, static_cast<int>(count)});
  }
  return out;
}

}  // namespace stepcast::validate
