// "--vary" as axes.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string_view>

#include "stepcast/config/config.h"
#include "stepcast/planner/sweep.h"
#include "stepcast/search/space.h"

namespace stepcast::planner {
namespace {

using result::SweepAxis;

// More rows would not fit in memory.
constexpr std::size_t kMaxPoints = 1'000'000;

[[noreturn]] void refuse(const Origin& where, const std::string& why) {
  throw InputError(Fault{where, why});
}

std::string trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t");
  const std::size_t end = text.find_last_not_of(" \t");
  return begin == std::string_view::npos ? std::string()
                                         : std::string(text.substr(begin, end - begin + 1));
}

// Splits `text` at `mark` where no bracket, brace or quote is open.
std::vector<std::string> parted(std::string_view text, char mark, const Origin& where) {
  std::vector<std::string> out;
  std::string closing;  // what is open
  std::size_t begin = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (!closing.empty() && c == closing.back()) {
      closing.pop_back();
    } else if (!closing.empty() && (closing.back() == '"' || closing.back() == '\'')) {
      continue;
    } else if (c == '[' || c == '{') {
      closing += c == '[' ? ']' : '}';
    } else if (c == '"' || c == '\'') {
      closing += c;
    } else if (c == mark && closing.empty()) {
      out.push_back(trimmed(text.substr(begin, i - begin)));
      begin = i + 1;
    }
  }
  if (!closing.empty()) {
    refuse(where, fmt::format("'{}' is not closed; expected a {}", text, closing.back()));
  }
  out.push_back(trimmed(text.substr(begin)));
  return out;
}

std::optional<double> number(const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  const bool digits =
      !text.empty() && text.find_first_not_of("0123456789+-.eE") == std::string::npos;
  return digits && *end == '\0' && std::isfinite(value) ? std::optional(value) : std::nullopt;
}

// As short as twelve digits allow, so that 1..2+0.1 has 1.3 and not 1.3000000000000003.
std::string short_decimal(double value) {
  constexpr double kWhole = 1e15;
  return value == std::floor(value) && std::abs(value) < kWhole ? fmt::format("{:.0f}", value)
                                                                : fmt::format("{:.12g}", value);
}

struct Range {
  double first = 0, last = 0, by = 1;
  bool times = false;
};

// The numbers of "a..b+s" and the like; nothing: no range.
std::optional<Range> range_of(const std::string& text, const Origin& where) {
  const std::size_t dots = text.find("..");
  const auto first = number(trimmed(std::string_view(text).substr(0, dots)));
  if (dots == std::string::npos || !first) {
    return std::nullopt;
  }
  Range r{*first};
  std::string rest = trimmed(std::string_view(text).substr(dots + 2));
  // A '+' behind an exponent's letter is part of the number.
  std::size_t step = rest.find('*');
  for (std::size_t i = 1; step == std::string::npos && i < rest.size(); ++i) {
    if (rest[i] == '+' && rest[i - 1] != 'e' && rest[i - 1] != 'E') {
      step = i;
    }
  }
  if (step != std::string::npos) {
    const auto by = number(trimmed(std::string_view(rest).substr(step + 1)));
    r.times = rest[step] == '*';
    r.by = by ? *by : 0;
    rest = trimmed(std::string_view(rest).substr(0, step));
  }
  const auto last = number(rest);
  if (!last || *last < *first) {
    refuse(where,
           fmt::format("'{}' is not a range; expected a..b, a..b+s or a..b*f with b not below a",
                       text));
  }
  r.last = *last;
  if (r.times ? r.by <= 1 || r.first <= 0 : r.by <= 0) {
    refuse(where, fmt::format("'{}' never ends; expected {}", text,
                              r.times ? "a above 0 and a factor above 1" : "a step above 0"));
  }
  return r;
}

