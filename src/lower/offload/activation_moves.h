// When saved activations leave for the host and when they come back: places among a rank's passes,
// found ahead of lowering. activation_offload.cpp adds bytes and copies.
#pragma once

#include <optional>
#include <vector>

#include "stepcast/schedule/schedule.h"
#include "stepcast/strategy/policies.h"

namespace stepcast::lower {

// What the places of a unit's copies depend on.
struct MovedUnit {
  bool keeps = true;  // it keeps something between its passes
  int needed_by = 0;  // unit whose backward pass reads it first: the last of a recomputed group
  bool layer = true;  // a layer of the model, not embedding or head
};

// A "visit" is the pass of one unit; visits are numbered in the rank's order. A copy out is issued
// after visit `leave` and awaited after visit `left`, when the device buffer is released. The copy
// back is issued before visit `fetch` and awaited before visit `use`.
struct Move {
  int chunk = 0;
  int unit = 0;
  int micro_batch = 0;
  int leave = 0;
  int left = 0;
  int fetch = 0;
  int use = 0;
};

// The numbers of the visits. Those of two passes that run side by side alternate.
class Visits {
 public:
  // `units`: of each chunk. `chunks` of a bidirectional order index alike.
  Visits(const std::vector<schedule::Slot>& slots, const std::vector<std::size_t>& units);
  // The `nth` unit that the slot's pass opens; a backward pass opens the last unit first.
  int of(std::size_t slot, std::size_t nth) const {
    return first_[slot] + step_[slot] * static_cast<int>(nth);
  }
  int last(std::size_t slot) const { return last_[slot]; }
  // The slot of a pass of a chunk and micro-batch.
  std::size_t slot(schedule::Pass pass, int chunk, int micro_batch) const;

 private:
  std::vector<int> first_, step_, last_;
  std::vector<std::vector<std::vector<std::size_t>>> slots_;  // [pass][chunk][micro-batch]
};

// The moves of a rank in the order in which they leave, one for each unit and micro-batch that
// travels. Activations that are needed again before they could have left stay on the device.
//
// units   A copy out follows the unit's forward pass and is awaited `prefetch` visits later; the
//         copy back is issued `prefetch` visits before the backward pass.
// spread  Only the first `activation_layers` layers of the rank travel, one copy at a time, spread
//         evenly over the passes of all layers (Transformer Engine's cpu_offload).
// pairs   Chunk by chunk (Yuan et al., USENIX ATC'24). A copy out runs beside the next pass in
//         warm-up and drain, else beside the next forward-backward pair. The copy back runs beside
//         the pair before the one that needs it where the copy out has ended by then, else beside
//         the forward pass of that pair.
std::vector<Move> plan_moves(const std::vector<schedule::Slot>& slots, const Visits& visits,
                             const std::vector<std::vector<MovedUnit>>& units,
                             ActivationOffload form, const strategy::Offload& offload);

}  // namespace stepcast::lower
