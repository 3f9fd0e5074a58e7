// What a command takes, as data: options, positional arguments and subcommands.
// `parse_arguments` fills in what the options point to, and alone decides how words are read and
// how help is laid out.
#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace stepcast::cli {

// What a command does once its options hold what the user gave: the exit status.
using Run = std::function<int()>;

// A text, a list of texts (given again and again, or several words after one name), or a switch.
using Target = std::variant<std::string*, std::vector<std::string>*, bool*>;

struct Option {
  std::string name;  // "--nodes", "--factor,-f"; without dashes: positional
  Target target;
  std::string help;
  std::string type;             // what stands for the value in --help
  bool shows_default = false;   // --help shows what the target held before
  bool one_value_each = false;  // a list takes one word at each naming, so that others may follow
  bool some_values = false;     // a list that, once named, has one word or more
  char delimiter = '\0';        // of a list's values within one word

  Option& type_name(std::string name_of_type) {
    type = std::move(name_of_type);
    return *this;
  }
  Option& show_default() {
    shows_default = true;
    return *this;
  }
  Option& one_value() {
    one_value_each = true;
    return *this;
  }
  Option& at_least_one() {
    some_values = true;
    return *this;
  }
  Option& separated_by(char mark) {
    delimiter = mark;
    return *this;
  }
};

// Options and commands stay where they are: what add_option and add_command return is good as long
// as the command.
struct Command {
  std::string name;
  std::string summary;
  std::string footer;   // of --help: examples, exit statuses
  std::string version;  // "": it has no --version
  std::deque<Option> options;
  std::deque<Command> commands;
  std::vector<std::function<void()>>
      settle;  // run once the options hold what the user gave, before `run`
  Run run;
  bool chosen = false;  // by the words that were parsed

  Option& add_option(std::string option, Target target, std::string help) {
    Option& added = options.emplace_back();
    added.name = std::move(option);
    added.target = target;
    added.help = std::move(help);
    return added;
  }
  Option& add_option(std::string option, std::string& target, std::string help) {
    return add_option(std::move(option), Target(&target), std::move(help));
  }
  Option& add_option(std::string option, std::vector<std::string>& target, std::string help) {
    return add_option(std::move(option), Target(&target), std::move(help));
  }
  void add_flag(std::string option, bool& target, std::string help) {
    add_option(std::move(option), Target(&target), std::move(help));
  }
  Command& add_command(std::string command, std::string what_it_does) {
    Command& added = commands.emplace_back();
    added.name = std::move(command);
    added.summary = std::move(what_it_does);
    return added;
  }
};

// Text that the user asked for instead of running a command.
struct Reading {
  const char* option;  // "--help" or "--version"
  std::string text;
};

// Reads `arguments` (those of main, without the program's name) into the options of `program` and
// of the command below it that they name. Throws InputError, one line that names the option.
std::optional<Reading> parse_arguments(Command& program, const std::vector<std::string>& arguments);

}  // namespace stepcast::cli
