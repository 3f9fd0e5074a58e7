// The survey's four kinds of systems (its Table 2) in words.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "stepcast/job/job.h"

namespace stepcast::report {

struct SystemKind {
  job::System::Kind kind;
  std::string_view name;
};

constexpr std::array kSystemKinds = {
    SystemKind{job::System::Kind::language_model, "language-model"},
    SystemKind{job::System::Kind::single_strategy, "single-strategy"},
    SystemKind{job::System::Kind::hybrid_parallel, "hybrid-parallel"},
    SystemKind{job::System::Kind::automatic_search, "automatic-search"},
};

constexpr std::string_view name_of(job::System::Kind kind) {
  for (const SystemKind& k : kSystemKinds) {
    if (k.kind == kind) {
      return k.name;
    }
  }
  return "";
}

// The reason of a refusal, for a list below the system's name: without that name, and without the
// advice that every refusal ends with.
inline std::string brief_reason(std::string_view system, std::string_view reason) {
  if (reason.starts_with(system) && reason.substr(system.size()).starts_with(' ')) {
    reason.remove_prefix(system.size() + 1);
  }
  constexpr std::string_view kExpected = "; expected a job without it, or another system";
  if (reason.ends_with(kExpected)) {
    reason.remove_suffix(kExpected.size());
  }
  return std::string(reason);
}

}  // namespace stepcast::report
