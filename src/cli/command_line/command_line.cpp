#include "command_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <exception>
#include <stdexcept>

#include "stepcast/search/world.h"
#include "terminal.h"

namespace stepcast::cli {

int with_faults(const std::function<int()>& run) {
  try {
    return run();
  } catch (const InputError& error) {
    if (search::launched_rank() > 0) {
      return done;  // rank 0 reads the same arguments and reports their faults
    }
    for (const Fault& fault : error.faults()) {
      write_stderr(to_string(fault) + "\n");
    }
    return bad_input;
  } catch (const std::overflow_error& error) {  // of times: rates that no job can have
    write_stderr(fmt::format("simulate: error: {}\n", error.what()));
    return bad_input;
  } catch (const std::exception& error) {
    write_stderr(fmt::format("simulate: error: {}\n", error.what()));
    return cannot_run;
  }
}

InputError option_fault(const std::string& option, const std::string& message) {
  return InputError(Fault{Origin{option, 0, 0}, message});
}

int integer_option(const std::string& option, const std::string& text, int minimum) {
  int value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || value < minimum) {
    throw option_fault(
        option,
        fmt::format("'{}' is not valid; expected an integer from {} to 2147483647", text, minimum));
  }
  return value;
}

int integer_option(const std::string& option, const std::string& text, int minimum, int absent) {
  return text.empty() ? absent : integer_option(option, text, minimum);
}

bool is_plain_name(const std::string& name, bool capitals) {
  return !name.empty() && name[0] != '.' && name[0] != '-' &&
         std::all_of(name.begin(), name.end(), [&](char c) {
           return (c >= 'a' && c <= 'z') || (capitals && c >= 'A' && c <= 'Z') ||
                  (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
         });
}

std::vector<double> number_list(const std::string& option, const std::string& text,
                                std::size_t count) {
  const std::string expected =
      count == 1 ? "expected a number" : fmt::format("expected {} comma-separated numbers", count);
  std::vector<double> values;
  std::size_t begin = 0;
  while (begin <= text.size()) {
    const std::size_t comma = std::min(text.find(',', begin), text.size());
    const std::string item = text.substr(begin, comma - begin);
    char* stop = nullptr;
    const double value = std::strtod(item.c_str(), &stop);
    if (item.empty() || *stop != '\0' || !std::isfinite(value) || value < 0) {
      throw option_fault(option,
                         fmt::format("'{}' is not a number of at least 0; {}", item, expected));
    }
    values.push_back(value);
    begin = comma + 1;
  }
  if (values.size() != count) {
    throw option_fault(option, fmt::format("{} values given; {}", values.size(), expected));
  }
  return values;
}

}  // namespace stepcast::cli
