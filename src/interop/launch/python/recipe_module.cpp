#include "recipe_module.h"

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "stepcast/text/document.h"

namespace stepcast::interop::launch {
namespace {

namespace fs = std::filesystem;
using Kind = PythonToken::Kind;

// from a.b import c, d as e
void read_import(const PythonLine& line, PythonModule& to) {
  std::size_t at = line.begin + 1;
  const auto is = [&](std::string_view text) { return at < line.end && to.tokens[at].is(text); };
  PythonImport import;
  for (; is("."); ++at) {
    ++import.dots;
  }
  for (; at < line.end && !is("import"); ++at) {
    import.module += to.tokens[at].text;
  }
  for (++at; at < line.end; ++at) {
    if (to.tokens[at].kind != Kind::name) {  // a comma or a bracket
      continue;
    }
    import.name = to.tokens[at].text;
    std::string known = import.name;
    if (at + 2 < line.end && to.tokens[at + 1].is("as")) {
      known = to.tokens[at + 2].text;
      at += 2;
    }
    to.imports[known] = import;
  }
}

std::optional<RecipeFile> file_at(const fs::path& path) {
  std::error_code ignored;
  for (const fs::path& file : {fs::path(path.string() + ".py"), path / "__init__.py"}) {
    if (fs::is_regular_file(file, ignored)) {
      return RecipeFile{text::read_text(file.string()), file.string()};
    }
  }
  return std::nullopt;
}

}  // namespace

std::size_t behind_block(const PythonModule& module, std::size_t line) {
  std::size_t n = line + 1;
  while (n < module.lines.size() && module.lines[n].column > module.lines[line].column) {
    ++n;
  }
  return n;
}

PythonModule parse_module(const RecipeFile& file) {
  PythonModule out;
  out.name = file.name;
  out.tokens = python_tokens(file.text, file.name);
  std::size_t begin = 0;
  for (std::size_t i = 0; i < out.tokens.size(); ++i) {
    if (out.tokens[i].kind == Kind::line_end) {
      out.lines.push_back({begin, i, out.tokens[begin].origin.column});
      begin = i + 1;
    }
  }
  for (std::size_t n = 0; n < out.lines.size();) {
    const std::size_t next = behind_block(out, n);
    const PythonLine& line = out.lines[n];
    const PythonToken& first = out.tokens[line.begin];
    if (first.is("def") && line.begin + 1 < line.end) {
      const std::string& name = out.tokens[line.begin + 1].text;
      out.functions[name] = {n, next};
      out.order.push_back(name);
    } else if (first.is("from")) {
      read_import(line, out);
    } else if (next == n + 1) {
      out.statements.push_back(n);
    }
    n = next;
  }
  return out;
}

std::optional<RecipeFile> imported_file(const PythonImport& import, const std::string& from) {
  std::vector<std::string> parts;
  std::istringstream words(import.module);
  for (std::string part; std::getline(words, part, '.');) {
    parts.push_back(part);
  }
  const auto below = [&](fs::path folder) {
    for (const std::string& part : parts) {
      folder /= part;
    }
    return file_at(folder);
  };
  if (parts.empty() || std::any_of(parts.begin(), parts.end(), [](const std::string& part) {
        return part.empty() || part.find_first_of("/\\") != std::string::npos;
      })) {
    return std::nullopt;
  }
  std::error_code ignored;
  fs::path folder = fs::absolute(from, ignored).lexically_normal().parent_path();
  if (import.dots > 0) {
    for (int up = 1; up < import.dots; ++up) {
      folder = folder.parent_path();
    }
    return below(folder);
  }
  for (;; folder = folder.parent_path()) {
    if (folder.filename() == parts.front()) {  // the package's own folder
      if (auto found = below(folder.parent_path())) {
        return found;
      }
    }
    if (folder == folder.parent_path()) {
      return std::nullopt;
    }
  }
}

}  // namespace stepcast::interop::launch
