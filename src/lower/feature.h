// What a feature of a training step may answer: hooks around the slots of the schedule, the passes
// of a chunk and those of its units, in the order in which stage.cpp and slots.cpp call them. A
// feature answers with tasks and buffers in the stage's builder, keeps its own state as members,
// and leaves out the hooks that it does not need. All features hear of a hook in the order of the
// array (feature_list.cpp).
#pragma once

#include <cstddef>

#include "stage_state.h"

namespace stepcast::lower {

// A pass of one micro-batch through a chunk, unit by unit.
struct Run {
  schedule::Slot slot;
  std::size_t units = 0;                     // units begun so far
  std::size_t unit = 0;                      // the unit under way
  const std::vector<Item>* items = nullptr;  // of that unit
  std::size_t next = 0;                      // item
  program::BufferIndex temporary = program::kNone;
  bool side_by_side = false;  // with another pass
  // Of two passes side by side.
  Mark awaits = {};  // the collective that the next item needs
  Mark posted = {};  // the collective for which the next join waits
};

// Gradients that have been reduced once `stream` has done what it was given so far; this rank holds
// `elements` of them.
struct ReducedGradients {
  double elements = 0;
  program::StreamIndex stream;
  int chunk = 0;
};

// What follows a step's last slot, one after the other, each with all features.
enum class StepEnd {
  reduce,   // gradients that did not leave beside the passes; the compute stream waits for all
  share,    // gradients of parameters that other groups hold as well
  prepare,  // gradients as the optimizer reads them
  norm,     // of all gradients
  update,   // the optimizer, on the device and elsewhere
  updated,  // what the optimizer alone needed is given up
  gather,   // updated parameters, where the next forward pass does not gather them itself
  clear,    // gradients are set to zero, or to none
};

class Feature {
 public:
  Feature() = default;
  Feature(const Feature&) = delete;
  Feature& operator=(const Feature&) = delete;
  virtual ~Feature() = default;

  // ---------------------------------------------------------------- ahead of the step
  // The plan's units exist, without buffers: a feature may add units or mark them.
  virtual void make_units(Stage&) {}
  virtual void make_streams(Stage&) {}
  // Buffers that stand from step to step: states first, then all others.
  virtual void make_states(Stage&) {}
  virtual void make_workspaces(Stage&) {}
  virtual void before_step(Stage&) {}

  // ---------------------------------------------------------------- around a slot of the order
  // `last`: the slot itself, or the next one where the two run side by side.
  virtual void before_slot(Stage&, std::size_t /*slot*/, std::size_t /*last*/) {}
  // True: the feature has run the slot's pass itself, which is not one of a chunk's units.
  virtual bool runs(Stage&, const schedule::Slot&) { return false; }
  virtual void before_pass(Stage&, std::size_t /*slot*/) {}
  virtual void after_pass(Stage&, std::size_t /*slot*/) {}
  virtual void after_slots(Stage&) {}

  // ---------------------------------------------------------------- around a unit's passes
  virtual void before_unit(Stage&, const Run&) {}
  virtual void before_forward(Stage&, int /*chunk*/, std::size_t /*unit*/) {}
  virtual void after_forward(Stage&, int /*chunk*/, std::size_t /*unit*/) {}
  // Before B, or before I where the backward pass is split.
  virtual void before_backward(Stage&, int /*chunk*/, std::size_t /*unit*/) {}
  // In B or I of a head whose loss is outside the model: between the loss's operators and the
  // model's.
  virtual void behind_loss(Stage&) {}
  // Before B or W, behind the forward passes that run again.
  virtual void before_weight_gradients(Stage&, int /*chunk*/, std::size_t /*unit*/) {}
  // Before B or I: forward passes that run again.
  virtual void run_again(Stage&, const Run&) {}
  // Between a unit's forward pass that ran again and its backward pass.
  virtual void before_second_use(Stage&, int /*chunk*/, std::size_t /*unit*/) {}
  // After B or W.
  virtual void after_backward(Stage&, int /*chunk*/, std::size_t /*unit*/) {}
  virtual void after_unit(Stage&, const Run&) {}
  // After the last unit of B or W, before and after the pass is counted in Turns.
  virtual void end_of_backward(Stage&, int /*chunk*/) {}
  virtual void backward_ended(Stage&, int /*chunk*/) {}

  // ---------------------------------------------------------------- what other features bring
  // about
  virtual void use_tile(Stage&, const Item&) {}
  virtual void gradients_reduced(Stage&, const ReducedGradients&) {}

  // ---------------------------------------------------------------- behind the last slot
  virtual void end_of_step(Stage&, StepEnd) {}
};

// Calls a hook of all features, in the array's order.
template <class... Parameters, class... Arguments>
void each(Stage& stage, void (Feature::*hook)(Stage&, Parameters...),
          const Arguments&... arguments) {
  for (const auto& feature : stage.features) {
    ((*feature).*hook)(stage, arguments...);
  }
}

// Call a unit's hooks and count its chunk's passes, for features that run units of their own.
void before_forward(Stage& stage, int chunk, std::size_t unit);
void end_of_backward(Stage& stage, int chunk);

}  // namespace stepcast::lower
