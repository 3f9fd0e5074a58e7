// A Python file of a recipe: its functions, and what it imports.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "python_lexer.h"
#include "recipe.h"

namespace stepcast::interop::launch {

struct PythonLine {
  std::size_t begin = 0;  // of its tokens
  std::size_t end = 0;    // its line_end
  int column = 0;
};

struct PythonFunction {
  std::size_t line = 0;  // of its def
  std::size_t end = 0;   // line behind its body
};

// `from module import name`; of a relative module the dots ahead of its name.
struct PythonImport {
  std::string module;
  std::string name;
  int dots = 0;
};

struct PythonModule {
  std::string name;  // of its file
  std::vector<PythonToken> tokens;
  std::vector<PythonLine> lines;
  std::map<std::string, PythonFunction, std::less<>> functions;
  std::vector<std::string> order;  // the functions' names as the file has them
  std::map<std::string, PythonImport, std::less<>> imports;  // by the name that the file uses
  std::vector<std::size_t> statements;                       // lines of no block
};

// The line behind the block that `line` opens; the next line where it opens none.
std::size_t behind_block(const PythonModule& module, std::size_t line);

PythonModule parse_module(const RecipeFile& file);

// The file of a module that the file `from` imports, found from the folder of a package that holds
// `from`. nullopt: there is none.
std::optional<RecipeFile> imported_file(const PythonImport& import, const std::string& from);

}  // namespace stepcast::interop::launch
