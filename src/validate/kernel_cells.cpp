#include "kernel_cells.h"

#include <cctype>

namespace stepcast::validate {

std::string plain(std::string_view name) {
  std::string out;
  for (const char c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    } else if (c == '-' || c == '_' || c == ' ') {
      out += '-';
    }
  }
  return out;
}

std::string operator_named(const std::string& name) {
  static const std::map<std::string, const char*> known{{"ln", "norm"},
                                                        {"input-layernorm", "norm"},
                                                        {"post-attention-layernorm", "norm"},
                                                        {"gelu", "activation"},
                                                        {"relu", "activation"},
                                                        {"tanh", "activation"},
                                                        {"addu", "add"},
                                                        {"mul", "add"},
                                                        {"mulu", "add"},
                                                        {"div", "add"},
                                                        {"divu", "add"},
                                                        {"elementwise", "add"}};
  std::string word = plain(name);
  if (const auto at = known.find(word); at != known.end()) {
    return at->second;
  }
  std::replace(word.begin(), word.end(), '-', '_');
  return word;
}

}  // namespace stepcast::validate
