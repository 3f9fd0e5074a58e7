// A small plan, lowered, and what one stage's program does, line by line in the order in which the
// host issues it:
//
//   data: gradients reduce_scatter 4096 <- compute        a task of stream `data`, bytes of its
//                                                         collective or copy, and what it waits for
//   + gradients 4096 / - gradients                        a buffer is allocated, given up
//   = parameters 4096                                     a buffer that persists from step to step
//   host waits for compute
//
// Kernels of the passes between two such lines are one line, "compute: pass".
#pragma once

#include <string>
#include <vector>

#include "small_plan.h"

namespace stepcast::lower::test {

class Traced {
 public:
  // `stage` is the rank in the pipeline. All features run, except the hook that STEPCAST_MUTE
  // leaves out (muted.h).
  explicit Traced(const strategy::Plan& plan, std::size_t stage = 0);

  // The lines that contain one of the words, joined by line ends.
  std::string of(const std::vector<std::string>& words) const;

 private:
  std::vector<std::string> lines_;
};

}  // namespace stepcast::lower::test
