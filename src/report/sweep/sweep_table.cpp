// A sweep as CSV, JSON and a table in the terminal.
#include <fmt/format.h>

#include <algorithm>

#include "../record/tables.h"
#include "../text/format.h"
#include "../words/fit_words.h"
#include "../words/sentences.h"
#include "stepcast/report/sweep.h"
#include "sweep_axes.h"
#include "sweep_columns.h"
#include "sweep_conclusion.h"

namespace stepcast::report {
namespace {

using result::Sweep;
using result::SweepAxis;
using result::SweepPoint;

Record axis_fields(const SweepAxis& axis) {
  const auto position = [](const std::vector<std::string>& values) { return Value(values); };
  return {{"keys", axis.keys}, {"values", list(axis.values, position, false)}};
}

Record point_fields(const SweepPoint& p) {
  Record out = {
      {"overrides", p.overrides}, {"ran", p.ran}, {"fits", if_known(p.ran, fit_value(p.fits))}};
  if (!p.reason.empty()) {
    append(out, {{"fault", p.key}, {"reason", p.reason}});
  }
  if (!p.strategy.empty()) {
    out.push_back({"strategy", p.strategy});
  }
  if (p.ran) {
    append(out, sweep_figures(p));
  }
  return out;
}

std::vector<std::string> cells_of(const Sweep& sweep, const SweepPoint& p) {
  std::vector<std::string> out;
  for (std::size_t i = 0; i < sweep.axes.size(); ++i) {
    out.push_back(axis_label(sweep.axes[i], p.at[i]));
  }
  return out;
}

// Remarks after a row, and the reasons that rows do not run or fit, which are listed once below the
// table.
class Notes {
 public:
  std::string of(const SweepPoint& p) {
    std::string out;
    if (!p.reason.empty()) {
      const std::string text = fmt::format("{}: {}", p.key, p.reason);
      auto at = std::find_if(reasons_.begin(), reasons_.end(),
                             [&](const auto& known) { return known.first == text; });
      at = at == reasons_.end() ? reasons_.insert(at, {text, 0}) : at;
      ++at->second;
      out = fmt::format("[{}]", at - reasons_.begin() + 1);
    }
    for (const std::string& text : p.strategy) {
      out += (out.empty() ? "" : " ") + text.substr(text.find('.') + 1);
    }
    return out;
  }

  std::string text(int width) const {
    constexpr std::size_t kMaxReasons = 20;
    std::string out;
    for (std::size_t i = 0; i < std::min(kMaxReasons, reasons_.size()); ++i) {
      const auto& [reason, rows] = reasons_[i];
      const std::string many = rows > 1 ? fmt::format(" ({} rows)", rows) : "";
      out += "  " + wrap(fmt::format("[{}] {}{}", i + 1, reason, many), width, 6) + "\n";
    }
    return reasons_.size() > kMaxReasons
               ? out + fmt::format("  and {} other reasons\n", reasons_.size() - kMaxReasons)
               : out;
  }

