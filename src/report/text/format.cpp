#include "format.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <span>

#include "stepcast/base/shell_word.h"

namespace stepcast::report {

std::string significant(double value, int digits) {
  if (!std::isfinite(value)) {
    return "-";
  }
  if (value == 0) {
    return "0";
  }
  // Rounding may add a digit (9.9996 to 10.00): take the magnitude from the rounded value.
  const double rounded = std::stod(fmt::format("{:.{}e}", value, digits - 1));
  const int magnitude = static_cast<int>(std::floor(std::log10(std::abs(rounded))));
  return fmt::format("{:.{}f}", rounded, std::max(0, digits - 1 - magnitude));
}

std::string thousands(std::int64_t value) {
  std::string digits = fmt::to_string(value);
  const std::ptrdiff_t first = value < 0 ? 1 : 0;
  for (auto at = static_cast<std::ptrdiff_t>(digits.size()) - 3; at > first; at -= 3) {
    digits.insert(static_cast<std::size_t>(at), 1, ',');
  }
  return digits;
}

std::string percent(double fraction) {
  return std::isfinite(fraction) ? fmt::format("{:.1f} %", 100 * fraction) : "-";
}

std::string signed_percent(double fraction) {
  return std::isfinite(fraction) ? fmt::format("{:+.1f} %", 100 * fraction) : "-";
}

std::string money(double value) {
  return value >= 1e6   ? significant(value * 1e-6, 3) + " M"
         : value >= 1e3 ? significant(value * 1e-3, 3) + " k"
                        : significant(value, 3);
}

std::string range(const result::Estimate& e, double per, int digits) {
  return e.low == e.high ? ""
                         : fmt::format("{} to {}", significant(e.low * per, digits),
                                       significant(e.high * per, digits));
}

std::string with_range(const result::Estimate& e, double per, std::string_view unit) {
  return fmt::format("{}{} ({} to {})", significant(e.value * per, 3), unit,
                     significant(e.low * per, 3), significant(e.high * per, 3));
}

std::string file_name(const std::string& path) {
  return std::filesystem::path(path).filename().string();
}
std::string file_stem(const std::string& path) {
  return std::filesystem::path(path).stem().string();
}

std::string csv_cell(const std::string& given) {
  // A spreadsheet takes such a cell for a formula, whoever wrote the name in it; behind an
  // apostrophe it is text.
  const bool formula = given.size() > 1 &&
                       std::string_view("=+-@\t\r").find(given.front()) != std::string_view::npos;
  const std::string text = formula ? "'" + given : given;
  if (text.find_first_of(",\"\r\n") == std::string::npos) {
    return text;
  }
  std::string out = "\"";
  for (const char c : text) {
    out += c == '"' ? "\"\"" : std::string(1, c);
  }
  return out + "\"";
}

std::string gibibytes(double bytes) { return fmt::format("{:.1f}", bytes / kGibibyte); }

std::string set_options(const std::vector<std::string>& overrides) {
  std::string out;
  for (const std::string& one : overrides) {
    out += (out.empty() ? "--set " : " --set ") + shell_word(one);
  }
  return out;
}

TimeUnit unit_for(double seconds) {
  const double size = std::abs(seconds);
  if (size >= 1 || !(size > 0)) {
    return {"s", 1};
  }
  return size >= 1e-3 ? TimeUnit{"ms", 1e3} : TimeUnit{"us", 1e6};
}

std::string duration(double seconds) {
  const TimeUnit unit = unit_for(seconds);
  return fmt::format("{} {}", significant(seconds * unit.per_second, 3), unit.name);
}

namespace {

struct Unit {
  double size;
  std::string_view name;
};

// The value in the first unit that is not larger than it; units are sorted from the largest.
std::string in_unit(double value, std::span<const Unit> units) {
  const auto fitting = std::find_if(units.begin(), units.end() - 1,
                                    [&](const Unit& unit) { return value >= unit.size; });
  return fmt::format("{} {}", significant(value / fitting->size, 3), fitting->name);
}

}  // namespace

std::string data_size(double bytes) {
  static constexpr std::array kUnits = {Unit{1 << 30, "GiB"}, Unit{1 << 20, "MiB"},
                                        Unit{1 << 10, "KiB"}, Unit{1, "B"}};
  return in_unit(bytes, kUnits);
}

std::string rate(double bytes_per_second) {
  static constexpr std::array kUnits = {Unit{1e9, "GB/s"}, Unit{1e6, "MB/s"}, Unit{1e3, "kB/s"},
                                        Unit{1, "B/s"}};
  return in_unit(bytes_per_second, kUnits);
}

int columns(std::string_view text) {
  // Continuation bytes are 10xxxxxx.
  return static_cast<int>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;
  }));
}

std::string pad_right(std::string text, int width) {
  text.append(static_cast<std::size_t>(std::max(0, width - columns(text))), ' ');
  return text;
}

std::string pad_left(std::string text, int width) {
  text.insert(0, static_cast<std::size_t>(std::max(0, width - columns(text))), ' ');
  return text;
}

std::string shorten(std::string_view text, int width) {
  if (columns(text) <= width) {
    return std::string(text);
  }
  std::string out;
  int used = 0;
  for (const char c : text) {
    if ((static_cast<unsigned char>(c) & 0xC0U) != 0x80U && ++used > width - 1) {
      break;
    }
    out += c;
  }
  return width > 0 ? out + "…" : std::string();
}

std::string wrap(std::string_view text, int width, int indent) {
  std::string out;
  int used = indent;  // the caller has printed that much of the first line
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    const std::string_view word = text.substr(at, end - at);
    at = end + 1;
    if (word.empty()) {
      continue;
    }
    if (used > indent && used + 1 + columns(word) > width) {
      out += '\n';
      out.append(static_cast<std::size_t>(indent), ' ');
      used = indent;
    }
    if (used > indent) {
      out += ' ';
      ++used;
    }
    out += word;
    used += columns(word);
  }
  return out;
}

std::string item(std::string_view text, int width, int indent) {
  return "  " + wrap(text, width, indent) + "\n";
}

std::string figure_line(const Paint& paint, std::string_view name, std::string_view value,
                        std::string_view unit, std::string_view remark, std::string_view sgr) {
  // Text is padded before it is coloured, since escape codes have no width.
  std::string out = "  " + pad_right(std::string(name), 18) +
                    paint(sgr, pad_left(std::string(value), 10)) + " " +
                    pad_right(std::string(unit), 17) + paint("2", remark);
  out.erase(out.find_last_not_of(' ') + 1);
  return out + '\n';
}

std::string heading(const Paint& paint, std::string_view title, std::string_view remark,
                    int width) {
  const std::string shown = shorten(remark, width - columns(title) - 2);
  return paint("1", title) + (shown.empty() ? "" : "  " + paint("2", shown)) + "\n";
}

std::string Paint::operator()(std::string_view sgr, std::string_view text) const {
  return on && !text.empty() ? fmt::format("\x1b[{}m{}\x1b[0m", sgr, text) : std::string(text);
}

}  // namespace stepcast::report
