#include "quantity_options.h"

#include <fmt/format.h>

#include <stdexcept>

#include "../command_line/command_line.h"
#include "stepcast/base/number.h"
#include "stepcast/base/quantity.h"
#include "stepcast/planner/plan.h"

namespace stepcast::cli {
namespace {

// Whether the text is a number and nothing else.
bool is_bare(const std::string& text) {
  const std::size_t begin = text.find_first_not_of(" \t");
  const std::size_t end = text.find_last_not_of(" \t");
  if (begin == std::string::npos) {
    return false;
  }
  const std::string number = text.substr(begin, end - begin + 1);
  return number_length(number) == number.size();
}

template <class Read>
double above_zero(const std::string& option, const std::string& text, const char* what,
                  const char* example, const Read& read) {
  if (is_bare(text)) {
    throw option_fault(
        option, fmt::format("'{}' has no unit; expected a {} such as {}", text, what, example));
  }
  try {
    if (const double value = read(text); value > 0) {
      return value;
    }
  } catch (const std::invalid_argument& error) {
    throw option_fault(option, error.what());
  }
  throw option_fault(option, fmt::format("'{}' is not a {}; expected one above 0, such as {}", text,
                                         what, example));
}

}  // namespace

double seconds_option(const std::string& option, const std::string& text, const char* example) {
  return above_zero(option, text, "time", example,
                    [](const std::string& t) { return planner::parse_duration(t).count(); });
}

double watts_option(const std::string& option, const std::string& text, const char* example) {
  return above_zero(option, text, "power", example,
                    [](const std::string& t) { return parse_power(t).count(); });
}

double time_limit_option(const std::string& option, const std::string& text) {
  try {
    const double seconds =
        is_bare(text) ? parse_number(text) : planner::parse_duration(text).count();
    if (seconds >= 0) {
      return seconds;
    }
  } catch (const std::invalid_argument&) {
  }
  throw option_fault(
      option,
      fmt::format("'{}' is not a time; expected one such as 90s, 10min or 1h, or a number of "
                  "seconds",
                  text));
}

}  // namespace stepcast::cli