void add_range(std::vector<std::string>& out, const Range& r, const Origin& where) {
  constexpr double kRound = 1e-9;  // of the last value: 1..2+0.1 ends with 2
  const double last = r.last + kRound * std::abs(r.last);
  for (double i = 0;; ++i) {
    const double value = r.times ? r.first * std::pow(r.by, i) : r.first + i * r.by;
    if (value > last) {
      return;
    }
    if (out.size() >= kMaxPoints) {
      refuse(where, fmt::format("is more than {} values; expected fewer", kMaxPoints));
    }
    out.push_back(short_decimal(value));
  }
}

std::vector<std::vector<std::string>> values_of(const std::string& text, std::size_t keys,
                                                const Origin& where) {
  std::vector<std::vector<std::string>> out;
  for (const std::string& part : parted(text, ',', where)) {
    if (keys == 1) {
      std::vector<std::string> numbers;
      if (const auto range = range_of(part, where)) {
        add_range(numbers, *range, where);
      } else {
        numbers.push_back(part);
      }
      for (std::string& one : numbers) {
        out.push_back({std::move(one)});
      }
    } else {
      out.push_back(parted(part, ':', where));
    }
    const auto& last = out.back();
    if (last.size() != keys) {
      refuse(where, fmt::format("'{}' is {} values; expected {}, one for each key", part,
                                last.size(), keys));
    }
    for (const std::string& one : last) {
      if (one.empty()) {
        refuse(where, "a value is missing; expected one on each side of a comma");
      }
    }
  }
  return out;
}

}  // namespace

SweepAxis sweep_axis(const std::string& option, const std::string& text) {
  const Origin where{fmt::format("{} {}", option, text), 0, 0};
  const std::size_t at = text.find('=');
  if (at == std::string::npos || at == 0 || at + 1 == text.size()) {
    refuse(where, "expected KEY=VALUE,VALUE,... or KEY=FIRST..LAST*FACTOR");
  }
  SweepAxis axis;
  axis.keys = parted(text.substr(0, at), ',', where);
  axis.values = values_of(text.substr(at + 1), axis.keys.size(), where);
  for (std::string& key : axis.keys) {
    key = config::whole_key(key);
    if (key.empty()) {
      refuse(where, "a key is missing; expected one such as cluster.nodes");
    }
  }
  std::vector<std::vector<std::string>> sorted = axis.values;
  std::sort(sorted.begin(), sorted.end());
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice != sorted.end()) {
    refuse(where,
           fmt::format("{} is given twice; expected each value once", fmt::join(*twice, ":")));
  }
  return axis;
}

void check_values(const std::string& option, const std::vector<std::string>& texts,
                  const std::vector<SweepAxis>& axes) {
  for (std::size_t a = 0; a < axes.size(); ++a) {
    const Origin where{fmt::format("{} {}", option, texts[a]), 0, 0};
    for (const std::vector<std::string>& values : axes[a].values) {
      for (std::size_t k = 0; k < values.size(); ++k) {
        auto faults = config::faults_of_value(axes[a].keys[k], values[k], where);
        if (!faults.empty()) {  // the others of this axis are likely wrong in the same way
          throw InputError(std::move(faults));
        }
      }
    }
  }
}

std::vector<SweepAxis> sweep_axes(const std::string& option,
                                  const std::vector<std::string>& texts) {
  std::vector<SweepAxis> out;
  std::vector<std::string> keys;
  std::size_t points = 1;
  for (const std::string& text : texts) {
    out.push_back(sweep_axis(option, text));
    const Origin where{fmt::format("{} {}", option, text), 0, 0};
    for (const std::string& key : out.back().keys) {
      for (const std::string& other : keys) {
        if (search::overlap(key, other)) {
          refuse(where, fmt::format("{} and {} set one key; expected one of them", other, key));
        }
      }
      keys.push_back(key);
    }
    points *= out.back().values.size();
    if (points > kMaxPoints) {
      refuse(where, fmt::format("makes more than {} combinations; expected fewer", kMaxPoints));
    }
  }
  return out;
}

}  // namespace stepcast::planner
