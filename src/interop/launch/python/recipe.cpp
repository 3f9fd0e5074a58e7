#include "recipe.h"

#include "recipe_evaluator.h"

namespace stepcast::interop::launch {

Recipe read_recipe(const std::vector<RecipeFile>& files, const std::string& function) {
  Evaluator evaluator;
  for (const RecipeFile& file : files) {
    evaluator.load_given(file);
  }
  return evaluator.run(function);
}

}  // namespace stepcast::interop::launch
