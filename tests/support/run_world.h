// Runs a lowered world through the engine.
#pragma once

#include <utility>
#include <variant>

#include "catch.hpp"
#include "stepcast/engine/engine.h"

namespace stepcast::support {

// Fails the test if ranks deadlock, and names them.
inline program::Timeline run(const program::World& world) {
  auto ran = engine::run(world);
  if (const auto* stuck = std::get_if<program::Deadlock>(&ran)) {
    for (const auto& line : stuck->chain) {
      UNSCOPED_INFO(line);
    }
    FAIL("deadlock");
  }
  return std::get<program::Timeline>(std::move(ran));
}

}  // namespace stepcast::support
