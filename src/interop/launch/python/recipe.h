// Settings of a recipe in Python (Megatron-Bridge's cfg.model.x = 1, NeMo 2's run.Config(x=1)), as
// far as it consists of literals, its own functions and their arguments.
#pragma once

#include <string>
#include <vector>

#include "../options/setting.h"

namespace stepcast::interop::launch {

struct RecipeFile {
  std::string text;
  std::string name;
};

struct Recipe {
  std::vector<Setting> settings;  // "model.tensor_model_parallel_size", in the order of the code
  // Conditions that are not known may set these: to their value, or to something where it is "".
  std::vector<Setting> doubts;
  std::vector<Fault> remarks;  // what was not evaluated
};

// What `function` returns when it is called without arguments. Later files see the functions of
// earlier ones, and all those of recipes that they import from the package in which they lie. A
// value that is no literal is an open setting. Throws InputError, with the names of the last file's
// functions, where there is no such function.
Recipe read_recipe(const std::vector<RecipeFile>& files, const std::string& function);

}  // namespace stepcast::interop::launch
