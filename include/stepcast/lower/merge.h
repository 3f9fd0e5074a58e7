// Consecutive kernels that nothing can tell apart from one run as one task.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "stepcast/program/program.h"

namespace stepcast::lower {

// The curve under which a merged kernel stands, from the (curve, picoseconds) of its parts in
// order.
using Blend =
    std::function<program::CurveId(const std::vector<std::pair<program::CurveId, std::int64_t>>&)>;

// Merges kernels that follow each other in issue order on one stream when
// - the later one waits for nothing, and nobody (wait or sync) waits for a position between them;
// - category and slowdown row are equal (and the curve, when no blend is given);
// - between their launches the host neither allocates, releases nor waits;
// - the launches cannot bind: the host issues each later kernel before the ones ahead of it in the
// merged task can have ended,
//   even if the first starts the moment it is issued.
// Host time is kept to the picosecond, so times, breakdown and memory are those of the program
// given. O(tasks + waits).
program::Program merge_kernels(const program::Program& p, const Blend& blend = {});

}  // namespace stepcast::lower
