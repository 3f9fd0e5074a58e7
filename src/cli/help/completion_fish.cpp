// A script for fish: one line an option, under the condition that the line names its command.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "completion_words.h"

namespace stepcast::cli {
namespace {

std::string fish_text(std::string_view text) {
  std::string out = "'";
  for (const char c : text) {
    out += c == '\'' || c == '\\' ? std::string{'\\', c} : std::string(1, c);
  }
  return out + "'";
}

// Whether the words before the cursor begin with the command's path, and name none below it.
std::string condition(const CommandWords& command) {
  std::vector<std::string> words = command.path;
  for (const Command* one : command.below) {
    words.push_back(one->name);
  }
  return fmt::format("-n '__simulate_at {} {}'", command.path.size(), fmt::join(words, " "));
}

std::string line_of(const OptionWords& option, const std::string& where) {
  std::string out = "complete -c simulate " + where;
  for (const std::string& name : option.names) {
    const bool is_long = name.starts_with("--");
    out += fmt::format(" -{} {}", is_long ? "l" : "s", name.substr(is_long ? 2 : 1));
  }
  if (!option.value.empty()) {
    out += " -r";  // a value follows: a file where no names are known
  }
  if (!option.values.empty()) {
    out += fmt::format(" -a {}", fish_text(fmt::format("{}", fmt::join(option.values, " "))));
  }
  return out + fmt::format(" -d {}\n", fish_text(option.help));
}

}  // namespace

std::string fish_completion(const std::vector<CommandWords>& commands) {
  std::string out =
      "# fish completion of simulate: simulate completion fish | source\n"
      "# __simulate_at COUNT PATH... BELOW...: whether the words before the cursor begin with the "
      "first\n"
      "# COUNT arguments, and the word behind them is none of the others.\n"
      "function __simulate_at\n"
      "  set -l words (commandline -opc)\n"
      "  set -e words[1]\n"
      "  set -l count $argv[1]\n"
      "  set -e argv[1]\n"
      "  for i in (seq $count)\n"
      "    test \"$words[1]\" = \"$argv[1]\"; or return 1\n"
      "    set -e words[1]\n"
      "    set -e argv[1]\n"
      "  end\n"
      "  not contains -- \"$words[1]\" $argv\n"
      "end\n"
      "# The same, and nothing stands behind the path yet.\n"
      "function __simulate_first\n"
      "  test (count (commandline -opc)) -eq (math $argv[1] + 1); and __simulate_at $argv\n"
      "end\n";
  for (const CommandWords& command : commands) {
    const std::string where = condition(command);
    for (const Command* below : command.below) {
      std::string first = where;
      first.replace(first.find("__simulate_at"), std::string_view("__simulate_at").size(),
                    "__simulate_first");
      out += fmt::format("complete -c simulate {} -a {} -d {}\n", first, below->name,
                         fish_text(below->summary));
    }
    if (!command.arguments.empty()) {
      out += fmt::format("complete -c simulate {} -a {}\n", where,
                         fish_text(fmt::format("{}", fmt::join(command.arguments, " "))));
    }
    for (const OptionWords& option : command.options) {
      out += line_of(option, where);
    }
  }
  return out + "complete -c stepcast -w simulate\n";
}

}  // namespace stepcast::cli
