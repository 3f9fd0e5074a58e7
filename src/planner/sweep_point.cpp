#include "sweep_point.h"

#include <fmt/format.h>

#include "exposed.h"
#include "stepcast/base/calendar.h"
#include "stepcast/search/jobs.h"
#include "stepcast/store/payload.h"

namespace stepcast::planner {
namespace {

using result::Estimate;
using result::SweepAxis;
using result::SweepPoint;
using Overrides = std::vector<std::string>;

constexpr double kGibibyte = 1 << 30;
constexpr double kGigatoken = 1e9;
constexpr const char* kFailed = "internal error";  // SweepPoint::key of those that failed

// All fields of a point that are stored, for writing and reading.
template <class Point, class Visit>
void each_field(Point& p, const Visit& visit) {
  visit("ran", p.ran);
  visit("fits", p.fits);
  visit("key", p.key);
  visit("reason", p.reason);
  visit("strategy", p.strategy);
  visit("nodes", p.nodes);
  visit("gpus", p.gpus);
  visit("step_time", p.step_time);
  visit("tokens_per_second_per_gpu", p.tokens_per_second_per_gpu);
  visit("model_flops_per_gpu", p.model_flops_per_gpu);
  visit("mfu", p.mfu);
  visit("hfu", p.hfu);
  visit("peak", p.peak);
  visit("tokens_per_second", p.tokens_per_second);
  visit("capacity", p.capacity);
  visit("bubble_fraction", p.bubble_fraction);
  visit("exposed", p.exposed);
  visit("gpu_seconds", p.gpu_seconds);
  visit("gpu_hours_per_gigatoken", p.gpu_hours_per_gigatoken);
}

std::string written(bool v) { return v ? "true" : "false"; }
std::string written(std::int64_t v) { return fmt::format("{}", v); }
std::string written(Bytes v) { return fmt::format("{}", v.count()); }
std::string written(const result::Fit& v) { return store::json_fit(v); }
std::string written(double v) { return store::json_number(v); }
std::string written(const std::string& v) { return store::json_text(v); }
std::string written(const Estimate& v) {
  const auto& [value, low, high] = v;
  return fmt::format("[{}, {}, {}]", written(value), written(low), written(high));
}
std::string written(const Overrides& v) {
  std::string out;
  for (const std::string& one : v) {
    out += (out.empty() ? "" : ", ") + written(one);
  }
  return "[" + out + "]";
}

void read(const text::Value& v, bool& out) { out = text::to_bool(v); }
void read(const text::Value& v, result::Fit& out) { out = store::fit_of(v); }
void read(const text::Value& v, std::int64_t& out) { out = store::count_of(v); }
void read(const text::Value& v, Bytes& out) { out = Bytes(store::count_of(v)); }
void read(const text::Value& v, double& out) { out = store::number_of(v); }
void read(const text::Value& v, std::string& out) { out = v.scalar; }
void read(const text::Value& v, Estimate& out) {
  if (v.items.size() != 3) {
    throw InputError(Fault{v.origin, "expected three numbers"});
  }
  out = {store::number_of(v.items[0]), store::number_of(v.items[1]), store::number_of(v.items[2])};
}
void read(const text::Value& v, Overrides& out) {
  out.clear();
  for (const text::Value& item : v.items) {
    out.push_back(item.scalar);
  }
}

// A place in a file, by the file's name without its folder: rows are the same wherever the file
// lies.
std::string short_place(const std::string& where) {
  return where.starts_with("--") ? where : std::filesystem::path(where).filename().string();
}

void refuse(SweepPoint& p, const Infeasible& why) {
  p.key = short_place(why.key);
  p.reason = why.reason;
}

std::string of_gibibytes(double used, double has) {
  return fmt::format("{:.1f} of {:.1f} GiB: {:.1f} GiB too much", used / kGibibyte, has / kGibibyte,
                     (used - has) / kGibibyte);
}

void say_what_is_short(SweepPoint& p, const result::Report& r) {
  const auto bytes = [](Bytes b) { return static_cast<double>(b.count()); };
  if (r.peak.value > bytes(r.capacity)) {
    p.key = "memory";
    p.reason = of_gibibytes(r.peak.value, bytes(r.capacity));
  } else if (r.host_used > r.host_capacity) {
    p.key = "host memory";
    p.reason = of_gibibytes(bytes(r.host_used), bytes(r.host_capacity));
  } else {
    p.key = "drives";
    p.reason = of_gibibytes(bytes(r.nvme_used), bytes(r.nvme_capacity));
  }
}

void fill_figures(SweepPoint& p, const result::Report& r, const job::Job& job) {
  p.ran = true;
  p.fits = r.fits;
  p.nodes = job.cluster.nodes;
  p.gpus = job.cluster.ranks();
  p.step_time = r.step_time;
  p.tokens_per_second_per_gpu = r.tokens_per_second_per_gpu;
  p.model_flops_per_gpu = r.model_flops_per_gpu;
  p.mfu = r.mfu;
  p.hfu = r.hfu;
  p.peak = r.peak;
  p.capacity = r.capacity;
  p.bubble_fraction = r.bubble_fraction;
  p.exposed = exposed_seconds(r);
  const auto gpus = static_cast<double>(p.gpus);
  p.tokens_per_second = gpus * r.tokens_per_second_per_gpu.value;
  p.gpu_seconds = gpus * r.step_time.value;
  p.gpu_hours_per_gigatoken = kGigatoken / r.tokens_per_second_per_gpu.value / kHour;
  if (!r.fits) {
    say_what_is_short(p, r);
  }
}

void forecast_job(SweepPoint& p, const search::JobLoader& loader, const Overrides& overrides,
                  const SweepRequest& request, forecast::Forecaster& forecaster) {
  const auto loaded = loader(overrides);
  if (const auto* why = std::get_if<Infeasible>(&loaded)) {
    refuse(p, *why);
    return;
  }
  const auto& job = std::get<job::Job>(loaded);
  forecast::Options options;
  options.fidelity = request.fidelity;
  const auto outcome = forecaster.forecast(job, options);
  if (const auto* why = std::get_if<Infeasible>(&outcome)) {
    refuse(p, *why);
  } else {
    fill_figures(p, std::get<result::Report>(outcome), job);
  }
}

// The job that sizes of a space divide. Where the point's own strategy is impossible there, that of
// one GPU for all of it tells them as well.
std::variant<job::Job, Infeasible> job_of_space(const search::JobLoader& loader) {
  auto loaded = loader({});
  if (std::holds_alternative<job::Job>(loaded)) {
    return loaded;
  }
  auto small =
      loader({"parallelism.tensor=1", "parallelism.pipeline=1", "parallelism.virtual_pipeline=1",
              "parallelism.context=1", "parallelism.expert=1", "parallelism.expert_tensor=1"});
  return std::holds_alternative<job::Job>(small) ? small : loaded;
}

void find_best(SweepPoint& p, const SweepRequest& request, forecast::Forecaster& forecaster,
               const std::filesystem::path& data_directory, int threads) {
  Overrides fixed = request.overrides;
  fixed.insert(fixed.end(), p.overrides.begin(), p.overrides.end());
  const auto loader = search::jobs_of(request.config, fixed);
  const auto base = job_of_space(loader);
  if (const auto* why = std::get_if<Infeasible>(&base)) {
    refuse(p, *why);
    return;
  }
  search::Request asked;
  asked.space = search::read_space(request.optimize->space, std::get<job::Job>(base));
  search::fix(asked.space, fixed);
  asked.objective = request.optimize->objective;
  asked.threads = threads;
  asked.best_only = true;
  const result::Search found = search::search(asked, loader, data_directory);
  if (!found.found) {
    refuse(p, {"strategy", found.nearest});
    return;
  }
  p.strategy = found.best.overrides;
  forecast_job(p, loader, p.strategy, request, forecaster);
}

}  // namespace

std::int64_t combinations(const std::vector<SweepAxis>& axes) {
  std::int64_t out = 1;
  for (const SweepAxis& axis : axes) {
    out *= static_cast<std::int64_t>(axis.values.size());
  }
  return out;
}

SweepPoint combination(const std::vector<SweepAxis>& axes, std::int64_t number) {
  SweepPoint p;
  p.at.resize(axes.size());
  auto rest = static_cast<std::size_t>(number);
  for (std::size_t i = axes.size(); i-- > 0;) {
    p.at[i] = rest % axes[i].values.size();
    rest /= axes[i].values.size();
  }
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const auto& values = axes[i].values[p.at[i]];
    for (std::size_t k = 0; k < values.size(); ++k) {
      p.overrides.push_back(fmt::format("{}={}", axes[i].keys[k], values[k]));
    }
  }
  return p;
}

