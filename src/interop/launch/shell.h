// A launch script run as far as plain assignments, arrays and simple conditions go; commands are
// not run.
#pragma once

#include <string>
#include <vector>

#include "setting.h"
#include "shell_expand.h"

namespace stepcast::interop::launch {

struct Script {
  std::vector<Word> words;     // of the command that trains, with its launcher
  std::vector<Fault> remarks;  // what was not evaluated
};

// Files one after another in the same shell; `variables`: NAME=VALUE.
Script run_scripts(const std::vector<std::string>& files,
                   const std::vector<std::string>& variables);
Script run_script(const std::string& source, const std::string& name,
                  const std::vector<std::string>& variables);

// A file of flags alone, a few a line; a stray quote is nothing, a variable is left open unless
// given.
std::vector<Word> read_flags(const std::string& source, const std::string& name,
                             const std::vector<std::string>& variables);

}  // namespace stepcast::interop::launch
