#include "traffic_words.h"

#include <string_view>

namespace stepcast::report {
namespace {

struct Words {
  std::string_view name, words;
};
constexpr Words kGroups[] = {
    {"norm", "gradient norm"},
    {"expert", "expert-parallel"},
    {"expert tensor", "tensor within experts"},
    {"tensor expert", "tensor, expert-parallel"},
    {"expert data", "data of experts"},
    {"pipe", "pipeline"},
};
// The exchange of an expert-parallel group's tokens; the way that it takes follows.
constexpr std::string_view kTokens = "tokens";

}  // namespace

std::string group_words(const std::string& group) {
  for (const Words& one : kGroups) {
    if (one.name == group) {
      return std::string(one.words);
    }
  }
  return group;
}

std::string operation_words(const std::string& operation) {
  return operation.starts_with(kTokens) &&
                 (operation.size() == kTokens.size() || operation[kTokens.size()] == ' ')
             ? "expert dispatch/combine" + operation.substr(kTokens.size())
             : operation;
}

}  // namespace stepcast::report