void compute(SweepPoint& p, const SweepRequest& request, forecast::Forecaster& forecaster,
             const std::filesystem::path& data_directory, int threads) {
  try {
    if (request.optimize) {
      find_best(p, request, forecaster, data_directory, threads);
    } else {
      forecast_job(p, search::jobs_of(request.config, request.overrides), p.overrides, request,
                   forecaster);
    }
  } catch (const InputError& error) {  // of a calibration file or a space that this point names
    const Fault& first = error.faults().front();
    refuse(p, {to_string(first.where), first.message});
  } catch (const std::exception& error) {  // this row alone fails: thousands of others may be sound
    SweepPoint failed;
    failed.at = p.at;
    failed.overrides = p.overrides;
    failed.key = kFailed;
    failed.reason = error.what();
    failed.failed = true;
    p = std::move(failed);
  }
}

std::string to_json(const SweepPoint& p) {
  std::string out;
  each_field(p, [&](const char* name, const auto& value) {
    out += fmt::format("{}\"{}\": {}", out.empty() ? "" : ", ", name, written(value));
  });
  return "{" + out + "}";
}

void fill(SweepPoint& p, const std::string& text) {
  const text::Value v = text::parse_json(text, "a stored point");
  each_field(p, [&](const char* name, auto& value) { read(store::field(v, name), value); });
  p.failed = p.key == kFailed;
}

}  // namespace stepcast::planner
