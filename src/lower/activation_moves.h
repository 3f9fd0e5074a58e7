// When saved activations leave for the host and when they come back: places among a rank's passes,
// found ahead of lowering. Nothing here knows bytes or copies.
#pragma once

#include <optional>
#include <vector>

#include "stepcast/schedule/schedule.h"
#include "stepcast/strategy/policies.h"

namespace stepcast::lower {

// A unit's place in a chunk, as far as its saved activations go.
struct MovedUnit {
  bool keeps = true;  // it keeps something between its passes
  int needed_by = 0;  // unit whose backward pass reads it first: the last of a recomputed group
  bool layer = true;  // a layer of the model, not embedding or head
};

// Passes of units ("visits") are numbered through in the rank's order. A copy out is issued behind
// visit `leave` and awaited behind `left`, where the device buffer is given up; the copy back is
// issued ahead of visit `fetch` and awaited ahead of `use`.
struct Move {
  int chunk = 0;
  int unit = 0;
  int micro_batch = 0;
  int leave = 0;
  int left = 0;
  int fetch = 0;
  int use = 0;
};

// Numbers of the visits of a rank's order. Two passes side by side take turns.
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

// Moves of a rank, each unit and micro-batch that travels once, in the order in which they leave.
// What would have to come back no later than it has left stays.
//
// units: behind a unit's forward pass; awaited `prefetch` visits later; back `prefetch` visits
// ahead. spread: of the first `activation_layers` layers of the rank, one copy at a time, spread
// evenly over
//   all layers' passes (Transformer Engine's cpu_offload).
// pairs: chunk by chunk (Yuan et al., USENIX ATC'24): beside the next pass in warm-up and drain,
// else
//   beside the next forward-backward pair; back a pair ahead of its own where it has left by then,
//   else beside its own pair's forward pass.
std::vector<Move> plan_moves(const std::vector<schedule::Slot>& slots, const Visits& visits,
                             const std::vector<std::vector<MovedUnit>>& units,
                             ActivationOffload form, const strategy::Offload& offload);

}  // namespace stepcast::lower
