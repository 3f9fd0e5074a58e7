// The one file that knows CLI11, which takes twelve seconds to compile.
#include "arguments.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "command_line.h"
#include "stepcast/base/suggestion.h"
#include "terminal.h"
#include "wrapped_help.h"

namespace stepcast::cli {
namespace {

// Of a chain of commands, the name with those above it: "simulate calibrate nccl".
std::string path_of(const CLI::App& command) {
  const CLI::App* above = command.get_parent();
  return (above == nullptr ? "" : path_of(*above) + " ") + command.get_name();
}

CLI::Option* added(CLI::App& app, const Option& option) {
  if (const auto* text = std::get_if<std::string*>(&option.target)) {
    return app.add_option(option.name, **text, option.help);
  }
  if (const auto* list = std::get_if<std::vector<std::string>*>(&option.target)) {
    return app.add_option(option.name, **list, option.help);
  }
  return app.add_flag(option.name, *std::get<bool*>(option.target), option.help);
}

void declare(CLI::App& app, const Command& command) {
  for (const Option& option : command.options) {
    CLI::Option* made = added(app, option);
    if (option.delimiter != '\0') {
      made->delimiter(option.delimiter);
    }
    if (!option.type.empty()) {
      made->type_name(option.type);
    }
    if (option.some_values) {
      made->expected(1, -1);
    }
    if (option.shows_default) {
      made->capture_default_str();
    }
    if (option.one_value_each) {
      made->allow_extra_args(false);
    }
  }
  app.footer(command.footer);  // also an empty one, in place of that of the command above
  if (!command.commands.empty()) {
    app.require_subcommand(0, 1);
  }
  for (const Command& below : command.commands) {
    declare(*app.add_subcommand(below.name, below.summary), below);
  }
}

// The command that was chosen, or the program itself.
const CLI::App& chosen(const CLI::App& app) {
  const auto below = app.get_subcommands();
  return below.empty() ? app : chosen(*below.front());
}

void mark_chosen(const CLI::App& app, Command& command) {
  command.chosen = true;
  for (const CLI::App* below : app.get_subcommands()) {
    const auto same = [&](const Command& c) { return c.name == below->get_name(); };
    mark_chosen(*below, *std::find_if(command.commands.begin(), command.commands.end(), same));
  }
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

// The option that a message of CLI11 is about.
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

// What CLI11 refused, in our words.
InputError explained(const CLI::App& app, const CLI::ParseError& error,
                     const std::vector<std::string>& arguments) {
  const CLI::App& command = chosen(app);
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
    const std::string word = first_unknown(app, command, arguments);
    if (word.size() > 1 && word.front() == '-') {
      const std::string name = word.substr(0, word.find('='));
      return option_fault(
          name, fmt::format("unknown option; expected one that {} --help lists{}", path_of(command),
                            suggestion(name, option_names(command))));
    }
    if (const auto below = subcommand_names(command); !below.empty()) {
      return option_fault(word, fmt::format("unknown command; expected one that {} --help lists{}",
                                            path_of(command), suggestion(word, below)));
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

}  // namespace

std::optional<Reading> parse_arguments(Command& program,
                                       const std::vector<std::string>& arguments) {
  CLI::App app(program.summary, program.name);
  if (!program.version.empty()) {
    app.set_version_flag("--version", program.version);
  }
  app.set_help_flag("--help,-h", "print this help");
  declare(app, program);
  try {
    std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
    app.parse(reversed);
  } catch (const CLI::CallForHelp&) {
    return Reading{"--help", wrapped_help(chosen(app).help(), terminal_width())};
  } catch (const CLI::CallForVersion& version) {
    return Reading{"--version", std::string(version.what()) + "\n"};
  } catch (const CLI::ParseError& error) {
    throw explained(app, error, arguments);
  }
  mark_chosen(app, program);
  const auto below = app.get_subcommands();
  if (!below.empty()) {
    for (const CLI::Option* option : app.get_options()) {
      if (option->count() > 0 && option->get_positional()) {
        throw option_fault(option->results().front(),
                           fmt::format("stands before the command; expected it behind {}",
                                       path_of(*below.front())));
      }
      if (option->count() > 0) {
        throw option_fault(option->get_name(),
                           fmt::format("not an option of {}; expected none before the command",
                                       path_of(*below.front())));
      }
    }
  }
  return std::nullopt;
}

}  // namespace stepcast::cli
