// Evaluates a recipe's Python as far as it consists of literals, its own functions and their
// arguments. One present place runs through the tokens of one file at a time.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "../options/verdict.h"
#include "recipe.h"
#include "recipe_item.h"
#include "recipe_module.h"

namespace stepcast::interop::launch {

using Names = std::map<std::string, ItemPtr, std::less<>>;

constexpr int kDeepestRecipe = 16;  // calls and brackets within each other
constexpr std::size_t kMostImports = 64;
constexpr std::size_t kFieldsOfWork = 32;  // fields that are searched count as one value's work
constexpr std::size_t kTokensOfWork = 16;  // and so do tokens that are skipped

// A file, and what its lines outside functions made.
struct LoadedModule {
  PythonModule module;
  Names globals;
};

class Evaluator {
 public:
  Evaluator() = default;
  Evaluator(const Evaluator&) = delete;
  Evaluator& operator=(const Evaluator&) = delete;
  ~Evaluator();

  // A file of the user's: later ones see its functions.
  void load_given(const RecipeFile& file);
  // What the function `name` of the last file that was given returns.
  Recipe run(const std::string& name);

 private:
  struct Arguments {
    std::vector<ItemPtr> positional;
    std::vector<std::pair<std::string, ItemPtr>> named;
    bool open = false;  // there are others, which are not known
  };

  struct Found {
    LoadedModule* in = nullptr;
    PythonFunction function;
  };

  // Files and functions (recipe_functions.cpp).
  LoadedModule& load(const RecipeFile& file);
  // A function by the name that the present file has for it: its own, one that it imports, else
  // one of the files that were given.
  Found function(const std::string& name);
  // The file from which `in` imports a name, which becomes that file's own; nullptr: none.
  LoadedModule* behind_import(const LoadedModule& in, std::string& name);
  // The file that another one imports; nullptr: there is none, or it is being loaded.
  LoadedModule* imported(const PythonImport& import, const LoadedModule& by);
  ItemPtr call(const Found& f, const Arguments& arguments);

  // The present token.
  const PythonToken& token() const { return file_->module.tokens[at_]; }
  const PythonToken& token_of(const PythonLine& line) const {
    return file_->module.tokens[line.begin];
  }
  bool is(std::string_view text) const { return token().is(text); }
  bool ends() const {
    return token().kind == PythonToken::Kind::line_end || token().kind == PythonToken::Kind::end;
  }

  // Lines (recipe_statements.cpp).
  void work(std::size_t values = 1);
  void not_read(const PythonLine& line, const char* why);
  // Runs lines [from, to) of a block; true when it returned.
  bool block(std::size_t from, std::size_t to, Names& names, ItemPtr& result);
  // Lines [from, to) of a block whose condition is not known: attributes that they set become
  // doubtful, and local names unknown. False where they do anything else.
  bool doubt(std::size_t from, std::size_t to, Names& names);
  // name = value, a.b.c = value; anything else changes no setting.
  void statement(const PythonLine& line, Names& names);
  // name.attribute.attribute at the present place, and moves behind it.
  std::vector<std::string> path();
  // Sets a field of an object that the program may hold elsewhere: of each circle of objects one
  // was made so.
  void put(const ItemPtr& to, const std::string& name, ItemPtr value);
  // What a path of names and attributes holds; nullptr: nothing has set it.
  ItemPtr known(const std::vector<std::string>& path, const Names& names) const;
  void assign(const std::vector<std::string>& path, ItemPtr value, const Origin& where,
              Names& names);
  // The object below `at`, which is the path's first name, that holds the path's last attribute.
  // Those on the way to it are made where they are missing.
  ItemPtr holder(ItemPtr at, const std::vector<std::string>& path, const Origin& where);
  // a.b[key] = value
  void put_element(const PythonLine& line, const std::vector<std::string>& path, Names& names);
  // a, b.c = f(): the parts of a list, or of what a function of another package makes.
  void several(const PythonLine& line, Names& names);

  // Conditions (recipe_conditions.cpp).
  Verdict condition(Names& names);
  Verdict conjunction(Names& names);
  Verdict comparison(Names& names);
  Verdict relation(Names& names);

  // Values (recipe_values.cpp).
  // Up to a token outside brackets that ends a value, or that `stops`.
  template <class F>
  void skip_to(F&& stops) {
    int depth = 0;
    for (std::size_t n = 1; !ends(); ++n) {
      work(n % kTokensOfWork == 0 ? 1 : 0);
      if (depth == 0 && (stops() || is(",") || is(")") || is("]") || is("}"))) {
        return;
      }
      depth += is("(") || is("[") || is("{") ? 1 : is(")") || is("]") || is("}") ? -1 : 0;
      ++at_;
    }
  }
  // value, or value if condition else value, of which only the one that counts is evaluated.
  ItemPtr expression(Names& names);
  // value or value: the first that is not empty.
  ItemPtr alternatives(Names& names);
  ItemPtr sum(Names& names);
  ItemPtr product(Names& names);
  ItemPtr primary(Names& names);
  ItemPtr list(Names& names);
  // [value for name in list], of which `begin` is the value's first token.
  ItemPtr comprehension(std::size_t begin, Names& names);
  // A value that a file's lines outside functions made; nullptr: there is none of this name.
  ItemPtr global(const std::string& name);
  // {a: b, **c}; what is unpacked into it may not be known, and a set is not.
  ItemPtr dictionary(Names& names);
  // name, name.attribute, name(...), name[...], and chains of them.
  ItemPtr reference(Names& names);

  // Calls (recipe_calls.cpp).
  // A dictionary with the parts of others.
  ItemPtr updated(const ItemPtr& to, const Arguments& with);
  // What functions of the package outside its recipes set: those of which more is known, and
  // setters, which set the attribute that they are named after. False: `path` is none of them.
  bool set_by_package(const std::string& path, const std::vector<ItemPtr>& given,
                      const Origin& where);
  // A call. `on`: what it is a method of.
  ItemPtr called(const ItemPtr& on, const std::string& path, const Origin& where, Names& names);
  // *list, **dictionary
  void unpack(Arguments& to, Names& names);

  std::vector<std::unique_ptr<LoadedModule>> loaded_;
  std::vector<LoadedModule*> given_;
  std::map<std::string, LoadedModule*> imports_;  // by the file's name
  LoadedModule* file_ = nullptr;                  // whose lines are evaluated
  std::size_t at_ = 0;
  int depth_ = 0;
  int calls_ = 0;
  std::size_t work_ = 0;
  std::vector<ItemPtr> changed_;
  Recipe out_;
};

}  // namespace stepcast::interop::launch
