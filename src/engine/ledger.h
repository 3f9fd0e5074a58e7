// Bytes live in the host's order of allocations and releases. That order is the program's, so peaks
// are known without time. Buffers outside the device have peaks of their own.
#pragma once

#include <array>
#include <cstdint>

#include "stepcast/program/program.h"
#include "stepcast/program/timeline.h"

namespace stepcast::engine {

struct Ledger {
  Bytes first_step_peak;
  Bytes peak;    // of a steady step
  Bytes steady;  // live at its end
  std::array<Bytes, program::kMemoryCategories> at_peak{};
  std::array<Bytes, program::kPlaces>
      place_peak{};                // of all steps; not the device, whose is `peak`
  std::uint32_t peak_segment = 0;  // where in the host's step the peak is first reached
  Time peak_offset{0};             // host time from the start of that segment
  bool periodic = true;            // the third step repeats the second
};

// Throws std::invalid_argument when a buffer is allocated while live, or released while not (first
// step excepted: a program may release what the step before allocated).
Ledger replay(const program::Program& p);

}  // namespace stepcast::engine
