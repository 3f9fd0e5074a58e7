// A sweep as CSV, JSON and a table in the terminal.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "format.h"
#include "json_writer.h"
#include "stepcast/report/sweep.h"
#include "sweep_axes.h"
#include "sweep_columns.h"
#include "text_table.h"

namespace stepcast::report {
namespace {

using result::Estimate;
using result::Sweep;
using result::SweepAxis;
using result::SweepPoint;

// A cell as RFC 4180 wants it.
std::string quoted(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) {
    return text;
  }
  std::string out = "\"";
  for (const char c : text) {
    out += c == '"' ? "\"\"" : std::string(1, c);
  }
  return out + "\"";
}

struct Written {
  std::string operator()(std::monostate) const { return ""; }
  std::string operator()(std::int64_t v) const { return fmt::format("{}", v); }
  std::string operator()(double v) const { return fmt::format("{}", v); }
  std::string operator()(bool v) const { return v ? "true" : "false"; }
  std::string operator()(const std::string& v) const { return quoted(v); }
};

void write(JsonWriter& json, const char* key, const std::vector<std::string>& texts) {
  json.key(key).array(true);
  for (const std::string& text : texts) {
    json.text(text);
  }
  json.close();
}

void write(JsonWriter& json, const char* key, const Estimate& e) {
  json.key(key).object(true);
  json.key("value").number(e.value).key("low").number(e.low).key("high").number(e.high).close();
}

void write_figures(JsonWriter& json, const SweepPoint& p) {
  json.key("nodes").integer(p.nodes).key("gpus").integer(p.gpus);
  const Estimate& t = p.step_time;
  json.key("step_time").object(true).key("value").fixed_seconds(t.value);
  json.key("low").fixed_seconds(t.low).key("high").fixed_seconds(t.high).close();
  json.key("tokens_per_second").number(p.tokens_per_second);
  write(json, "tokens_per_second_per_gpu", p.tokens_per_second_per_gpu);
  write(json, "model_flops_per_gpu", p.model_flops_per_gpu);
  write(json, "mfu", p.mfu);
  write(json, "hfu", p.hfu);
  json.key("efficiency");
  p.efficiency ? json.number(*p.efficiency) : json.null();
  write(json, "peak", p.peak);
  json.key("capacity").bytes(p.capacity);
  json.key("bubble_fraction").number(p.bubble_fraction).key("exposed").number(p.exposed);
  json.key("gpu_seconds").number(p.gpu_seconds);
  json.key("gpu_hours_per_gigatoken").number(p.gpu_hours_per_gigatoken);
  json.key("on_front").boolean(p.on_front);
}

void write(JsonWriter& json, const SweepPoint& p) {
  json.object();
  write(json, "overrides", p.overrides);
  json.key("ran").boolean(p.ran).key("fits").boolean(p.fits);
  if (!p.reason.empty()) {
    json.key("fault").text(p.key).key("reason").text(p.reason);
  }
  if (!p.strategy.empty()) {
    write(json, "strategy", p.strategy);
  }
  if (p.ran) {
    write_figures(json, p);
  }
  json.close();
}

std::vector<std::string> cells_of(const Sweep& sweep, const SweepPoint& p) {
  std::vector<std::string> out;
  for (std::size_t i = 0; i < sweep.axes.size(); ++i) {
    out.push_back(axis_label(sweep.axes[i], p.at[i]));
  }
  return out;
}

// What stands behind a row, and why rows do not run or fit: each reason once, under the table.
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
    constexpr std::size_t kMost = 20;
    std::string out;
    for (std::size_t i = 0; i < std::min(kMost, reasons_.size()); ++i) {
      const auto& [reason, rows] = reasons_[i];
      const std::string many = rows > 1 ? fmt::format(" ({} rows)", rows) : "";
      out += "  " + wrap(fmt::format("[{}] {}{}", i + 1, reason, many), width, 6) + "\n";
    }
    return reasons_.size() > kMost
               ? out + fmt::format("  and {} other reasons\n", reasons_.size() - kMost)
               : out;
  }

 private:
  std::vector<std::pair<std::string, int>> reasons_;
};

