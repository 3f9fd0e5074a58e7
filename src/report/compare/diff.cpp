#include "stepcast/report/diff.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "../record/tables.h"
#include "../text/format.h"
#include "compare_conclusion.h"
#include "stepcast/base/diagnostics.h"

namespace stepcast::report {
namespace {

using Json = nlohmann::json;

// "parallelism.tensor" -> "8". Lists of plain values are one text.
void flatten(const Json& value, const std::string& key, std::map<std::string, std::string>& out) {
  if (value.is_object()) {
    for (const auto& [name, below] : value.items()) {
      flatten(below, key.empty() ? name : key + "." + name, out);
    }
    return;
  }
  out[key] = value.is_string() ? value.get<std::string>() : value.dump();
}

std::optional<double> number_at(const Json& from, const char* pointer) {
  const Json::json_pointer at(pointer);
  return from.contains(at) && from[at].is_number() ? std::optional(from[at].get<double>())
                                                   : std::nullopt;
}

Json forecast_of(const Side& side) {
  Json out = Json::parse(side.json, nullptr, false);
  if (!out.is_object() || !number_at(out, "/step_time/value") || !out.contains("job")) {
    throw InputError(Fault{Origin{side.name, 0, 0},
                           "is no forecast; expected what simulate --config JOB --json writes"});
  }
  return out;
}

struct Headline {
  const char* name;
  const char* pointer;
  const char* unit;
};
constexpr std::array kHeadlines = {
    Headline{"step time", "/step_time/value", "s"},
    Headline{"tokens/s/GPU", "/tokens_per_second_per_gpu/value", ""},
    Headline{"MFU", "/mfu/value", "share"},
    Headline{"HFU", "/hfu/value", "share"},
    Headline{"pipeline bubble", "/bubble_fraction", "share"},
    Headline{"peak memory", "/memory/peak/value", "B"},
    Headline{"fits, probability", "/memory/fits/probability", "share"},
};

// Mean over the stages of each kind of time, in seconds.
std::vector<std::pair<std::string, double>> times_of(const Json& forecast) {
  std::vector<std::pair<std::string, double>> out;
  const auto stages = forecast.find("breakdown");
  if (stages == forecast.end() || !stages->is_array() || stages->empty()) {
    return out;
  }
  std::map<std::string, std::string> first;
  flatten(stages->front(), "", first);
  for (const auto& [kind, ignored] : first) {
    if (kind == "stage") {
      continue;
    }
    std::string pointer = "/" + kind;
    for (char& c : pointer) {
      c = c == '.' ? '/' : c;
    }
    double sum = 0;
    for (const Json& stage : *stages) {
      sum += number_at(stage, pointer.c_str()).value_or(0);
    }
    out.emplace_back(kind, sum / static_cast<double>(stages->size()));
  }
  return out;
}

Record figure_row(const Diff& d, const Diff::Figure& f) {
  return {{"", f.name, kNoHeading},
          {"", difference_text(f, f.a), d.a, Show::number},
          {"", difference_text(f, f.b), d.b, Show::number},
          {"", difference_change(f), "change", Show::number}};
}

Record key_row(const Diff& d, const Diff::Key& k) {
  return {{"", k.key, "key"}, {"", k.a, d.a}, {"", k.b, d.b}};
}

}  // namespace

std::string difference_text(const Diff::Figure& f, double value) {
  return f.unit == "s"       ? duration(value)
         : f.unit == "B"     ? data_size(value)
         : f.unit == "share" ? percent(value)
                             : significant(value);
}

std::string difference_change(const Diff::Figure& f) {
  if (f.unit == "share") {
    return fmt::format("{:+.1f} points", 100 * (f.b - f.a));
  }
  return f.a > 0 ? signed_percent(f.b / f.a - 1) : "";
}

Diff diff(const Side& a, const Side& b) {
  const Json left = forecast_of(a);
  const Json right = forecast_of(b);
  Diff out;
  out.a = a.name;
  out.b = b.name == a.name ? b.name + " (2)" : b.name;
  std::map<std::string, std::string> keys_a;
  std::map<std::string, std::string> keys_b;
  flatten(left["job"], "", keys_a);
  flatten(right["job"], "", keys_b);
  std::map<std::string, Diff::Key> all;
  for (const auto& [key, value] : keys_a) {
    all[key] = {key, value, "-"};
  }
  for (const auto& [key, value] : keys_b) {
    all.try_emplace(key, Diff::Key{key, "-", value}).first->second.b = value;
  }
  for (const auto& [key, one] : all) {
    if (one.a != one.b) {
      out.keys.push_back(one);
    }
  }
  for (const Headline& h : kHeadlines) {
    const auto of_left = number_at(left, h.pointer), of_right = number_at(right, h.pointer);
    if (of_left && of_right) {  // a bound has no probability
      out.figures.push_back({h.name, h.unit, *of_left, *of_right});
    }
  }
  std::map<std::string, std::pair<double, double>> times;
  for (const auto& [kind, seconds] : times_of(left)) {
    times[kind].first = seconds;
  }
  for (const auto& [kind, seconds] : times_of(right)) {
    times[kind].second = seconds;
  }
  for (const auto& [kind, seconds] : times) {
    if (seconds.first > 0 || seconds.second > 0) {
      out.figures.push_back({kind, "s", seconds.first, seconds.second});
    }
  }
  return out;
}

std::string terminal(const Diff& d, bool colour, int width) {
  const Paint paint{colour};
  std::string out = paint("1", wrap(conclusion(d), width, 0)) + "\n\n" +
                    heading(paint, fmt::format("{} against {}", d.b, d.a),
                            "time of each kind: mean of the stages", width);
  std::vector<Record> rows;
  for (const Diff::Figure& f : d.figures) {
    rows.push_back(figure_row(d, f));
  }
  out += text_table(rows.front(), rows).text(paint, width);
  if (d.keys.empty()) {
    return out + "\nThe jobs are the same.\n";
  }
  rows.clear();
  constexpr int kCell = 36;  // a list of layers is longer than a line
  for (Diff::Key k : d.keys) {
    k.a = shorten(k.a, kCell);
    k.b = shorten(k.b, kCell);
    rows.push_back(key_row(d, k));
  }
  return out + "\n" + heading(paint, "Keys that differ", fmt::format("{}", d.keys.size()), width) +
         text_table(rows.front(), rows).text(paint, width);
}

std::string json(const Diff& d) {
  return json_of(
      {{"schema", 1},
       {"conclusion", conclusion(d)},
       {"a", d.a},
       {"b", d.b},
       {"figures", rows(d.figures,
                        [](const Diff::Figure& f) {
                          return Record{{"name", f.name}, {"unit", f.unit}, {"a", f.a}, {"b", f.b}};
                        })},
       {"keys", rows(d.keys, [](const Diff::Key& k) {
          return Record{{"key", k.key}, {"a", k.a}, {"b", k.b}};
        })}});
}

}  // namespace stepcast::report
