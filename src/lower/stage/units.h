// The units of a stage, and how often its chunks' passes run.
#pragma once

#include "stage_state.h"

namespace stepcast::lower {

// The plan's units in forward order, then what features add to them and mark in them.
void make_units(Stage& stage);
void count_passes(Stage& stage);

}  // namespace stepcast::lower
