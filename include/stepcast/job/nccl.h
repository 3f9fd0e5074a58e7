// What NCCL_ALGO and NCCL_PROTO may say, and NCCL's versions.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace stepcast::job {

// Lower case. `hierarchical` is no NCCL algorithm: two levels as frameworks compose them.
std::span<const std::string_view> nccl_algorithms();
std::span<const std::string_view> nccl_protocols();
std::span<const std::string_view> nccl_functions();  // "allreduce", "allgather"…

// "ring,tree": only these; "^nvls": all but these.
struct NcclRule {
  bool excludes = false;
  std::vector<std::string> names;
};
// By function; "" holds for those without a rule of their own.
using NcclRules = std::map<std::string, NcclRule>;

struct NcclFault {
  enum class What { name, function, empty } what = What::name;
  std::string word;
};

// NCCL's syntax (src/graph/tuning.cc, parseList): rules separated by ';', each "list" or "function:list", a list of names
// separated by ',', a leading '^' excludes. Any case; '_' and '-' in names do not count.
std::variant<NcclRules, NcclFault> parse_nccl_rules(std::string_view text, std::span<const std::string_view> names);

// "2.18", "2.23.4": major and minor version as 218 and 223.
std::optional<int> parse_nccl_version(std::string_view text);

}  // namespace stepcast::job
