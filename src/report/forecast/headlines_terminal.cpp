// The headlines of a forecast: name, value, unit and 90 % interval of each figure in columns.
#include <fmt/format.h>

#include <string>

#include "../words/fit_words.h"
#include "terminal_sections.h"

namespace stepcast::report {
namespace {

using result::Report;
using result::StageMemory;

constexpr double kPerGiB = 1 / kGibibyte;
constexpr const char* kGood = "1;32";
constexpr const char* kBad = "1;31";
constexpr const char* kOpen = "1;33";  // it may or may not fit

std::string speed_lines(const Report& report, const Paint& paint) {
  const TimeUnit unit = unit_for(report.step_time.value);
  std::string out =
      figure_line(paint, "Step time", significant(report.step_time.value * unit.per_second),
                  std::string(unit.name), range(report.step_time, unit.per_second));
  if (report.tokens > 0) {  // a capture may not know them
    out += figure_line(paint, "Throughput", significant(report.tokens_per_second_per_gpu.value),
                       "tokens/s/GPU", range(report.tokens_per_second_per_gpu));
  }
  constexpr double kTera = 1e-12;
  out += figure_line(paint, "Model FLOPs", significant(report.model_flops_per_gpu.value * kTera),
                     "TFLOP/s/GPU", range(report.model_flops_per_gpu, kTera));
  out += figure_line(paint, "MFU", significant(100 * report.mfu.value, 3), "%",
                     range(report.mfu, 100, 3));
  return out + figure_line(paint, "HFU", significant(100 * report.hfu.value, 3), "%",
                           range(report.hfu, 100, 3));
}

// Memory of a bound, which has no timeline and no memory per stage.
std::string least_memory_lines(const Report& report, const Paint& paint) {
  const double capacity = bytes_of(report.capacity);
  std::string out;
  if (capacity > 0) {
    out += figure_line(paint, "Peak memory", significant(report.peak.value * kPerGiB),
                       fmt::format("of {} GiB at least", gibibytes(capacity)));
  }
  if (!report.fits) {
    out += figure_line(
        paint, "Fits", "NO",
        fmt::format("{} GiB too much at least", gibibytes(report.peak.value - capacity)), "", kBad);
  }
  return out;
}

std::string memory_lines(const Report& report, const Paint& paint) {
  std::string out = figure_line(paint, "Peak memory", significant(report.peak.value * kPerGiB),
                                fmt::format("of {} GiB", gibibytes(bytes_of(report.capacity))),
                                range(report.peak, kPerGiB));
  if (report.fits.frees_cache && report.fits.needed) {
    out += figure_line(paint, "  runs in", significant(report.fits.needed->value * kPerGiB), "GiB",
                       range(*report.fits.needed, kPerGiB));
  }
  const auto elsewhere = [&](const char* name, Bytes used, Bytes room) {
    if (used > Bytes(0)) {
      out += figure_line(paint, name, significant(bytes_of(used) * kPerGiB),
                         fmt::format("of {} GiB a node", gibibytes(bytes_of(room))));
    }
  };
  elsewhere("Host memory", report.host_used, report.host_capacity);
  elsewhere("NVMe", report.nvme_used, report.nvme_capacity);
  return out;
}

// The stage whose GPUs are the fullest, the first among equals.
int fullest_stage(const Report& report) {
  int stage = 0;
  Bytes most(-1);
  for (const StageMemory& m : report.memory) {
    stage = m.process > most ? m.stage : stage;
    most = std::max(most, m.process);
  }
  return stage;
}

std::string fits_lines(const Report& report, const Paint& paint) {
  const std::string verdict = fit_verdict(report.fits);
  const bool open = result::verdict_of(report.fits) == result::Verdict::borderline;
  const std::string sure = is_in_doubt(report.fits)
                               ? fmt::format("; probability {}", chance(*report.fits.probability))
                               : "";
  const double spare = bytes_of(report.fits.spare);
  if (report.fits) {
    return figure_line(paint, "Fits", verdict,
                       fmt::format("{} GiB to spare{}", gibibytes(spare), sure), "",
                       open ? kOpen : kGood);
  }
  std::string out;
  const auto too_much = [&](const char* of, Bytes used, Bytes room) {
    if (used > room) {
      out += figure_line(
          paint, "Fits", "NO",
          fmt::format("{} GiB too much of a node's {}", gibibytes(bytes_of(used - room)), of), "",
          kBad);
    }
  };
  too_much("host memory", report.host_used, report.host_capacity);
  too_much("NVMe", report.nvme_used, report.nvme_capacity);
  if (!out.empty() && report.peak.value <= bytes_of(report.capacity)) {
    return out;
  }
  return out + figure_line(paint, "Fits", verdict,
                           fmt::format("{} GiB too much on stage {}{}", gibibytes(-spare),
                                       fullest_stage(report), sure),
                           "", open ? kOpen : kBad);
}

}  // namespace

std::string headlines_text(const Report& report, const Paint& paint) {
  const std::string out =
      paint("2", fmt::format("{:48}90 % interval", "")) + "\n" + speed_lines(report, paint);
  if (report.memory.empty()) {
    return out + least_memory_lines(report, paint);
  }
  return out +
         figure_line(paint, "Pipeline bubble", significant(100 * report.bubble_fraction, 3),
                     "% of the step") +
         memory_lines(report, paint) + fits_lines(report, paint);
}

}  // namespace stepcast::report
