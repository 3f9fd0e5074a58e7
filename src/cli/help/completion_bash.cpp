// A script for bash: candidates are the words of the command that the line names.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "completion_words.h"

namespace stepcast::cli {
namespace {

std::vector<std::string> bash_words(const CommandWords& command) {
  std::vector<std::string> out;
  for (const OptionWords& option : command.options) {
    out.insert(out.end(), option.names.begin(), option.names.end());
  }
  for (const Command* below : command.below) {
    out.push_back(below->name);
  }
  out.insert(out.end(), command.arguments.begin(), command.arguments.end());
  return out;
}

// Options whose values are names, of all commands: the same option has the same names everywhere.
std::string cases_of_values(const std::vector<CommandWords>& commands) {
  std::vector<std::string> seen;
  std::string out;
  for (const CommandWords& command : commands) {
    for (const OptionWords& option : command.options) {
      const std::string& name = option.names.front();
      if (option.values.empty() || std::find(seen.begin(), seen.end(), name) != seen.end()) {
        continue;
      }
      seen.push_back(name);
      out += fmt::format("    {}) words='{}' ;;\n", name, fmt::join(option.values, " "));
    }
  }
  return out;
}

}  // namespace

std::string bash_completion(const std::vector<CommandWords>& commands) {
  std::string out =
      "# bash completion of simulate: source <(simulate completion bash)\n"
      "_stepcast_simulate() {\n"
      "  local word=${COMP_WORDS[COMP_CWORD]} words\n"
      "  case \"${COMP_WORDS[*]:1:COMP_CWORD-1} \" in\n";
  for (auto command = commands.rbegin(); command != commands.rend(); ++command) {
    // The deepest command first; the program's own words where the line names none.
    const std::string pattern =
        command->path.empty() ? "*" : fmt::format("'{} '*", fmt::join(command->path, " "));
    out += fmt::format("    {}) words='{}' ;;\n", pattern, fmt::join(bash_words(*command), " "));
  }
  out += "  esac\n  case ${COMP_WORDS[COMP_CWORD-1]} in\n" + cases_of_values(commands);
  out +=
      "  esac\n"
      "  COMPREPLY=($(compgen -W \"$words\" -- \"$word\") $(compgen -f -- \"$word\"))\n"
      "  [[ ${COMPREPLY[0]} == *= ]] && compopt -o nospace\n"
      "}\n"
      "complete -o filenames -F _stepcast_simulate simulate stepcast\n";
  return out;
}

}  // namespace stepcast::cli
