// What a shell may complete behind each command, from the tables of commands and options.
#pragma once

#include <string>
#include <vector>

#include "../command_line/arguments.h"

namespace stepcast::cli {

struct OptionWords {
  std::vector<std::string> names;  // "--factor", "-f"
  std::string help;
  std::string value;  // what stands for its value in --help: "FILE"; "": it takes none
  std::vector<std::string> values;  // the names that the value may be; empty: a file or free text
  bool repeats = false;             // it may be given more than once
};

struct CommandWords {
  std::vector<std::string> path;  // "calibrate", "nccl"; empty: the program itself
  std::vector<const Command*> below;
  std::vector<OptionWords> options;
  std::vector<std::string> arguments;  // words that are no options: jobs, short keys with their '='
};

// The program and every command below it, each before those below it.
std::vector<CommandWords> completion_words(const Command& program);

// A script in the shell's language that completes `simulate` and `stepcast`.
std::string bash_completion(const std::vector<CommandWords>& commands);
std::string zsh_completion(const std::vector<CommandWords>& commands);
std::string fish_completion(const std::vector<CommandWords>& commands);

}  // namespace stepcast::cli
