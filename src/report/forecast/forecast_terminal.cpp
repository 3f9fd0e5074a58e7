// A forecast in the order in which a capacity planner asks: step time, efficiency, whether it fits;
// the parts of the time; the parts of memory; exposed communication; and the calibration that it
// rests on.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>

#include "../memory/memory_kinds.h"
#include "../record/tables.h"
#include "../run/run_parts.h"
#include "../text/bar.h"
#include "../words/fit_words.h"
#include "../words/job_line.h"
#include "forecast_conclusion.h"
#include "forecast_fields.h"
#include "stepcast/report/advice.h"
#include "stepcast/report/report.h"
#include "stepcast/report/run_cost.h"
#include "time_kinds.h"
#include "traffic_words.h"

namespace stepcast::report {
namespace {

using result::Report;
using result::StageBreakdown;
using result::StageMemory;
using Align = TextTable::Align;

constexpr int kMinWidth = 80;  // narrower terminals break the lines
constexpr int kMinBar = 16;
constexpr int kMaxBar = 64;
// Of more stages: the first, the worst, the last and the mean.
constexpr std::size_t kMaxStages = 16;
constexpr std::size_t kMaxTraffic = 8;
constexpr std::size_t kMaxCurves = 6;
constexpr int kOtherColumns = 60;  // width of the table of communication without its operations

constexpr BarKind kFree{"free", "·", "2"};

// ---------------------------------------------------------------- time per stage

using Shares = std::array<double, kTimeKinds.size()>;  // seconds

Shares shares_of(const StageBreakdown& stage) {
  Shares shares{};
  for (std::size_t i = 0; i < kTimeKinds.size(); ++i) {
    shares[i] = to_seconds(result::part_of(stage, kTimeKinds[i].category));
  }
  return shares;
}

double total(const Shares& shares) { return std::accumulate(shares.begin(), shares.end(), 0.0); }

double sum_of(const Shares& shares, TimeKind::Sum sum) {
  double seconds = 0;
  for (std::size_t i = 0; i < kTimeKinds.size(); ++i) {
    seconds += kTimeKinds[i].sum == sum ? shares[i] : 0;
  }
  return seconds;
}

template <std::size_t n>
std::array<double, n> mean_of(const std::vector<std::array<double, n>>& all) {
  std::array<double, n> mean{};
  for (const auto& one : all) {
    for (std::size_t i = 0; i < n; ++i) {
      mean[i] += one[i] / static_cast<double>(all.size());
    }
  }
  return mean;
}

// The stages that have a row: all of them, or the first, the worst and the last. `worst` is an
// index.
std::vector<std::size_t> picked(std::size_t stages, std::size_t worst) {
  std::vector<std::size_t> rows;
  for (std::size_t i = 0; i < stages; ++i) {
    if (stages <= kMaxStages || i == 0 || i == worst || i + 1 == stages) {
      rows.push_back(i);
    }
  }
  return rows;
}

std::string breakdown(const Report& report, const Paint& paint, int width) {
  if (report.breakdown.empty()) {
    return "";
  }
  std::vector<Shares> all;
  double longest = 0;
  for (const StageBreakdown& stage : report.breakdown) {
    all.push_back(shares_of(stage));
    longest = std::max(longest, total(all.back()));
  }
  const Shares mean = mean_of(all);
  const auto busy = [&](std::size_t i) {
    return sum_of(all[i], TimeKind::Sum::compute) + sum_of(all[i], TimeKind::Sum::exposed);
  };
  std::size_t worst = 0;
  for (std::size_t i = 1; i < all.size(); ++i) {
    worst = busy(i) > busy(worst) ? i : worst;
  }
  TextTable table({{"stage", Align::left},
                   {"", Align::left, true},
                   {"compute"},
                   {"exposed"},
                   {"bubble"},
                   {"rest"}});
  std::vector<std::pair<std::string, Shares>> rows;
  for (const std::size_t i : picked(all.size(), worst)) {
    const bool marked = all.size() > kMaxStages && i == worst;
    rows.emplace_back(fmt::format("{}{}", report.breakdown[i].stage, marked ? " (busiest)" : ""),
                      all[i]);
  }
  if (all.size() > kMaxStages) {
    rows.emplace_back(fmt::format("mean of {}", all.size()), mean);
  }
  std::vector<BarKind> kinds(kTimeKinds.size());
  std::transform(kTimeKinds.begin(), kTimeKinds.end(), kinds.begin(),
                 [](const TimeKind& kind) { return kind.kind; });
  const auto fill = [&](TextTable& into, int bar) {
    for (const auto& row : rows) {
      const Shares& shares = row.second;
      const auto part = [&](TimeKind::Sum sum) {
        return percent(longest > 0 ? sum_of(shares, sum) / longest : 0);
      };
      into.row(
          {row.first,
           stacked_bar(kinds, {shares.begin(), shares.end()}, longest, bar, {"", " ", ""}, paint),
           part(TimeKind::Sum::compute), part(TimeKind::Sum::exposed), part(TimeKind::Sum::bubble),
           part(TimeKind::Sum::rest)});
    }
  };
  TextTable measure = table;
  fill(measure, 0);
  const int bar = std::clamp(width - measure.width_without_bar(), kMinBar, kMaxBar);
  fill(table, bar);
  std::vector<std::string> values;
  for (std::size_t i = 0; i < kTimeKinds.size(); ++i) {
    const double share = longest > 0 ? mean[i] / longest : 0;
    values.push_back(share >= kMinShare ? percent(share) : "");
  }
  return heading(paint, "Where the step goes",
                 fmt::format("one column: {}; letters: exposed communication and other waits",
                             duration(longest / bar)),
                 width) +
         table.text(paint, width, bar) + legend(kinds, values, width, paint);
}

// ---------------------------------------------------------------- memory per stage

using Parts = std::array<double, kMemoryKinds.size()>;  // bytes

Parts parts_of(const StageMemory& m) {
  const auto bytes = [](Bytes b) { return static_cast<double>(b.count()); };
  Parts out{};
  for (std::size_t i = 0; i < result::kMemoryParts.size(); ++i) {
    out[i] = bytes(m.*result::kMemoryParts[i]);
  }
  out[result::kMemoryParts.size()] = bytes(std::max(Bytes(0), m.reserved - m.allocated));
  out.back() = bytes(std::max(Bytes(0), m.process - std::max(m.reserved, m.allocated)));
  return out;
}

std::string memory(const Report& report, const Paint& paint, int width) {
  if (report.memory.empty()) {
    return "";
  }
  std::size_t worst = 0;
  std::vector<Parts> all;
  for (std::size_t i = 0; i < report.memory.size(); ++i) {
    all.push_back(parts_of(report.memory[i]));
    worst = report.memory[i].process > report.memory[worst].process ? i : worst;
  }
  const auto capacity = static_cast<double>(report.capacity.count());
  const double whole =
      std::max(capacity, static_cast<double>(report.memory[worst].process.count()));
  std::vector<std::pair<std::string, Parts>> rows;
  for (const std::size_t i : picked(all.size(), worst)) {
    const bool marked = all.size() > kMaxStages && i == worst;
    rows.emplace_back(fmt::format("{}{}", report.memory[i].stage, marked ? " (most)" : ""), all[i]);
  }
  if (all.size() > kMaxStages) {
    rows.emplace_back(fmt::format("mean of {}", all.size()), mean_of(all));
  }
  const auto fill = [&](TextTable& table, int bar) {
    for (const auto& [name, parts] : rows) {
      const double process = std::accumulate(parts.begin(), parts.end(), 0.0);
      table.row({name,
                 stacked_bar({kMemoryKinds.begin(), kMemoryKinds.end()},
                             {parts.begin(), parts.end()}, whole, bar, kFree, paint, capacity),
                 gibibytes(parts[0]), gibibytes(parts[1]), gibibytes(parts[2]), gibibytes(parts[3]),
                 gibibytes(process - parts[0] - parts[1] - parts[2] - parts[3]), gibibytes(process),
                 capacity > 0 ? percent(process / capacity) : "-"});
    }
  };
  TextTable table({{"stage", Align::left},
                   {"", Align::left, true},
                   {"param."},
                   {"grad."},
                   {"optim."},
                   {"activ."},
                   {"rest"},
                   {"peak"},
                   {"used"}});
  TextTable measure = table;
  fill(measure, 0);
  const int bar = std::clamp(width - measure.width_without_bar(), kMinBar, kMaxBar);
  fill(table, bar);
  std::vector<std::string> values;
  for (std::size_t i = 0; i < kMemoryKinds.size(); ++i) {
    const double most = all[worst][i];
    values.push_back(most >= kMinShare * whole ? gibibytes(most) : "");
  }
  return heading(paint, "Memory per GPU at its peak",
                 fmt::format("GiB; bar: {}; list: stage {}",
                             whole > capacity
                                 ? fmt::format("{}, !: beyond the capacity", gibibytes(whole))
                                 : fmt::format("capacity, {}", gibibytes(capacity)),
                             report.memory[worst].stage),
                 width) +
         table.text(paint, width, bar) +
         legend({kMemoryKinds.begin(), kMemoryKinds.end()}, values, width, paint);
}

// ---------------------------------------------------------------- communication

// The category of the breakdown that a group's exposed communication belongs to.
std::string_view category_of(std::string_view group) {
  if (group == "data replicas") {
    return "data";
  }
  return group == "embedding" || group == "norm" ? "other" : group;
}

// Exposed time of the group's category on the stage where it is longest; below zero for a group
// that has none.
Time exposed(const Report& report, std::string_view group) {
  const std::string_view category = category_of(group);
  Time most{-1};
  for (const TimeKind& kind : kTimeKinds) {
    if (kind.sum == TimeKind::Sum::exposed && kind.kind.name == category) {
      for (const StageBreakdown& stage : report.breakdown) {
        most = std::max(most, result::part_of(stage, kind.category));
      }
    }
  }
  return most;
}

std::string traffic(const Report& report, const Paint& paint, int width) {
  std::vector<result::Traffic> rows = report.traffic;
  // The groups with the longest exposed time come first; in a group, the operation that takes
  // longest.
  std::stable_sort(rows.begin(), rows.end(), [&](const auto& a, const auto& b) {
    const Time of_a = exposed(report, a.group);
    const Time of_b = exposed(report, b.group);
    if (of_a != of_b) {
      return of_a > of_b;
    }
    return a.group != b.group ? a.group < b.group : a.time > b.time;
  });
  if (rows.empty()) {
    return "";
  }
  TextTable table({{"group", Align::left},
                   {"exposed"},
                   {"operation", Align::left},
                   {"count"},
                   {"data"},
                   {"time"},
                   {"rate"}});
  std::string group;
  std::map<std::string_view, std::string>
      first_of;  // the first group of each category, which alone shows its time
  const std::size_t shown = std::min(rows.size(), kMaxTraffic);
  for (std::size_t i = 0; i < shown; ++i) {
    const result::Traffic& row = rows[i];
    const bool first = row.group != group;
    group = row.group;
    const double time = to_seconds(row.time);
    const Time waited = exposed(report, group);
    const std::string& owner = first_of.try_emplace(category_of(row.group), group).first->second;
    table.row({first ? group_words(group) : "",
               !first             ? ""
               : waited < Time{0} ? "-"
               : owner != group   ? "in " + group_words(owner)
                                  : duration(to_seconds(waited)),
               shorten(operation_words(row.op), std::max(12, width - kOtherColumns)),
               thousands(row.count), data_size(static_cast<double>(row.bytes.count())),
               duration(time),
               time > 0 ? rate(static_cast<double>(row.bytes.count()) / time) : "-"});
  }
  std::string out = heading(paint, "Communication",
                            "per GPU and step; exposed: on the stage where it is longest", width) +
                    table.text(paint, width);
  if (rows.size() > shown) {
    out += fmt::format("  and {} more\n", rows.size() - shown);
  }
  return out;
}

// ---------------------------------------------------------------- headlines

std::string headlines(const Report& report, const Paint& paint) {
  std::string out;
  const auto line = [&](std::string_view name, const std::string& value, const std::string& unit,
                        const std::string& range, std::string_view sgr = "1") {
    // Text is padded before it is coloured, since escape codes have no width.
    out += "  " + pad_right(std::string(name), 18) + paint(sgr, pad_left(value, 10)) + " " +
           pad_right(unit, 17) + paint("2", range);
    out.erase(out.find_last_not_of(' ') + 1);
    out += '\n';
  };
  out += paint("2", std::string(48, ' ') + "90 % interval") + "\n";
  const TimeUnit unit = unit_for(report.step_time.value);
  line("Step time", significant(report.step_time.value * unit.per_second), std::string(unit.name),
       range(report.step_time, unit.per_second));
  if (report.tokens > 0) {  // a capture may not know them
    line("Throughput", significant(report.tokens_per_second_per_gpu.value), "tokens/s/GPU",
         range(report.tokens_per_second_per_gpu, 1));
  }
  constexpr double kTera = 1e-12;
  line("Model FLOPs", significant(report.model_flops_per_gpu.value * kTera), "TFLOP/s/GPU",
       range(report.model_flops_per_gpu, kTera));
  line("MFU", significant(100 * report.mfu.value, 3), "%", range(report.mfu, 100, 3));
  line("HFU", significant(100 * report.hfu.value, 3), "%", range(report.hfu, 100, 3));
  constexpr double kPerGiB = 1 / kGibibyte;
  const auto capacity = static_cast<double>(report.capacity.count());
  if (report.memory.empty()) {  // a bound has no timeline and no memory per stage
    if (capacity > 0) {
      line("Peak memory", significant(report.peak.value * kPerGiB),
           fmt::format("of {} GiB at least", gibibytes(capacity)), "");
    }
    if (!report.fits) {
      line("Fits", "NO",
           fmt::format("{} GiB too much at least", gibibytes(report.peak.value - capacity)), "",
           "1;31");
    }
    return out;
  }
  line("Pipeline bubble", significant(100 * report.bubble_fraction, 3), "% of the step", "");
  line("Peak memory", significant(report.peak.value * kPerGiB),
       fmt::format("of {} GiB", gibibytes(capacity)), range(report.peak, kPerGiB));
  if (report.fits.frees_cache && report.fits.needed) {
    line("  runs in", significant(report.fits.needed->value * kPerGiB), "GiB",
         range(*report.fits.needed, kPerGiB));
  }
  const auto elsewhere = [&](const char* name, Bytes used, Bytes room) {
    if (used > Bytes(0)) {
      line(name, significant(static_cast<double>(used.count()) * kPerGiB),
           fmt::format("of {} GiB a node", gibibytes(static_cast<double>(room.count()))), "");
    }
  };
  elsewhere("Host memory", report.host_used, report.host_capacity);
  elsewhere("NVMe", report.nvme_used, report.nvme_capacity);
  const std::string verdict = fit_verdict(report.fits);
  const bool open = result::verdict_of(report.fits) == result::Verdict::borderline;
  const std::string sure = is_in_doubt(report.fits)
                               ? fmt::format("; probability {}", chance(*report.fits.probability))
                               : "";
  const auto spare = static_cast<double>(report.fits.spare.count());
  if (report.fits) {
    line("Fits", verdict, fmt::format("{} GiB to spare{}", gibibytes(spare), sure), "",
         open ? "1;33" : "1;32");
  } else {
    const auto too_much = [&](const char* of, Bytes used, Bytes room) {
      if (used > room) {
        line("Fits", "NO",
             fmt::format("{} GiB too much of a node's {}",
                         gibibytes(static_cast<double>((used - room).count())), of),
             "", "1;31");
      }
    };
    too_much("host memory", report.host_used, report.host_capacity);
    too_much("NVMe", report.nvme_used, report.nvme_capacity);
    const bool node_full =
        report.host_used > report.host_capacity || report.nvme_used > report.nvme_capacity;
    if (node_full && report.peak.value <= capacity) {
      return out;
    }
    int stage = 0;
    Bytes most(-1);
    for (const StageMemory& m : report.memory) {
      stage = m.process > most ? m.stage : stage;
      most = std::max(most, m.process);
    }
    line("Fits", verdict,
         fmt::format("{} GiB too much on stage {}{}", gibibytes(-spare), stage, sure), "",
         open ? "1;33" : "1;31");
  }
  return out;
}

std::string notes_text(const Report& report, std::size_t from, const Paint& paint, int width) {
  std::string out;
  if (report.notes.size() > from) {
    out += heading(paint, "Notes");
    for (std::size_t i = from; i < report.notes.size(); ++i) {
      out += "  - " + wrap(report.notes[i], width, 4) + "\n";
    }
  }
  return out;
}

std::string foundations(const Report& report, const Paint& paint, int width) {
  std::string out;
  if (!report.calibration.empty()) {
    const std::size_t shown = std::min(report.calibration.size(), kMaxCurves);
    std::vector<result::CalibrationUse> some(
        report.calibration.begin(),
        report.calibration.begin() + static_cast<std::ptrdiff_t>(shown));
    for (result::CalibrationUse& use : some) {
      use.file = shorten(use.file, 40);
    }
    out += heading(paint, "Calibration") +
           text_table(some, calibration_use_fields, {"curves", "device", "residual", "provenance"})
               .text(paint, width);
    if (report.calibration.size() > shown) {
      out += fmt::format("  and {} more\n", report.calibration.size() - shown);
    }
    out += '\n';
  }
  if (!report.notes.empty()) {
    out += notes_text(report, 0, paint, width) + '\n';
  }
  return report.engine.events == 0
             ? out
             : out + paint("2", wrap(engine_line(report.engine), width, 0)) + "\n";
}

}  // namespace

std::string terminal(const Report& report, bool colour, int width) {
  return terminal(report, std::nullopt, colour, width);
}

std::string terminal(const Report& report, const std::optional<result::RunCost>& run, bool colour,
                     int width) {
  width = std::max(width, kMinWidth);
  const Paint paint{colour};
  std::string out = paint("1", wrap(conclusion(report), width, 0)) + "\n\n" + report.title + "\n";
  if (const std::string job = job_line(report.job_json, report.engine.ranks); !job.empty()) {
    out += wrap(job, width, 0) + "\n";
  }
  if (const std::string facts = job_facts(report); !facts.empty()) {
    out += wrap(facts, width, 0) + "\n";
  }
  out += headlines(report, paint);
  for (const std::string& section :
       {run ? run_text(*run, paint, width) : std::string(), breakdown(report, paint, width),
        memory(report, paint, width), traffic(report, paint, width),
        foundations(report, paint, width)}) {
    if (!section.empty()) {
      out += "\n" + section;
    }
  }
  return out + advice_text(report, report.notes.size(), colour, width);
}

std::string advice_text(const Report& report, std::size_t note, bool colour, int width) {
  width = std::max(width, kMinWidth);
  const Paint paint{colour};
  std::string out;
  if (!report.advice.empty()) {
    const auto row = [&](const result::Advice& a) {
      return advice_fields(a, report.step_time.value);
    };
    out +=
        "\n" + heading(paint, "Changes with which the job fits in memory, the fastest first") +
        text_table(report.advice, row, {"--set", "peak", "fits", "step time", "against this job"})
            .text(paint, width);
  }
  const std::string notes = notes_text(report, note, paint, width);
  return notes.empty() ? out : out + "\n" + notes;
}

}  // namespace stepcast::report
