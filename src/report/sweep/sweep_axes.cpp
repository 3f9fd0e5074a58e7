#include "sweep_axes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <cstdlib>

namespace stepcast::report {

using result::Sweep;
using result::SweepAxis;
using result::SweepPoint;

std::optional<double> sweep_number(const std::string& text) {
  if (text.empty() || text.find_first_not_of("0123456789+-.eE") != std::string::npos) {
    return std::nullopt;
  }
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  return *end == '\0' && std::isfinite(value) ? std::optional(value) : std::nullopt;
}

std::string axis_name(const SweepAxis& axis) {
  return fmt::format("{}", fmt::join(axis.keys, ","));
}

std::string axis_label(const SweepAxis& axis, std::size_t position) {
  return fmt::format("{}", fmt::join(axis.values[position], ":"));
}

std::vector<double> axis_numbers(const SweepAxis& axis) {
  std::vector<double> out;
  for (const auto& values : axis.values) {
    const auto value = sweep_number(values.front());
    if (!value) {
      return {};
    }
    out.push_back(*value);
  }
  return out;
}

std::string short_key(const std::string& key, const Sweep& sweep) {
  const std::string last = key.substr(key.rfind('.') + 1);
  for (const SweepAxis& axis : sweep.axes) {
    for (const std::string& other : axis.keys) {
      if (other != key && other.substr(other.rfind('.') + 1) == last) {
        return key;
      }
    }
  }
  return last;
}

std::string short_name(const SweepAxis& axis, const Sweep& sweep) {
  std::string out;
  for (const std::string& key : axis.keys) {
    out += (out.empty() ? "" : ":") + short_key(key, sweep);
  }
  return out;
}

std::string place(const SweepPoint& point, const std::vector<std::size_t>& axes,
                  const Sweep& sweep) {
  std::string out;
  for (const std::size_t i : axes) {
    out += fmt::format("{}{} {}", out.empty() ? "" : ", ", short_name(sweep.axes[i], sweep),
                       axis_label(sweep.axes[i], point.at[i]));
  }
  return out;
}

}  // namespace stepcast::report
