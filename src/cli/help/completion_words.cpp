#include "completion_words.h"

#include <algorithm>

#include "stepcast/config/config.h"
#include "stepcast/schedule/schedule.h"

namespace stepcast::cli {
namespace {

// "--factor,-f" is two names.
std::vector<std::string> names_of(const std::string& option) {
  std::vector<std::string> out;
  for (std::size_t at = 0; at < option.size();) {
    const std::size_t comma = std::min(option.find(',', at), option.size());
    out.push_back(option.substr(at, comma - at));
    at = comma + 1;
  }
  return out;
}

// The folder of configs/ whose names the option's value may be.
std::vector<std::string> values_of(const std::string& option) {
  for (const auto& [name, kind] :
       {std::pair{"--cluster", "clusters"}, std::pair{"--model", "models"},
        std::pair{"--device", "devices"}, std::pair{"--config", "jobs"},
        std::pair{"--system", "systems"}, std::pair{"--systems", "systems"}}) {
    if (option == name) {
      return config::list(kind);
    }
  }
  return {};
}

OptionWords words_of(const Option& option) {
  OptionWords out;
  out.names = names_of(option.name);
  out.help = option.help;
  if (!std::holds_alternative<bool*>(option.target)) {
    out.value = option.type.empty() ? "TEXT" : option.type;
  }
  out.values = values_of(out.names.front());
  out.repeats = std::holds_alternative<std::vector<std::string>*>(option.target);
  return out;
}

// Words that positional arguments may be; other than these, they are files or free text.
std::vector<std::string> arguments_of(const Command& command, const Option& option) {
  std::vector<std::string> out;
  if (option.type.find("KEY=VALUE") != std::string::npos) {
    out = config::list("jobs");
    for (const config::ShortKey& key : config::short_keys()) {
      out.push_back(std::string(key.name) + "=");
    }
  } else if (command.name == "schedule") {
    for (const schedule::Entry& entry : schedule::table()) {
      out.emplace_back(entry.name);
    }
  } else if (command.name == "completion") {
    out = {"bash", "zsh", "fish"};
  }
  return out;
}

void add(const Command& command, const std::vector<std::string>& path,
         std::vector<CommandWords>& out) {
  CommandWords words;
  words.path = path;
  for (const Command& below : command.commands) {
    words.below.push_back(&below);
  }
  for (const Option& option : command.options) {
    if (option.name.front() == '-') {
      words.options.push_back(words_of(option));
    } else {
      words.arguments = arguments_of(command, option);
    }
  }
  words.options.push_back({{"--help", "-h"}, "print a summary of the options", "", {}, false});
  if (!command.version.empty()) {
    words.options.push_back({{"--version"}, "print the version", "", {}, false});
  }
  out.push_back(std::move(words));
  for (const Command& below : command.commands) {
    std::vector<std::string> deeper = path;
    deeper.push_back(below.name);
    add(below, deeper, out);
  }
}

}  // namespace

std::vector<CommandWords> completion_words(const Command& program) {
  std::vector<CommandWords> out;
  add(program, {}, out);
  const auto man = std::find_if(out.begin(), out.end(), [](const CommandWords& c) {
    return c.path == std::vector<std::string>{"man"};
  });
  if (man != out.end()) {
    for (const Command* command : out.front().below) {
      man->arguments.push_back(command->name);
    }
  }
  return out;
}

}  // namespace stepcast::cli