 private:
  std::vector<std::pair<std::string, int>> reasons_;
};

const Captions& terminal_columns() {
  static const Captions columns = {"GPUs",
                                   {"step time", "step"},
                                   {"tokens/s/GPU", "tok/s/GPU"},
                                   "MFU",
                                   {"tokens/s", "tok/s"},
                                   {"efficiency", "effic."},
                                   "peak GiB",
                                   "fits",
                                   "exposed",
                                   "bubble",
                                   "GPU-h/B tok."};
  return columns;
}

void add_row(TextTable& table, Notes& notes, const Sweep& sweep, const SweepPoint& p) {
  std::vector<std::string> cells = cells_of(sweep, p);
  const auto figures = p.ran ? text_row(sweep_figures(p), terminal_columns())
                             : std::vector<std::string>(terminal_columns().size(), "-");
  cells.insert(cells.end(), figures.begin(), figures.end());
  cells.push_back(notes.of(p));
  table.row(std::move(cells));
}

TextTable table_of(const Sweep& sweep) {
  std::vector<TextTable::Column> columns;
  for (const SweepAxis& axis : sweep.axes) {
    columns.push_back({short_name(axis, sweep)});
  }
  for (const Pick& pick : terminal_columns()) {
    columns.push_back({std::string(pick.heading)});
  }
  columns.push_back({sweep.objective.empty() ? "" : "strategy", TextTable::Align::left});
  return TextTable(std::move(columns));
}

std::string counts(const Sweep& sweep) {
  std::size_t ran = 0, fit = 0;
  for (const SweepPoint& p : sweep.points) {
    ran += p.ran ? 1 : 0;
    fit += p.fits ? 1 : 0;
  }
  return fmt::format("{} points: {} fit, {} do not fit, {} impossible",
                     thousands(static_cast<std::int64_t>(sweep.points.size())),
                     thousands(static_cast<std::int64_t>(fit)),
                     thousands(static_cast<std::int64_t>(ran - fit)),
                     thousands(static_cast<std::int64_t>(sweep.points.size() - ran)));
}

}  // namespace

Record sweep_figures(const SweepPoint& p) {
  const std::string hours = significant(p.gpu_hours_per_gigatoken) + (p.on_front ? " *" : "  ");
  return {
      {"nodes", p.nodes},
      {"gpus", p.gpus, "GPUs", Show::count},
      {"step_time", Interval{p.step_time, true}, "step time", Show::duration},
      {"tokens_per_second", p.tokens_per_second, "tokens/s", Show::four},
      {"tokens_per_second_per_gpu", p.tokens_per_second_per_gpu, "tokens/s/GPU", Show::four},
      {"model_flops_per_gpu", p.model_flops_per_gpu},
      {"mfu", p.mfu, "MFU", Show::percent},
      {"hfu", p.hfu},
      {"efficiency", p.efficiency, "efficiency", Show::percent},
      {"peak", p.peak, "peak GiB", Show::gib},
      {"capacity", p.capacity},
      {"bubble_fraction", p.bubble_fraction, "bubble", Show::percent},
      {"exposed", p.exposed},
      {"", p.exposed / p.step_time.value, "exposed", Show::percent},
      {"gpu_seconds", p.gpu_seconds},
      {"gpu_hours_per_gigatoken", p.gpu_hours_per_gigatoken, "GPU-h / 1e9 tokens", Show::four},
      {"", hours, "GPU-h/B tok.", Show::number},
      {"", fit_words(p.fits), "fits", Show::number},
      {"on_front", p.on_front},
  };
}

std::string csv(const Sweep& sweep) {
  const auto columns = sweep_columns(sweep);
  std::string out;
  for (const SweepColumn& column : columns) {
    out += (out.empty() ? "" : ",") + csv_cell(column.name);
  }
  out += "\n";
  for (const SweepPoint& p : sweep.points) {
    Record record;
    for (const SweepColumn& column : columns) {
      record.push_back({column.name, column.of(p)});
    }
    out += csv_line(record);
  }
  return out;
}

std::string csv_columns(const Sweep& sweep) {
  const auto column = [](const SweepColumn& c) -> Record {
    return {{"name", c.name}, {"type", c.type}, {"unit", c.unit}, {"what", c.what}};
  };
  return csv_of(column({}), records(sweep_columns(sweep), column));
}

std::string json(const Sweep& sweep) {
  return json_of({{"schema", kFitSchema},
                  {"conclusion", conclusion(sweep)},
                  {"title", sweep.title},
                  {"fidelity", sweep.fidelity},
                  {"objective", sweep.objective},
                  {"overrides", sweep.overrides},
                  {"scaling_axis", sweep.scaling_axis},
                  {"axes", blocks(sweep.axes, axis_fields)},
                  {"points", blocks(sweep.points, point_fields)}});
}

std::string terminal(const Sweep& sweep, bool colour, int width) {
  // A long sweep shows its first rows and those on its front.
  constexpr std::size_t kRows = 200;
  const Paint paint{colour};
  std::string out = opening(paint, conclusion(sweep), sweep.title, width);
  out += "  " + counts(sweep);
  if (!sweep.objective.empty()) {
    out += fmt::format("; each point has the best strategy by {}", sweep.objective);
  }
  TextTable table = table_of(sweep);
  Notes notes;
  for (std::size_t i = 0; i < std::min(kRows, sweep.points.size()); ++i) {
    add_row(table, notes, sweep, sweep.points[i]);
  }
  out += "\n\n" + table.text(paint, width) + notes.text(width);
  if (sweep.points.size() > kRows) {
    out += fmt::format("  and {} more: --csv FILE has all of them\n",
                       thousands(static_cast<std::int64_t>(sweep.points.size() - kRows)));
    TextTable front = table_of(sweep);
    Notes none;  // points of the front run and fit
    std::size_t rows = 0;
    for (const SweepPoint& p : sweep.points) {
      if (p.on_front && rows++ < kRows) {
        add_row(front, none, sweep, p);
      }
    }
    out += "\n" + paint("1", "Front of time against cost") + "\n" + front.text(paint, width);
  }
  std::string legend;
  if (sweep.scaling_axis) {
    legend = fmt::format("effic.: tokens/s/GPU relative to the fewest GPUs along {}; ",
                         axis_name(sweep.axes[*sweep.scaling_axis]));
  }
  return out + "  " +
         wrap(legend +
                  "GPU-h/B tok.: GPU-hours per billion tokens; *: Pareto-optimal in time and cost",
              width, 2) +
         "\n";
}

}  // namespace stepcast::report
