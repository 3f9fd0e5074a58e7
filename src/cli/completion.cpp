// simulate completion: a script for bash from the tables of commands and options.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <vector>

#include "commands.h"
#include "output.h"
#include "stepcast/config/config.h"

namespace stepcast::cli {
namespace {

// "--factor,-f" is two words; positional options are none.
std::vector<std::string> words_of(const Command& command) {
  std::vector<std::string> out = {"--help"};
  for (const Command& below : command.commands) {
    out.push_back(below.name);
  }
  for (const Option& option : command.options) {
    for (std::size_t at = 0; at < option.name.size();) {
      const std::size_t comma = std::min(option.name.find(',', at), option.name.size());
      if (option.name[at] == '-') {
        out.push_back(option.name.substr(at, comma - at));
      }
      at = comma + 1;
    }
  }
  return out;
}

std::string script(const Command& program) {
  std::vector<std::string> keys;
  for (const config::ShortKey& key : config::short_keys()) {
    keys.push_back(std::string(key.name) + "=");
  }
  std::string out = fmt::format(
      "# bash completion of simulate: source <(simulate completion)\n"
      "_stepcast_simulate() {{\n"
      "  local word=${{COMP_WORDS[COMP_CWORD]}} words\n"
      "  local jobs='{}' keys='{}'\n"
      "  case ${{COMP_WORDS[1]}} in\n",
      fmt::join(config::list("jobs"), " "), fmt::join(keys, " "));
  for (const Command& command : program.commands) {
    out += fmt::format("    {}) words='{}' ;;\n", command.name, fmt::join(words_of(command), " "));
  }
  out += fmt::format(
      "    *) words='{}' ;;\n"
      "  esac\n"
      "  case ${{COMP_WORDS[COMP_CWORD-1]}} in\n",
      fmt::join(words_of(program), " "));
  for (const auto& [option, kind] :
       {std::pair{"--cluster", "clusters"}, std::pair{"--model", "models"},
        std::pair{"--device", "devices"}, std::pair{"--config", "jobs"}}) {
    out += fmt::format("    {}) words='{}' jobs= keys= ;;\n", option,
                       fmt::join(config::list(kind), " "));
  }
  out +=
      "  esac\n"
      "  COMPREPLY=($(compgen -W \"$words $jobs $keys\" -- \"$word\") $(compgen -f -- \"$word\"))\n"
      "  [[ ${COMPREPLY[0]} == *= ]] && compopt -o nospace\n"
      "}\n"
      "complete -o filenames -F _stepcast_simulate simulate stepcast\n";
  return out;
}

}  // namespace

Run add_completion(Command& app, const Command& program) {
  app.footer =
      "Example:\n"
      "  source <(simulate completion)";
  return [&program] {
    write_stdout("completion", script(program));
    return static_cast<int>(done);
  };
}

}  // namespace stepcast::cli
