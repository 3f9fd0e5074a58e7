#include "stepcast/job/nccl.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace stepcast::job {
namespace {

constexpr std::array<std::string_view, 8> kAlgorithms = {
    "ring", "tree", "collnetdirect", "collnetchain", "nvls", "nvlstree", "pat", "hierarchical"};
constexpr std::array<std::string_view, 3> kProtocols = {"ll", "ll128", "simple"};
constexpr std::array<std::string_view, 6> kFunctions = {"allreduce", "allgather", "reducescatter",
                                                        "broadcast", "reduce",    "alltoall"};

std::vector<std::string_view> split(std::string_view text, char by) {
  std::vector<std::string_view> out;
  for (std::size_t at = 0;;) {
    const std::size_t end = text.find(by, at);
    out.push_back(text.substr(at, end == std::string_view::npos ? end : end - at));
    if (end == std::string_view::npos) {
      return out;
    }
    at = end + 1;
  }
}

// Lower case, without blanks, '_' and '-'.
std::string plain(std::string_view word) {
  std::string out;
  for (const char c : word) {
    const auto u = static_cast<unsigned char>(c);
    if (std::isspace(u) == 0 && c != '_' && c != '-') {
      out += static_cast<char>(std::tolower(u));
    }
  }
  return out;
}

bool holds(std::span<const std::string_view> names, const std::string& word) {
  return std::find(names.begin(), names.end(), word) != names.end();
}

std::string trimmed(std::string_view word) {
  const auto first = word.find_first_not_of(" \t");
  const auto last = word.find_last_not_of(" \t");
  return first == std::string_view::npos ? "" : std::string(word.substr(first, last - first + 1));
}

}  // namespace

std::span<const std::string_view> nccl_algorithms() { return kAlgorithms; }
std::span<const std::string_view> nccl_protocols() { return kProtocols; }
std::span<const std::string_view> nccl_functions() { return kFunctions; }

std::variant<NcclRules, NcclFault> parse_nccl_rules(std::string_view text,
                                                    std::span<const std::string_view> names) {
  NcclRules rules;
  for (std::string_view part : split(text, ';')) {
    std::string function;
    if (const auto colon = part.find(':'); colon != std::string_view::npos) {
      function = plain(part.substr(0, colon));
      if (!holds(kFunctions, function)) {
        return NcclFault{NcclFault::What::function, trimmed(part.substr(0, colon))};
      }
      part.remove_prefix(colon + 1);
    }
    NcclRule rule;
    if (const auto first = part.find_first_not_of(" \t");
        first != std::string_view::npos && part[first] == '^') {
      rule.excludes = true;
      part.remove_prefix(first + 1);
    }
    for (const std::string_view word : split(part, ',')) {
      const std::string name = plain(word);
      if (name.empty()) {
        return NcclFault{NcclFault::What::empty, {}};
      }
      if (!holds(names, name)) {
        return NcclFault{NcclFault::What::name, trimmed(word)};
      }
      rule.names.push_back(name);
    }
    rules[function] = std::move(rule);
  }
  return rules;
}

std::optional<int> parse_nccl_version(std::string_view text) {
  const auto parts = split(text, '.');
  if (parts.size() < 2 || parts.size() > 3) {
    return std::nullopt;
  }
  int numbers[3] = {};
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].empty() || parts[i].size() > 3) {
      return std::nullopt;
    }
    for (const char c : parts[i]) {
      if (std::isdigit(static_cast<unsigned char>(c)) == 0) {
        return std::nullopt;
      }
      numbers[i] = numbers[i] * 10 + (c - '0');
    }
  }
  if (numbers[1] >= 100) {
    return std::nullopt;
  }
  return numbers[0] * 100 + numbers[1];
}

}  // namespace stepcast::job
