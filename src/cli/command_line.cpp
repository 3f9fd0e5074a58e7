#include "command_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>

namespace stepcast::cli {
namespace {

// "simulate calibrate nccl".
std::string path_of(const CLI::App& command) {
  const CLI::App* above = command.get_parent();
  return (above == nullptr ? "" : path_of(*above) + " ") + command.get_name();
}

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) {
      names.push_back("--" + name);
    }
  }
  return names;
}

std::vector<std::string> subcommand_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(sub->get_name());
  }
  return names;
}

std::string did_you_mean(const std::string& word, const std::vector<std::string>& candidates) {
  const std::string near = nearest(word, candidates);
  return near.empty() ? "" : fmt::format(" (did you mean '{}'?)", near);
}

// The first argument that the program does not know.
std::string first_unknown(const CLI::App& app, const CLI::App& command,
                          const std::vector<std::string>& arguments) {
  std::vector<std::string> extras = app.remaining(true);
  if (extras.empty()) {
    extras = command.remaining(true);
  }
  for (const std::string& argument : arguments) {
    if (std::find(extras.begin(), extras.end(), argument) != extras.end()) {
      return argument;
    }
  }
  return extras.empty() ? "" : extras.front();
}

// The option that a message of CLI11 speaks of.
std::string option_in(const CLI::App& command, const std::string& message) {
  std::string best;
  for (const CLI::Option* option : command.get_options()) {
    const std::string name = option->get_name();
    if (message.find(name) != std::string::npos && name.size() > best.size()) {
      best = name;
    }
  }
  return best;
}

}  // namespace

const CLI::App& chosen(const CLI::App& app) {
  const auto below = app.get_subcommands();
  return below.empty() ? app : chosen(*below.front());
}

InputError option_fault(const std::string& option, const std::string& message) {
  return InputError(Fault{Origin{option, 0, 0}, message});
}

InputError explain(const CLI::App& app, const CLI::ParseError& error,
                   const std::vector<std::string>& arguments) {
  const CLI::App& command = chosen(app);
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
    const std::string word = first_unknown(app, command, arguments);
    if (word.size() > 1 && word.front() == '-') {
      const std::string name = word.substr(0, word.find('='));
      return option_fault(
          name, fmt::format("unknown option; expected one that {} --help lists{}", path_of(command),
                            did_you_mean(name, option_names(command))));
    }
    if (const auto below = subcommand_names(command); !below.empty()) {
      return option_fault(word, fmt::format("unknown command; expected one that {} --help lists{}",
                                            path_of(command), did_you_mean(word, below)));
    }
    return option_fault(
        word, fmt::format("unexpected argument; {} --help shows how to call it", path_of(command)));
  }
  const std::string option = option_in(command, error.what());
  const std::string name = option.empty() ? "simulate" : option;
  if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr) {
    return option_fault(name,
                        fmt::format("missing; expected as {} --help shows", path_of(command)));
  }
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr) {
    const auto given = std::count_if(arguments.begin(), arguments.end(), [&](const std::string& a) {
      return a == option || a.rfind(option + "=", 0) == 0;
    });
    return option_fault(name, given > 1 ? "given more than once; expected at most one"
                                        : "its value is missing; expected one value");
  }
  return option_fault(name, error.what());
}

int integer_option(const std::string& option, const std::string& text, int minimum) {
  int value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || value < minimum) {
    throw option_fault(
        option, fmt::format("'{}' is out of place; expected an integer from {} to 2147483647", text,
                            minimum));
  }
  return value;
}

std::vector<double> number_list(const std::string& option, const std::string& text,
                                std::size_t count) {
  std::vector<double> values;
  std::size_t begin = 0;
  while (begin <= text.size()) {
    const std::size_t comma = std::min(text.find(',', begin), text.size());
    const std::string item = text.substr(begin, comma - begin);
    char* stop = nullptr;
    const double value = std::strtod(item.c_str(), &stop);
    if (item.empty() || *stop != '\0' || !std::isfinite(value) || value < 0) {
      throw option_fault(option, fmt::format("'{}' is not a number of at least 0; expected {} "
                                             "comma-separated numbers",
                                             item, count));
    }
    values.push_back(value);
    begin = comma + 1;
  }
  if (values.size() != count) {
    throw option_fault(option, fmt::format("{} values given; expected {} comma-separated numbers",
                                           values.size(), count));
  }
  return values;
}

}  // namespace stepcast::cli
