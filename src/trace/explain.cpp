#include "stepcast/trace/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "compared.h"

namespace stepcast::trace {
namespace {

using program::Task;
using program::TaskKind;
using result::TraceDifference;
using result::TraceExplanation;
using result::TracePhase;

// Kernels or calls of a mean step.
struct Sum {
  double count = 0, bytes = 0;
  Time time{0};
  Time exposed{0};   // of communication
  Time transfer{0};  // of communication: without waiting
};
struct Pair {
  Sum forecast, measured;
};

// Calls `count(kind, share)` for each kind of kernels that a task is.
template <class Count>
void each_kind(const program::World& world, const Task& task, Count count) {
  const program::Curve& curve = world.curves[task.curve];
  if (curve.parts.empty()) {
    count(kind_of_curve(curve.name), 1.0);
  }
  for (const auto& [part, share] : curve.parts) {
    count(kind_of_curve(world.curves[part].name), share);
  }
}

int group_size_of(const program::World& world, const program::Rank& rank, const Task& task) {
  return task.kind == TaskKind::collective
             ? static_cast<int>(communicator_of(world, rank, task).size)
             : 0;
}

using Compute = std::map<PhaseKind, Pair>;
using Calls = std::map<std::pair<std::string, int>, Pair>;  // by operation and size of group

void add_forecast(const ForecastRank& found, const program::World& world, Compute& compute,
                  Calls& calls) {
  const program::Rank& rank = world.ranks[found.rank];
  for (const ForecastTask& at : found.tasks) {
    const Task& task = *at.task;
    const Time time = at.to - at.from;
    if (task.kind == TaskKind::kernel) {
      each_kind(world, task, [&](const std::string& kind, double share) {
        Sum& sum = compute[phase_kind(phase_of(*found.program, task), kind)].forecast;
        sum.count += share * std::max<int>(1, task.launches);
        sum.time += seconds(to_seconds(time) * share);
      });
    } else if (task.kind != TaskKind::copy) {
      Sum& sum =
          calls[{operation_of(world, rank, task), group_size_of(world, rank, task)}].forecast;
      sum.time += time;
      sum.exposed += time - found.covers.compute.within(at.from, at.to);
      if (at.to - at.from == at.slice->end - at.slice->arrive) {  // not split
        sum.count += 1;
        sum.transfer += at.slice->end - at.slice->begin;
        sum.bytes += task.kind == TaskKind::collective
                         ? static_cast<double>(price_of(world, rank, task).bytes.count())
                         : 0.0;
      }
    }
  }
}

const std::vector<TracePhase>& phases_of(const result::TraceDevice& device, std::size_t step) {
  return device.steps.empty() ? device.phases : device.steps[step].phases;
}
std::size_t steps_of(const result::TraceDevice& device) {
  return device.steps.empty() ? 1 : compared_steps(device.steps.size());
}

void add_measured(const result::TraceRank& rank, const result::TraceDevice& device,
                  Compute& compute, Calls& calls) {
  const std::size_t steps = steps_of(device);
  const auto n = static_cast<std::int64_t>(steps);
  for (std::size_t s = 0; s < steps; ++s) {
    for (const TracePhase& phase : phases_of(device, s)) {
      Sum& sum = compute[{phase.phase, phase.kind}].measured;
      sum.count += static_cast<double>(phase.count) / static_cast<double>(n);
      sum.time += phase.time / n;
    }
  }
  for (const result::TraceCommunication& row : rank.communication) {
    Sum& sum = calls[{row.operation, row.group_size}].measured;
    sum.count += static_cast<double>(row.step_count) / static_cast<double>(n);
    sum.bytes += static_cast<double>(row.step_bytes) / static_cast<double>(n);
    sum.time += row.step_time / n;
    sum.exposed += row.step_exposed / n;
  }
}

// Where a profile does not tell forward from backward, or states no sizes of groups, the forecast's
// rows are taken together as well.
void merge(Pair& to, const Pair& from) {
  for (const auto& [t, f] :
       {std::pair(&to.forecast, &from.forecast), std::pair(&to.measured, &from.measured)}) {
    t->count += f->count, t->bytes += f->bytes;
    t->time += f->time, t->exposed += f->exposed, t->transfer += f->transfer;
  }
}

void align(Compute& compute, Calls& calls) {
  const bool whole = std::any_of(compute.begin(), compute.end(),
                                 [](const auto& row) { return row.first.phase == "step"; });
  Compute merged;
  for (const auto& [key, pair] : compute) {
    merge(merged[{whole && key.phase != "optimizer" ? "step" : key.phase, key.kind}], pair);
  }
  compute = std::move(merged);
  Calls together;
  for (const auto& [key, pair] : calls) {
    const bool unknown = std::any_of(calls.begin(), calls.end(), [&](const auto& other) {
      return other.first.first == key.first && other.first.second == 0;
    });
    merge(together[{key.first, unknown ? 0 : key.second}], pair);
  }
  calls = std::move(together);
}

std::string percent_more(double ratio) { return fmt::format("{:+.1f} %", 100 * (ratio - 1)); }

std::string words_of_count(double measured, double forecast) {
  return fmt::format("{:.0f} where {:.0f} are forecast", measured, forecast);
}

// Less than this share of a row is no difference.
bool agree(Time forecast, Time measured) {
  constexpr double kSame = 0.005;
  return std::abs(to_seconds(measured - forecast)) <= kSame * to_seconds(forecast);
}

// Of what a difference in kernels consists.
std::string kernel_cause(const Pair& p) {
  const Sum &f = p.forecast, &m = p.measured;
  if (f.time <= Time(0)) {
    return "not in the forecast";
  }
  if (m.time <= Time(0)) {
    return "not in the profile";
  }
  if (agree(f.time, m.time)) {
    return "as forecast";
  }
  const double ratio = to_seconds(m.time) / to_seconds(f.time);
  // One kernel of a forecast may be several of a library, so counts say something only where they
  // differ by much.
  constexpr double kCounts = 1.25;
  const double counts = m.count / f.count;
  return counts > kCounts || counts < 1 / kCounts
             ? fmt::format("{} kernels; their sum {}", words_of_count(m.count, f.count),
                           percent_more(ratio))
             : fmt::format("each kernel {}", percent_more(ratio / counts));
}

std::string call_cause(const Pair& p) {
  const Sum &f = p.forecast, &m = p.measured;
  if (f.count <= 0 && f.time <= Time(0)) {
    return "not in the forecast";
  }
  if (m.count <= 0) {
    return "not in the profile";
  }
  if (agree(f.exposed, m.exposed)) {
    return "as forecast";
  }
  constexpr double kMuch = 1.1;
  if (f.bytes > 0 && m.bytes > 0 && (m.bytes > kMuch * f.bytes || f.bytes > kMuch * m.bytes)) {
    return fmt::format("volume: {:.3g} times the bytes", m.bytes / f.bytes);
  }
  if (m.count > kMuch * f.count || f.count > kMuch * m.count) {
    return words_of_count(m.count, f.count) + " calls";
  }
  const Time exposed = m.exposed - f.exposed, whole = m.time - f.time;
  if (std::abs(to_seconds(exposed)) > 2 * std::abs(to_seconds(whole))) {
    return exposed > Time(0) ? "less of it runs beside kernels" : "more of it runs beside kernels";
  }
  return fmt::format("each call {}, waiting included",
                     percent_more(to_seconds(m.time) / std::max(1e-12, to_seconds(f.time))));
}

std::vector<TraceDifference> rows_of(const Compute& compute, const Calls& calls) {
  std::vector<TraceDifference> out;
  for (const auto& [key, p] : compute) {
    out.push_back({key.phase, key.kind, kernel_cause(p), p.forecast.time, p.measured.time,
                   p.forecast.count, p.measured.count});
  }
  for (const auto& [key, p] : calls) {
    const std::string what =
        key.second > 0 ? fmt::format("{} of {}", key.first, key.second) : key.first;
    out.push_back({"communication", what, call_cause(p), p.forecast.exposed, p.measured.exposed,
                   p.forecast.count, p.measured.count});
  }
  return out;
}

// What is no kernel, and what makes the rows add up to the step: kernels or calls at the same time
// count twice above.
void add_rest(const result::TraceShare& f, const result::TraceShare& m,
              std::vector<TraceDifference>& rows) {
  rows.push_back({"copies", "exposed copies", "", f.copy, m.copy, 0, 0});
  rows.push_back({"host", "waiting for launches", "", f.host_bound, m.host_bound, 0, 0});
  rows.push_back({"idle", "launched, but waiting", "", f.idle, m.idle, 0, 0});
  Time forecast = f.span, measured = m.span;
  for (const TraceDifference& row : rows) {
    forecast -= row.forecast, measured -= row.measured;
  }
  rows.push_back({"at once", "work that counts twice above", "kernels or calls at the same time",
                  forecast, measured, 0, 0});
}

}  // namespace

std::optional<TraceExplanation> explain(const result::TraceRank& rank, const result::Report& report,
                                        int stage) {
  const auto found = forecast_rank(report, stage);
  if (!found || rank.devices.empty()) {
    return std::nullopt;
  }
  const result::TraceDevice& device = busiest(rank);
  result::TraceShare forecast = found->share;
  forecast.host_bound = host_of(report, stage, forecast.idle);
  forecast.idle -= forecast.host_bound;
  const result::TraceShare measured = mean_share(device);
  Compute compute;
  Calls calls;
  add_forecast(*found, report.trace->world, compute, calls);
  add_measured(rank, device, compute, calls);
  align(compute, calls);
  TraceExplanation out;
  out.file = rank.file, out.rank = rank.rank, out.stage = stage;
  out.steps = static_cast<int>(device.steps.empty() ? 0 : compared_steps(device.steps.size()));
  out.forecast = forecast.span, out.measured = measured.span;
  out.low = report.step_time.low, out.high = report.step_time.high;
  out.rows = rows_of(compute, calls);
  add_rest(forecast, measured, out.rows);
  std::erase_if(out.rows, [](const TraceDifference& row) {
    return row.forecast == Time(0) && row.measured == Time(0);
  });
  std::stable_sort(out.rows.begin(), out.rows.end(),
                   [](const TraceDifference& a, const TraceDifference& b) {
                     const auto difference = [](const TraceDifference& row) {
                       return std::abs((row.measured - row.forecast).count());
                     };
                     return difference(a) > difference(b);
                   });
  if (compute.contains({"step", "gemm"}) || compute.contains({"step", "memory_bound"})) {
    out.notes.emplace_back(
        "the trace has no operators of autograd: forward and backward are taken together");
  }
  if (device.steps.empty()) {
    out.notes.emplace_back("the trace marks no steps: the whole of it counts as one");
  }
  return out;
}

std::optional<ProductSeconds> forecast_products(const result::Report& report, int stage) {
  const auto found = forecast_rank(report, stage);
  if (!found) {
    return std::nullopt;
  }
  ProductSeconds out;
  for (const ForecastTask& at : found->tasks) {
    if (at.task->kind != TaskKind::kernel) {
      continue;
    }
    const double beside = to_seconds(found->covers.communication.within(at.from, at.to));
    const double alone = to_seconds(at.to - at.from) - beside;
    each_kind(report.trace->world, *at.task, [&](const std::string& kind, double share) {
      if (kind != "memory_bound" && kind != "optimizer") {
        out.alone += share * alone;
        out.beside += share * beside;
      }
    });
  }
  return out;
}

std::vector<ProductSeconds> measured_products(const result::TraceRank& rank) {
  std::vector<ProductSeconds> out;
  if (rank.devices.empty()) {
    return out;
  }
  const result::TraceDevice& device = busiest(rank);
  for (std::size_t s = 0; s < steps_of(device); ++s) {
    ProductSeconds& step = out.emplace_back();
    for (const TracePhase& phase : phases_of(device, s)) {
      if (phase.kind != "memory_bound" && phase.kind != "optimizer") {
        step.alone += to_seconds(phase.time - phase.beside);
        step.beside += to_seconds(phase.beside);
      }
    }
  }
  return out;
}

std::vector<TransferSeconds> forecast_transfers(const result::Report& report, int stage) {
  const auto found = forecast_rank(report, stage);
  if (!found) {
    return {};
  }
  const program::World& world = report.trace->world;
  const program::Rank& rank = world.ranks[found->rank];
  std::map<std::tuple<std::string, int, std::int64_t>, TransferSeconds> sums;
  std::map<const TransferSeconds*, std::vector<double>> whole;
  const program::Slice* last = nullptr;
  for (const ForecastTask& at : found->tasks) {
    const Task& task = *at.task;
    if (task.kind != TaskKind::collective) {
      continue;
    }
    const std::string operation = operation_of(world, rank, task);
    const int size = group_size_of(world, rank, task);
    const std::int64_t bytes = price_of(world, rank, task).bytes.count();
    TransferSeconds& sum = sums[{operation, size, bytes}];
    sum.operation = operation, sum.group_size = size, sum.bytes = bytes;
    if (at.slice == last) {
      continue;  // the rest of a call that crosses the step's end
    }
    last = at.slice;
    ++sum.count;
    sum.transfer += to_seconds(at.slice->end - at.slice->begin);
    whole[&sum].push_back(to_seconds(at.slice->end - at.slice->arrive));
  }
  std::vector<TransferSeconds> out;
  for (auto& [key, sum] : sums) {
    sum.transfer /= static_cast<double>(sum.count);
    std::vector<double>& calls = whole[&sum];
    std::sort(calls.begin(), calls.end());
    sum.fast = calls[(calls.size() - 1) / 4];
    out.push_back(sum);
  }
  return out;
}

std::optional<StepSeconds> measured_step(const result::TraceRank& rank) {
  if (rank.devices.empty()) {
    return std::nullopt;
  }
  const result::TraceDevice& device = busiest(rank);
  const result::TraceShare mean = mean_share(device);
  StepSeconds out;
  out.mean = to_seconds(mean.span);
  out.host = to_seconds(mean.host_bound);
  out.steps = static_cast<int>(steps_of(device));
  if (out.steps >= 3) {
    double sum = 0;
    for (int s = 0; s < out.steps; ++s) {
      const double of = to_seconds(device.steps[static_cast<std::size_t>(s)].share.span);
      sum += (of - out.mean) * (of - out.mean);
    }
    out.deviation = std::sqrt(sum / (out.steps - 1)) / std::max(out.mean, 1e-12);
  }
  return out;
}

}  // namespace stepcast::trace
