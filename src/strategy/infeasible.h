// How this room refuses a plan.
#pragma once

#include <string>
#include <utility>

#include "stepcast/base/diagnostics.h"

namespace stepcast::strategy {

// `key` is the job's key at fault ("parallelism.tensor").
inline Infeasible infeasible(std::string key, std::string reason) {
  return Infeasible{std::move(key), std::move(reason)};
}

}  // namespace stepcast::strategy
