#include "wrapped_help.h"

#include <cstddef>
#include <sstream>

namespace stepcast::cli {
namespace {

constexpr std::size_t kColumn = 30;  // of the descriptions: CLI::FormatterBase's column_width_

std::size_t indent_of(const std::string& line) {
  const bool described = line.size() > kColumn && line[0] == ' ' && line[kColumn - 1] == ' ';
  return described && line[kColumn] != ' ' ? kColumn : 0;
}

std::string wrapped(const std::string& line, std::size_t width) {
  const std::string indent(indent_of(line), ' ');
  std::string out;
  std::string rest = line;
  while (rest.size() > width) {
    std::size_t at = rest.rfind(' ', width);
    if (at == std::string::npos || at <= indent.size()) {  // a word as long as the line
      at = rest.find(' ', width);
    }
    if (at == std::string::npos) {
      break;
    }
    out += rest.substr(0, at) + "\n";
    rest = indent + rest.substr(at + 1);
  }
  return out + rest + "\n";
}

}  // namespace

std::string wrapped_help(const std::string& help, int width) {
  std::string out;
  bool examples = false;
  std::istringstream lines(help);
  for (std::string line; std::getline(lines, line);) {
    examples = examples || line.starts_with("Example");
    out += examples ? line + "\n" : wrapped(line, static_cast<std::size_t>(width));
  }
  return out;
}

}  // namespace stepcast::cli
