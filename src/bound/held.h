// What a pipeline rank holds from pass to pass, by its order of passes alone.
#pragma once

#include <cstdint>
#include <vector>

#include "play.h"
#include "stepcast/lower/whole_units.h"

namespace stepcast::bound {

// The most bytes that rank `rank` holds at once, beside its states, of activations between their
// passes, of units that are whole, and of the temporaries of each pass's last unit, which the most
// activations stand beside. `passes`: of its chunks.
// COST linear in slots: some 5 ns each.
std::int64_t most_held(const strategy::Plan& plan, int rank, const std::vector<Pass>& passes,
                       const lower::WholeUnits& units);

}  // namespace stepcast::bound
