#include "gpu_once.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

namespace stepcast::interop {
namespace {

// If two medians of one case differ by more than this factor, it is not noise: the machine changed
// in between.
constexpr double kContradiction = 1.5;

int line_of(const GpuMeasurements& all, std::size_t i) { return all.measurements[i].line; }

std::string lines_of(const GpuMeasurements& all, const std::vector<std::size_t>& some) {
  std::string out;
  for (std::size_t i = 0; i < some.size(); ++i) {
    out += (i == 0                 ? ""
            : i + 1 == some.size() ? " and "
                                   : ", ") +
           std::to_string(line_of(all, some[i]));
  }
  return out;
}

}  // namespace

void keep_one_each(GpuMeasurements& out) {
  std::map<std::string, std::vector<std::size_t>> cases;
  for (std::size_t i = 0; i < out.measurements.size(); ++i) {
    cases[to_string(out.measurements[i].what)].push_back(i);
  }
  std::vector<Fault> warnings;
  std::set<std::size_t> gone;
  for (const auto& [name, all] : cases) {
    if (all.size() < 2) {
      continue;
    }
    std::vector<std::size_t> timed;
    for (const std::size_t i : all) {
      if (out.measurements[i].skipped.empty()) {
        timed.push_back(i);
      }
    }
    double least = 0;
    double most = 0;
    for (const std::size_t i : timed) {
      const double t = out.measurements[i].time.median;
      least = least == 0 ? t : std::min(least, t);
      most = std::max(most, t);
    }
    if (most > kContradiction * least) {
      gone.insert(all.begin(), all.end());
      warnings.push_back(
          {{out.file, line_of(out, all.back()), 1},
           fmt::format("{}: the times of lines {} are a factor of {:.2f} apart; all are left out",
                       name, lines_of(out, all), most / least)});
      continue;
    }
    const std::size_t kept = timed.empty() ? all.back() : timed.back();
    std::vector<std::size_t> others;
    for (const std::size_t i : all) {
      if (i != kept) {
        others.push_back(i);
        gone.insert(i);
      }
    }
    warnings.push_back({{out.file, line_of(out, others.front()), 1},
                        fmt::format("{} is repeated at line {}; line{} {} left out", name,
                                    line_of(out, kept), others.size() > 1 ? "s" : "",
                                    lines_of(out, others) + (others.size() > 1 ? " are" : " is"))});
  }
  std::vector<GpuMeasurement> rest;
  for (std::size_t i = 0; i < out.measurements.size(); ++i) {
    if (gone.count(i) == 0) {
      rest.push_back(std::move(out.measurements[i]));
    }
  }
  out.measurements = std::move(rest);
  out.warnings.insert(out.warnings.end(), warnings.begin(), warnings.end());
  std::stable_sort(out.warnings.begin(), out.warnings.end(),
                   [](const Fault& a, const Fault& b) { return a.where.line < b.where.line; });
}

}  // namespace stepcast::interop
