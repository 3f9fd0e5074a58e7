// What the program's own help lists: commands and long options.
#pragma once

#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "unit/cli/run.h"

namespace stepcast::test {

inline std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    out.push_back(line);
  }
  return out;
}

// "--config", "--factor": the long options that a command's help begins a line with.
inline std::set<std::string> options_of_help(const std::string& command) {
  std::set<std::string> out;
  for (const std::string& line : lines_of(run(command + " --help").out)) {
    const std::size_t at = line.find("--");
    if (line.starts_with("  -") && at < 7) {
      out.insert(line.substr(at, line.find_first_of(" ,=", at) - at));
    }
  }
  return out;
}

// The commands that its help names.
inline std::vector<std::string> commands_below(const std::string& command) {
  std::vector<std::string> out;
  bool inside = false;
  for (const std::string& line : lines_of(run(command + " --help").out)) {
    if (inside && line.starts_with("  ") && !line.starts_with("   ")) {  // no continued line
      out.push_back(line.substr(2, line.find(' ', 2) - 2));
    }
    inside = line == "Subcommands:" || (inside && line.starts_with("  "));
  }
  return out;
}

// "", "calibrate", "calibrate nccl": every command, the program itself first.
inline std::vector<std::string> all_commands() {
  std::vector<std::string> commands = {""};
  for (std::size_t i = 0; i < commands.size(); ++i) {
    const std::string command = commands[i];
    for (const std::string& below : commands_below(command)) {
      commands.push_back(command + (command.empty() ? "" : " ") + below);
    }
  }
  return commands;
}

}  // namespace stepcast::test