void add_row(TextTable& table, Notes& notes, const Sweep& sweep, const SweepPoint& p) {
  std::vector<std::string> cells = cells_of(sweep, p);
  constexpr std::size_t kFigures = 11;
  if (p.ran) {
    cells.insert(cells.end(),
                 {thousands(p.gpus), duration(p.step_time.value),
                  significant(p.tokens_per_second_per_gpu.value), percent(p.mfu.value),
                  significant(p.tokens_per_second), p.efficiency ? percent(*p.efficiency) : "",
                  gibibytes(p.peak.value), p.fits ? "yes" : "NO",
                  percent(p.exposed / p.step_time.value), percent(p.bubble_fraction),
                  significant(p.gpu_hours_per_gigatoken) + (p.on_front ? " *" : "  ")});
  } else {
    cells.resize(cells.size() + kFigures, "-");
  }
  cells.push_back(notes.of(p));
  table.row(std::move(cells));
}

TextTable table_of(const Sweep& sweep) {
  std::vector<TextTable::Column> columns;
  for (const SweepAxis& axis : sweep.axes) {
    columns.push_back({short_name(axis, sweep)});
  }
  for (const char* name : {"GPUs", "step", "tok/s/GPU", "MFU", "tok/s", "effic.", "peak GiB",
                           "fits", "exposed", "bubble", "GPU-h/1e9"}) {
    columns.push_back({name});
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

std::string csv(const Sweep& sweep) {
  const auto columns = sweep_columns(sweep);
  std::string out;
  for (const SweepColumn& c : columns) {
    out += (out.empty() ? "" : ",") + quoted(c.name);
  }
  out += "\n";
  for (const SweepPoint& p : sweep.points) {
    for (std::size_t i = 0; i < columns.size(); ++i) {
      out += (i == 0 ? "" : ",") + std::visit(Written{}, columns[i].of(p));
    }
    out += "\n";
  }
  return out;
}

std::string csv_columns(const Sweep& sweep) {
  std::string out = "name,type,unit,what\n";
  for (const SweepColumn& c : sweep_columns(sweep)) {
    out += fmt::format("{},{},{},{}\n", quoted(c.name), c.type, c.unit, quoted(c.what));
  }
  return out;
}

std::string json(const Sweep& sweep) {
  JsonWriter json;
  json.object();
  json.key("schema").integer(1).key("title").text(sweep.title);
  json.key("fidelity").text(sweep.fidelity).key("objective").text(sweep.objective);
  write(json, "overrides", sweep.overrides);
  json.key("scaling_axis");
  sweep.scaling_axis ? json.integer(static_cast<std::int64_t>(*sweep.scaling_axis)) : json.null();
  json.key("axes").array();
  for (const SweepAxis& axis : sweep.axes) {
    json.object();
    write(json, "keys", axis.keys);
    json.key("values").array();
    for (const auto& values : axis.values) {
      json.array(true);
      for (const std::string& value : values) {
        json.text(value);
      }
      json.close();
    }
    json.close().close();
  }
  json.close().key("points").array();
  for (const SweepPoint& p : sweep.points) {
    write(json, p);
  }
  json.close().close();
  return std::move(json).finish();
}

std::string terminal(const Sweep& sweep, bool colour, int width) {
  // Of a long sweep the first rows, and those that one would look for.
  constexpr std::size_t kRows = 200;
  const Paint paint{colour};
  std::string out = paint("1", sweep.title) + "\n";
  out += "  " + counts(sweep);
  if (!sweep.objective.empty()) {
    out += fmt::format("; each the best strategy in {}", sweep.objective);
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
    Notes none;  // what is on the front runs and fits
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
    legend = fmt::format("effic.: tokens/s/GPU over that of the fewest GPUs along {}; ",
                         axis_name(sweep.axes[*sweep.scaling_axis]));
  }
  return out + "  " +
         wrap(legend + "GPU-h/1e9: GPU-hours for 1e9 tokens; *: none is as fast for less", width,
              2) +
         "\n";
}

}  // namespace stepcast::report
