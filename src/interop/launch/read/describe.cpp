// What was read of launch files, for people: warnings, faults, and comments behind a job.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string_view>

#include "stepcast/interop/launch.h"

namespace stepcast::interop {
namespace {

std::string unknown_text(const LaunchOption& option) {
  return fmt::format("unknown flag {}", option.name);
}

std::string unmodelled_text(const LaunchOption& option) {
  return fmt::format("{} is not modelled: {}", option.name, option.note);
}

// More of them have a line together, so that the forecast below stays in sight.
constexpr std::size_t kMostUnmodelled = 4;

std::string unmodelled_together(const std::vector<LaunchOption>& options) {
  std::vector<std::string_view> names;
  for (const LaunchOption& option : options) {
    names.push_back(option.name);
  }
  return fmt::format(
      "{}: warning: {} options are not modelled (--show-job says why): {}: ignored in the forecast",
      to_string(options.front().origin), options.size(), fmt::join(names, ", "));
}

}  // namespace

std::vector<std::string> warnings(const Launch& launch) {
  std::vector<std::string> out;
  for (const LaunchOption& option : launch.unknown) {
    out.push_back(fmt::format("{}: warning: {}: ignored in the forecast", to_string(option.origin),
                              unknown_text(option)));
  }
  if (launch.unmodelled.size() > kMostUnmodelled) {
    out.push_back(unmodelled_together(launch.unmodelled));
  } else {
    for (const LaunchOption& option : launch.unmodelled) {
      out.push_back(fmt::format("{}: warning: {}: ignored in the forecast",
                                to_string(option.origin), unmodelled_text(option)));
    }
  }
  for (const Fault& remark : launch.remarks) {
    out.push_back(fmt::format("{}: warning: {}", to_string(remark.where), remark.message));
  }
  return out;
}

std::vector<Fault> as_faults(const Launch& launch) {
  std::vector<Fault> out;
  for (const LaunchOption& option : launch.unknown) {
    out.push_back(
        {option.origin, unknown_text(option) + "; expected only flags that are known (--strict)"});
  }
  for (const LaunchOption& option : launch.unmodelled) {
    out.push_back({option.origin, unmodelled_text(option) +
                                      "; expected only options that are modelled (--strict)"});
  }
  for (const Fault& remark : launch.remarks) {
    out.push_back({remark.where, remark.message + " (--strict)"});
  }
  return out;
}

std::string describe(const Launch& launch) {
  std::string out;
  const auto list = [&](const char* title, const std::vector<LaunchOption>& options,
                        const char* mark) {
    out += fmt::format("# {}:{}\n", title, options.empty() ? " none" : "");
    for (const LaunchOption& option : options) {
      const std::string written =
          option.name + (option.value.empty() ? "" : " " + option.value.substr(0, 60));
      std::string line = fmt::format("#   {:<52} {}{}", written, mark, option.note);
      line.erase(line.find_last_not_of(' ') + 1);
      out += line + "\n";
    }
  };
  list("launch options and the keys that they set", launch.translated, "-> ");
  list("launch options without meaning for a forecast", launch.meaningless, "");
  list("launch options that are not modelled", launch.unmodelled, "");
  list("unknown launch options", launch.unknown, "");
  return out;
}

}  // namespace stepcast::interop
