#include "sweep_columns.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "sweep_axes.h"

namespace stepcast::report {
namespace {

using result::Estimate;
using result::Sweep;
using result::SweepPoint;

// Beyond this, not every integer is a double.
constexpr double kWhole = 1LL << 53;

std::string type_of(const std::vector<std::string>& values) {
  const auto all = [&](const auto& is) { return std::all_of(values.begin(), values.end(), is); };
  if (all([](const std::string& v) { return v == "true" || v == "false"; })) {
    return "boolean";
  }
  if (!all([](const std::string& v) { return sweep_number(v).has_value(); })) {
    return "string";
  }
  return all([](const std::string& v) {
    const double n = *sweep_number(v);
    return n == std::floor(n) && std::abs(n) < kWhole;
  })
             ? "int64"
             : "float64";
}

Value typed(const std::string& type, const std::string& value) {
  if (type == "boolean") {
    return value == "true";
  }
  if (type == "string") {
    return value;
  }
  const double n = *sweep_number(value);
  return type == "int64" ? Value(static_cast<std::int64_t>(n)) : Value(n);
}

void add_axes(std::vector<SweepColumn>& out, const Sweep& sweep) {
  for (std::size_t i = 0; i < sweep.axes.size(); ++i) {
    const result::SweepAxis& axis = sweep.axes[i];
    for (std::size_t k = 0; k < axis.keys.size(); ++k) {
      std::vector<std::string> all;
      for (const auto& values : axis.values) {
        all.push_back(values[k]);
      }
      const std::string type = type_of(all);
      out.push_back({axis.keys[k], type, "", "varied",
                     [=](const SweepPoint& p) { return typed(type, all[p.at[i]]); }});
    }
  }
}

std::map<std::string, std::string> by_key(const std::vector<std::string>& overrides) {
  std::map<std::string, std::string> out;
  for (const std::string& text : overrides) {
    const std::size_t at = text.find('=');
    out[text.substr(0, at)] = text.substr(at + 1);
  }
  return out;
}

void add_strategies(std::vector<SweepColumn>& out, const Sweep& sweep) {
  std::map<std::string, std::vector<std::string>> keys;
  for (const SweepPoint& p : sweep.points) {
    for (const auto& [key, value] : by_key(p.strategy)) {
      keys[key].push_back(value);
    }
  }
  for (const auto& [key, values] : keys) {
    const std::string type = type_of(values);
    out.push_back({"strategy." + key, type, "", "of the best strategy",
                   [type, key = key](const SweepPoint& p) -> Value {
                     const auto all = by_key(p.strategy);
                     const auto at = all.find(key);
                     return at == all.end() ? Value() : typed(type, at->second);
                   }});
  }
}

// A figure of a point. An interval is three columns: its value and both ends.
struct Figure {
  const char* name;
  const char* unit;
  const char* what;
  std::function<Value(const SweepPoint&)> of;
};

const std::vector<Figure>& sweep_figure_columns() {
  static const std::vector<Figure> all = {
      {"nodes", "1", "hosts", &SweepPoint::nodes},
      {"gpus", "1", "GPUs", &SweepPoint::gpus},
      {"step_time", "s", "of one step", &SweepPoint::step_time},
      {"tokens_per_second", "1/s", "of all GPUs", &SweepPoint::tokens_per_second},
      {"tokens_per_second_per_gpu", "1/s", "of one GPU", &SweepPoint::tokens_per_second_per_gpu},
      {"model_flops_per_gpu", "FLOP/s", "model FLOP/s of one GPU",
       &SweepPoint::model_flops_per_gpu},
      {"mfu", "1", "model FLOPs utilization", &SweepPoint::mfu},
      {"hfu", "1", "hardware FLOPs utilization", &SweepPoint::hfu},
      {"scaling_efficiency", "1",
       "tokens/s/GPU over that of the point with the fewest GPUs and the same values of all other "
       "axes",
       &SweepPoint::efficiency},
      {"peak_memory", "byte", "of the fullest GPU", &SweepPoint::peak},
      {"memory_capacity", "byte", "usable memory of a GPU", &SweepPoint::capacity},
      {"bubble_fraction", "1", "share of the step in the pipeline bubble",
       &SweepPoint::bubble_fraction},
      {"exposed_communication", "s", "exposed communication of a step, mean over stages",
       &SweepPoint::exposed},
      {"gpu_seconds", "s", "GPUs x step time", &SweepPoint::gpu_seconds},
      {"gpu_hours_per_gigatoken", "h", "GPU-hours for 1e9 tokens",
       &SweepPoint::gpu_hours_per_gigatoken},
  };
  return all;
}

void add_figures(std::vector<SweepColumn>& out) {
  const auto add = [&](const std::string& name, const Figure& f, const char* what, auto part) {
    const bool whole = std::holds_alternative<std::int64_t>(f.of(SweepPoint()).kind());
    out.push_back({name, whole ? "int64" : "float64", f.unit, what,
                   [of = f.of, part](const SweepPoint& p) -> Value {
                     const Value value = p.ran ? part(of(p)) : Value();
                     const auto number = number_of(value);
                     return number && std::isfinite(*number) ? value : Value();
                   }});
  };
  const auto end = [](double Estimate::*which) {
    return [which](const Value& v) { return Value(std::get<Interval>(v.kind()).estimate.*which); };
  };
  for (const Figure& f : sweep_figure_columns()) {
    if (!std::holds_alternative<Interval>(f.of(SweepPoint()).kind())) {
      add(f.name, f, f.what, [](const Value& v) { return v; });
      continue;
    }
    const std::string name = f.name;
    add(name, f, f.what, end(&Estimate::value));
    add(name + "_low", f, "low end of its 90 % interval", end(&Estimate::low));
    add(name + "_high", f, "high end of its 90 % interval", end(&Estimate::high));
  }
  out.push_back({"on_pareto_front", "boolean", "", "on the Pareto front of time and cost",
                 &SweepPoint::on_front});
}

}  // namespace

std::vector<SweepColumn> sweep_columns(const Sweep& sweep) {
  std::vector<SweepColumn> out;
  out.push_back(
      {"point", "int64", "1", "number of the combination, from 0", [&](const SweepPoint& p) {
         std::int64_t number = 0;
         for (std::size_t i = 0; i < p.at.size(); ++i) {
           number = number * static_cast<std::int64_t>(sweep.axes[i].values.size()) +
                    static_cast<std::int64_t>(p.at[i]);
         }
         return Value(number);
       }});
  add_axes(out, sweep);
  out.push_back(
      {"state", "string", "", "fits | does_not_fit | impossible", [](const SweepPoint& p) -> Value {
         return !p.ran ? "impossible" : p.fits ? "fits" : "does_not_fit";
       }});
  out.push_back({"fault", "string", "", "the cause: a key of the job, a place in a file, or memory",
                 [](const SweepPoint& p) { return text_or_null(p.key); }});
  out.push_back({"reason", "string", "",
                 "the reason that there is no forecast, or by how much memory it does not fit",
                 [](const SweepPoint& p) { return text_or_null(p.reason); }});
  add_figures(out);
  add_strategies(out, sweep);
  return out;
}

}  // namespace stepcast::report
