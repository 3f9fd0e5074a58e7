// Reading the maps of calibration files: a fault stands at the place that the file has it.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

#include "stepcast/text/document.h"

namespace stepcast::cost {

[[noreturn]] inline void fault(const Origin& where, std::string message) {
  throw InputError(Fault{where, std::move(message)});
}

// The value of `key`, without which a map is refused.
inline const text::Value& need(const text::Value& map, std::string_view key) {
  const text::Value* v = map.find(key);
  if (v == nullptr) {
    fault(map.origin, fmt::format("key '{}' is missing", key));
  }
  return *v;
}

}  // namespace stepcast::cost
