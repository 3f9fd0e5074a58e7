// Evaluates a launch script as far as it consists of plain assignments, arrays and simple
// conditions; commands are not run.
#pragma once

#include <string>
#include <vector>

#include "../options/setting.h"
#include "shell_expand.h"

namespace stepcast::interop::launch {

struct Script {
  std::vector<Word> words;     // of the training command, with its launcher
  std::vector<Fault> remarks;  // parts that were not evaluated
};

// Evaluates files one after another in the same shell; `variables`: NAME=VALUE.
Script run_scripts(const std::vector<std::string>& files,
                   const std::vector<std::string>& variables);
Script run_script(const std::string& source, const std::string& name,
                  const std::vector<std::string>& variables);

// Reads a file that has only flags, with one or more on a line. A stray quote is ignored; a
// variable stays unknown unless it is given.
std::vector<Word> read_flags(const std::string& source, const std::string& name,
                             const std::vector<std::string>& variables);

}  // namespace stepcast::interop::launch
