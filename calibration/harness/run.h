// The loop over the plan.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "harness/device.h"
#include "harness/output.h"
#include "harness/plan.h"
#include "harness/progress.h"

namespace stepcast::harness {

struct RunResult {
  std::size_t measured = 0, skipped = 0, wide = 0;
  std::size_t not_built_in = 0;
  std::size_t before = 0;     // of the plan, found in the file
  std::size_t left_over = 0;  // did not fit into the time
  double left_over_seconds = 0;
  double elapsed = 0;
  bool interrupted = false;
  std::string failure;  // the device failed at a case: what it said
};

// Runs cases until the plan or the time ends, `stop` says so, or the device fails. A case that
// would not end in time is passed over for shorter ones. `clock` in seconds. Every result, also of
// a case that cannot be measured or at which the device failed, is in `output` when it returns; not
// so what this build lacks the library for.
RunResult run(Device& device, const std::vector<Planned>& plan, const Policy& policy, double budget,
              Output& output, Progress& progress, const std::function<bool()>& stop,
              const std::function<double()>& clock);

}  // namespace stepcast::harness
