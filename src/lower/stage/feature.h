// What a feature of a training step may answer: hooks around the slots of the schedule, the passes
// of a chunk and those of its units, in the order in which stage.cpp and slots.cpp call them. A
// feature answers with tasks and buffers in the stage's builder, keeps its own state as members,
// and leaves out the hooks that it does not need. All features hear of a hook in the order of the
// array (feature_list.cpp). A new hook: here, and in FeatureHooks.
#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>
#include <vector>

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
  virtual void make_units(Stage& stage) { leaves_out(stage); }
  virtual void make_streams(Stage& stage) { leaves_out(stage); }
  // Buffers that stand from step to step: states first, then all others.
  virtual void make_states(Stage& stage) { leaves_out(stage); }
  virtual void make_workspaces(Stage& stage) { leaves_out(stage); }
  virtual void before_step(Stage& stage) { leaves_out(stage); }

  // ---------------------------------------------------------------- around a slot of the order
  // `last`: the slot itself, or the next one where the two run side by side.
  virtual void before_slot(Stage& stage, std::size_t /*slot*/, std::size_t /*last*/) {
    leaves_out(stage);
  }
  // True: the feature has run the slot's pass itself, which is not one of a chunk's units.
  virtual bool runs(Stage&, const schedule::Slot&) { return false; }
  virtual void before_pass(Stage& stage, std::size_t /*slot*/) { leaves_out(stage); }
  virtual void after_pass(Stage& stage, std::size_t /*slot*/) { leaves_out(stage); }
  virtual void after_slots(Stage& stage) { leaves_out(stage); }

  // ---------------------------------------------------------------- around a unit's passes
  virtual void before_unit(Stage& stage, const Run&) { leaves_out(stage); }
  virtual void before_forward(Stage& stage, int /*chunk*/, std::size_t /*unit*/) {
    leaves_out(stage);
  }
  virtual void after_forward(Stage& stage, int /*chunk*/, std::size_t /*unit*/) {
    leaves_out(stage);
  }
  // Before B, or before I where the backward pass is split.
  virtual void before_backward(Stage& stage, int /*chunk*/, std::size_t /*unit*/) {
    leaves_out(stage);
  }
  // In B or I of a head whose loss is outside the model: between the loss's operators and the
  // model's.
  virtual void behind_loss(Stage& stage) { leaves_out(stage); }
  // Before B or W, behind the forward passes that run again.
  virtual void before_weight_gradients(Stage& stage, int /*chunk*/, std::size_t /*unit*/) {
    leaves_out(stage);
  }
  // Before B or I: forward passes that run again.
  virtual void run_again(Stage& stage, const Run&) { leaves_out(stage); }
  // Between a unit's forward pass that ran again and its backward pass.
  virtual void before_second_use(Stage& stage, int /*chunk*/, std::size_t /*unit*/) {
    leaves_out(stage);
  }
  // After B or W.
  virtual void after_backward(Stage& stage, int /*chunk*/, std::size_t /*unit*/) {
    leaves_out(stage);
  }
  virtual void after_unit(Stage& stage, const Run&) { leaves_out(stage); }
  // After the last unit of B or W, before and after the pass is counted in Turns.
  virtual void end_of_backward(Stage& stage, int /*chunk*/) { leaves_out(stage); }
  virtual void backward_ended(Stage& stage, int /*chunk*/) { leaves_out(stage); }

  // ---------------------------------------------------------------- what other features bring
  // about
  virtual void use_tile(Stage& stage, const Item&) { leaves_out(stage); }
  virtual void gradients_reduced(Stage& stage, const ReducedGradients&) { leaves_out(stage); }

  // ---------------------------------------------------------------- behind the last slot
  virtual void end_of_step(Stage& stage, StepEnd) { leaves_out(stage); }

 private:
  static void leaves_out(Stage& stage) { stage.listeners.left_out = true; }
};

// Hooks, numbered.
template <auto... All>
struct Hooks {
  template <auto Hook>
  struct Tag {};
  static constexpr std::size_t kCount = sizeof...(All);
  template <auto Hook>
  static constexpr std::size_t number() {
    std::size_t out = 0;
    const bool found = ((std::is_same_v<Tag<All>, Tag<Hook>> || (++out, false)) || ...);
    return found ? out : kCount;
  }
};
using FeatureHooks =
    Hooks<&Feature::make_units, &Feature::make_streams, &Feature::make_states,
          &Feature::make_workspaces, &Feature::before_step, &Feature::before_slot,
          &Feature::before_pass, &Feature::after_pass, &Feature::after_slots, &Feature::before_unit,
          &Feature::before_forward, &Feature::after_forward, &Feature::before_backward,
          &Feature::behind_loss, &Feature::before_weight_gradients, &Feature::run_again,
          &Feature::before_second_use, &Feature::after_backward, &Feature::after_unit,
          &Feature::end_of_backward, &Feature::backward_ended, &Feature::use_tile,
          &Feature::gradients_reduced, &Feature::end_of_step>;
static_assert(FeatureHooks::kCount <= Listeners::kMostHooks);

// Calls a hook of all features, in the array's order. Most features answer few hooks, and a step
// has very many calls: from the first call on, only those that answer are called.
template <auto Hook, class... Arguments>
void each(Stage& stage, const Arguments&... arguments) {
  constexpr std::size_t kNumber = FeatureHooks::number<Hook>();
  static_assert(kNumber < FeatureHooks::kCount, "the hook is in FeatureHooks");
  auto& known = stage.listeners.of[kNumber];
  if (known) {
    for (Feature* feature : *known) {
      (feature->*Hook)(stage, arguments...);
    }
    return;
  }
  std::vector<Feature*> answering;
  for (const auto& feature : stage.features) {
    ((*feature).*Hook)(stage, arguments...);
    if (!std::exchange(stage.listeners.left_out, false)) {
      answering.push_back(feature.get());
    }
  }
  known = std::move(answering);
}

// Call a unit's hooks and count its chunk's passes, for features that run units of their own.
void before_forward(Stage& stage, int chunk, std::size_t unit);
void end_of_backward(Stage& stage, int chunk);

}  // namespace stepcast::lower
