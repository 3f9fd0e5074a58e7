// One job under many training systems.
#include "stepcast/planner/compare.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <exception>

#include "exposed.h"
#include "stepcast/config/config.h"
#include "stepcast/input/input.h"
#include "stepcast/schedule/schedule.h"

namespace stepcast::planner {

using result::ComparedSystem;

namespace {

const char* sharding_name(const job::Parallelism& p) {
  return p.sharding == Sharding::zero3 && p.shard_size ? "hsdp" : to_string(p.sharding);
}

std::string schedule_name(const job::Parallelism& p) {
  if (p.pipeline == 1) {
    return "";
  }
  if (p.schedule) {
    return p.schedule->vocabulary.empty() ? p.schedule->name
                                          : p.schedule->name + "+" + p.schedule->vocabulary;
  }
  return std::string(schedule::implied(p.virtual_pipeline));
}

std::string recompute_name(const job::Recompute& r) {
  using Kind = job::Recompute::Kind;
  switch (r.kind) {
    case Kind::every:
    case Kind::uniform:
    case Kind::block:
      return fmt::format("{} {}", to_string(r.kind), r.layers);
    case Kind::modules:
      return fmt::format("{}", fmt::join(r.modules, " "));
    case Kind::per_op:
      return r.share < 1 ? fmt::format("budget {}", r.share) : r.policy;
    case Kind::none:
    case Kind::selective:
    case Kind::full:
    case Kind::optimal:
      break;
  }
  return to_string(r.kind);
}

void fill_row(ComparedSystem& row, const result::Report& report) {
  row.ran = true;
  row.step_time = report.step_time;
  row.tokens_per_second_per_gpu = report.tokens_per_second_per_gpu;
  row.mfu = report.mfu;
  row.peak = report.peak;
  row.exposed = exposed_seconds(report);
  row.bubble_fraction = report.bubble_fraction;
  row.capacity = report.capacity;
  row.fits = report.fits;
}

ComparedSystem under(const std::string& system, const CompareRequest& request,
                     forecast::Forecaster& forecaster, std::string& title) {
  ComparedSystem row;
  row.name = system;
  const job::System preset = config::system(system);
  row.generation = preset.generation;
  row.kind = preset.kind;
  try {
    std::vector<std::string> overrides = request.overrides;
    overrides.push_back("system.use=" + system);
    const config::Loaded loaded = input::load(request.config, overrides);
    row.sharding = sharding_name(loaded.job.parallelism);
    row.schedule = schedule_name(loaded.job.parallelism);
    row.recompute = recompute_name(loaded.job.memory.recompute);
    const auto outcome = forecaster.forecast(loaded.job, request.options);
    if (const auto* why = std::get_if<Infeasible>(&outcome)) {
      row.key = why->key;
      row.reason = why->reason;
    } else {
      const auto& report = std::get<result::Report>(outcome);
      fill_row(row, report);
      title = report.title;
    }
  } catch (const InputError& error) {
    row.reason = error.faults().front().message;
  } catch (const std::exception& error) {
    row.reason = fmt::format("the forecast failed: {}", error.what());
  }
  return row;
}

}  // namespace

std::vector<std::string> systems(bool aliases) {
  std::vector<std::string> out = config::list("systems");
  if (!aliases) {
    std::erase_if(out, [](const std::string& name) { return !config::system_alias(name).empty(); });
  }
  return out;
}

result::Comparison compare(const CompareRequest& request, forecast::Forecaster& forecaster,
                           const std::function<void(const ComparedSystem&)>& progress) {
  const config::Loaded own = input::load(request.config, request.overrides);
  result::Comparison out;
  out.title =
      fmt::format("{} on {} x {}", own.job.model.name, own.job.cluster.nodes, own.job.cluster.name);
  for (const std::string& system : request.systems) {
    out.systems.push_back(under(system, request, forecaster, out.title));
    if (progress) {
      progress(out.systems.back());
    }
  }
  std::stable_sort(out.systems.begin(), out.systems.end(),
                   [](const ComparedSystem& a, const ComparedSystem& b) {
                     if (a.ran != b.ran) {
                       return a.ran;
                     }
                     if (a.ran && a.step_time.value != b.step_time.value) {
                       return a.step_time.value < b.step_time.value;
                     }
                     return a.name < b.name;
                   });
  return out;
}

}  // namespace stepcast::planner
