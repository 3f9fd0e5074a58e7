// A lowered world through the engine.
#pragma once

#include <utility>
#include <variant>

#include "catch.hpp"
#include "stepcast/engine/engine.h"

namespace stepcast::support {

// Fails the test where ranks wait for each other, and says who.
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
