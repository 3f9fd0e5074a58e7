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

// Integers beyond it are no longer all doubles.
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

Cell cell(const std::string& type, const std::string& value) {
  if (type == "boolean") {
    return value == "true";
  }
  if (type == "string") {
    return value;
  }
  const double n = *sweep_number(value);
  return type == "int64" ? Cell(static_cast<std::int64_t>(n)) : Cell(n);
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
                     [=](const SweepPoint& p) { return cell(type, all[p.at[i]]); }});
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
                   [type, key = key](const SweepPoint& p) -> Cell {
                     const auto all = by_key(p.strategy);
                     const auto at = all.find(key);
                     return at == all.end() ? Cell() : cell(type, at->second);
                   }});
  }
}

using Number = std::function<double(const SweepPoint&)>;

void add_number(std::vector<SweepColumn>& out, const char* name, const char* unit, const char* what,
                const Number& of) {
  out.push_back({name, "float64", unit, what, [of](const SweepPoint& p) {
                   return p.ran && std::isfinite(of(p)) ? Cell(of(p)) : Cell();
                 }});
}

void add_estimate(std::vector<SweepColumn>& out, const std::string& name, const char* unit,
                  const char* what, Estimate SweepPoint::*of) {
  add_number(out, name.c_str(), unit, what, [of](const SweepPoint& p) { return (p.*of).value; });
  const std::string low = std::string("low end of its 90 % interval");
  add_number(out, (name + "_low").c_str(), unit, low.c_str(),
             [of](const SweepPoint& p) { return (p.*of).low; });
  add_number(out, (name + "_high").c_str(), unit, "high end of its 90 % interval",
             [of](const SweepPoint& p) { return (p.*of).high; });
}

void add_integer(std::vector<SweepColumn>& out, const char* name, const char* unit,
                 const char* what, const std::function<std::int64_t(const SweepPoint&)>& of) {
  out.push_back({name, "int64", unit, what,
                 [of](const SweepPoint& p) { return p.ran ? Cell(of(p)) : Cell(); }});
}

void add_text(std::vector<SweepColumn>& out, const char* name, const char* what,
              std::string SweepPoint::*of) {
  out.push_back({name, "string", "", what,
                 [of](const SweepPoint& p) { return (p.*of).empty() ? Cell() : Cell(p.*of); }});
}

std::string state(const SweepPoint& p) {
  return !p.ran ? "impossible" : p.fits ? "fits" : "does_not_fit";
}

void add_figures(std::vector<SweepColumn>& out) {
  add_integer(out, "nodes", "1", "hosts", [](const SweepPoint& p) { return p.nodes; });
  add_integer(out, "gpus", "1", "GPUs", [](const SweepPoint& p) { return p.gpus; });
  add_estimate(out, "step_time", "s", "of one step", &SweepPoint::step_time);
  add_number(out, "tokens_per_second", "1/s", "of all GPUs",
             [](const SweepPoint& p) { return p.tokens_per_second; });
  add_estimate(out, "tokens_per_second_per_gpu", "1/s", "of one GPU",
               &SweepPoint::tokens_per_second_per_gpu);
  add_estimate(out, "model_flops_per_gpu", "FLOP/s", "the model's operations a second, of one GPU",
               &SweepPoint::model_flops_per_gpu);
  add_estimate(out, "mfu", "1", "model FLOPs utilization", &SweepPoint::mfu);
  add_estimate(out, "hfu", "1", "hardware FLOPs utilization", &SweepPoint::hfu);
  out.push_back({"scaling_efficiency", "float64", "1",
                 "tokens/s/GPU over that of the fewest GPUs, other axes alike",
                 [](const SweepPoint& p) { return p.efficiency ? Cell(*p.efficiency) : Cell(); }});
  add_estimate(out, "peak_memory", "byte", "of the fullest GPU", &SweepPoint::peak);
  add_integer(out, "memory_capacity", "byte", "usable, of a GPU",
              [](const SweepPoint& p) { return p.capacity.count(); });
  add_number(out, "bubble_fraction", "1", "pipeline bubble, of the step",
             [](const SweepPoint& p) { return p.bubble_fraction; });
  add_number(out, "exposed_communication", "s", "that nothing hides, mean over stages, of a step",
             [](const SweepPoint& p) { return p.exposed; });
  add_number(out, "gpu_seconds", "s", "GPUs x step time",
             [](const SweepPoint& p) { return p.gpu_seconds; });
  add_number(out, "gpu_hours_per_gigatoken", "h", "GPU-hours for 1e9 tokens",
             [](const SweepPoint& p) { return p.gpu_hours_per_gigatoken; });
  out.push_back({"on_pareto_front", "boolean", "",
                 "no other is as fast and as cheap, and better in one",
                 [](const SweepPoint& p) { return Cell(p.on_front); }});
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
         return Cell(number);
       }});
  add_axes(out, sweep);
  out.push_back({"state", "string", "", "fits | does_not_fit | impossible",
                 [](const SweepPoint& p) { return Cell(state(p)); }});
  add_text(out, "fault", "what is at fault: a key, a place in a file, memory", &SweepPoint::key);
  add_text(out, "reason", "why there is no forecast, or by how much it does not fit",
           &SweepPoint::reason);
  add_figures(out);
  add_strategies(out, sweep);
  return out;
}

}  // namespace stepcast::report
