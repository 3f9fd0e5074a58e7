// A schedule as a building block that repeats (Qi et al., 2405.15362): a micro-batch's passes on a
// rank at fixed offsets, the next micro-batch's the same a period later. Sorted by time and then
// run as soon as they can, the repeats are squeezed together at both ends.
#pragma once

#include <vector>

#include "stepcast/schedule/schedule.h"

namespace stepcast::schedule {

struct Brick {
  Pass pass;
  int chunk;
  int offset;  // of micro-batch 0
};

// The order of one rank. Bricks at the same time run in the order given.
std::vector<Slot> repeat(const std::vector<Brick>& block, int period, int micro_batches);

}  // namespace stepcast::schedule
