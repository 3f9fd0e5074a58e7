// Which resources can bind at all.
#pragma once

#include <vector>

#include "compile.h"

namespace stepcast::engine {

// For each resource, whether everyone who could use it at the same time, each at its highest
// demand, exceeds its capacity. A communicator has at most as many operations under way as a member
// has streams that use it; likewise a rank's copies. A stream sends over its channels what the one
// of its tasks that sends most there does. Resources that cannot bind change no rate.
std::vector<bool> can_bind(const program::World& world,
                           const std::vector<CompiledProgram>& programs);

}  // namespace stepcast::engine
