#include "forecast_conclusion.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>
#include <vector>

#include "../text/format.h"
#include "../words/fit_words.h"

namespace stepcast::report {
namespace {

using program::Category;
using result::Report;

// What a step loses time to, beside the products that it exists for.
struct Loss {
  Category category;
  std::string_view words;
};
constexpr Loss kLosses[] = {
    {Category::recompute, "recomputation"},
    {Category::slowdown, "compute slowed beside communication"},
    {Category::tensor, "exposed tensor-parallel communication"},
    {Category::context, "exposed context-parallel communication"},
    {Category::expert, "exposed expert-parallel communication"},
    {Category::pipeline, "exposed pipeline communication"},
    {Category::data, "exposed data-parallel communication"},
    {Category::offload, "waiting for offloaded data"},
    {Category::other, "other exposed communication"},
    {Category::optimizer, "the optimizer"},
    {Category::host, "waiting for the host"},
    {Category::stall, "stalls"},
    {Category::bubble, "pipeline bubble"},
};
constexpr double kWorthNaming = 0.05;  // share of the step
constexpr std::size_t kMostNamed = 2;

std::vector<std::string> largest_losses(const Report& report) {
  const double step = report.step_time.value * static_cast<double>(report.breakdown.size());
  std::vector<std::pair<double, std::string_view>> found;
  for (const Loss& loss : kLosses) {
    double seconds = 0;
    for (const result::StageBreakdown& stage : report.breakdown) {
      seconds += to_seconds(result::part_of(stage, loss.category));
    }
    if (step > 0 && seconds >= kWorthNaming * step) {
      found.emplace_back(seconds / step, loss.words);
    }
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<std::string> out;
  for (std::size_t i = 0; i < std::min(found.size(), kMostNamed); ++i) {
    out.push_back(fmt::format("{:.0f} % {}", 100 * found[i].first, found[i].second));
  }
  return out;
}

// Curves that price less of the step than this are not worth a warning.
constexpr double kWorthWarning = 0.02;

// What was not measured, of what kind, and whether nothing of that kind was: a job that offloads
// may rest on measured products and on the data sheet's copies.
std::string unmeasured(double share, bool some_measured, const char* none, const char* some) {
  if (share < kWorthWarning) {
    return "";
  }
  return some_measured
             ? fmt::format(" {:.0f} % of the step rests on the data sheet: {}.", 100 * share, some)
             : fmt::format(" {}.", none);
}

std::string warning(const Report& report) {
  double device = 0, network = 0, kind = 0;  // shares of the step
  double measured_device = 0, measured_network = 0;
  for (const result::CalibrationUse& use : report.calibration) {
    switch (use.basis) {
      case result::Basis::data_sheet:
        (use.network ? network : device) += use.share;
        break;
      case result::Basis::of_kind:
        kind += use.share;
        break;
      case result::Basis::measured:
        (use.network ? measured_network : measured_device) += use.share;
        break;
    }
  }
  const std::string collectives =
      unmeasured(network, measured_network >= kWorthWarning,
                 "No collective was measured on this network: its times are the data sheet's",
                 "collectives that were not measured on this network");
  return unmeasured(device, measured_device >= kWorthWarning,
                    "No kernel of this device was measured: its times are the data sheet's",
                    "kernels or copies that were not measured on this device") +
         (collectives.empty()
              ? unmeasured(kind, false,
                           "No collective was measured on this cluster: its times are those of "
                           "others with the same kind of link",
                           "")
              : collectives);
}

std::string large_number(double value) {
  return value >= 1e12  ? significant(value / 1e12, 3) + " T"
         : value >= 1e9 ? significant(value / 1e9, 3) + " B"
                        : significant(value / 1e6, 3) + " M";
}

}  // namespace

std::string conclusion(const Report& report) {
  const bool least = report.engine.fidelity == "bound";
  std::string out =
      fmt::format("{}{} a step", least ? "At least " : "", duration(report.step_time.value));
  if (report.mfu.value > 0) {
    out += fmt::format("{}{} % MFU", least ? ", at most " : " at ",
                       significant(100 * report.mfu.value, 3));
  }
  const std::vector<std::string> losses = largest_losses(report);
  if (!losses.empty()) {
    out += fmt::format(" ({})", fmt::join(losses, ", "));
  }
  return out + "; " + fit_clause(report.fits) + "." + warning(report);
}

std::string job_facts(const Report& report) {
  if (report.parameters <= 0) {
    return "";
  }
  std::string out = large_number(report.parameters) + " parameters";
  if (report.active_parameters > 0 && report.active_parameters < report.parameters) {
    out += fmt::format(" ({} active)", large_number(report.active_parameters));
  }
  out += fmt::format(", {} tokens a step", large_number(report.tokens));
  const auto job = nlohmann::json::parse(report.job_json, nullptr, false);
  if (job.is_object() && job.contains("kernels") && job["kernels"].is_object() &&
      job["kernels"].contains("attention") && job["kernels"]["attention"].is_string()) {
    const auto device = nlohmann::json::json_pointer("/cluster/device/vendor");
    const std::string attention = job["kernels"]["attention"].get<std::string>();
    // A TPU runs splash attention whichever fused kernel the job names.
    const bool splash = attention != "unfused" && job.contains(device) && job[device] == "google";
    out += ", attention " + (splash ? "splash" : attention);
  }
  return out;
}

}  // namespace stepcast::report
