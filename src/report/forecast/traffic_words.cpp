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
// Groups whose time is that of another name's category, by src/lower/passes/roles.cpp.
constexpr Words kCategories[] = {
    {"tensor row", "tensor"},
    {"tensor column", "tensor"},
    {"tensor depth", "tensor"},
    {"data replicas", "data"},
    {"all data", "data"},
    {"expert data", "data"},
    {"expert replicas", "data"},
    {"all expert data", "data"},
    {"partition", "data"},
    {"pair", "data"},
    {"node", "data"},
    {"across nodes", "data"},
    {"embedding", "other"},
    {"norm", "other"},
    {"context inner", "context"},
    {"expert tensor", "expert"},
    {"tensor expert", "expert"},
    {"pipe", "pipeline"},
    {"pipe statistics", "pipeline"},
    {"pipe gradient", "pipeline"},
    {"pipe input", "pipeline"},
    {"pipe input gradient", "pipeline"},
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

std::string_view category_of_group(std::string_view group) {
  for (const Words& one : kCategories) {
    if (one.name == group) {
      return one.words;
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
