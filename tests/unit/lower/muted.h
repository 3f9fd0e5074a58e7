// Removes one hook of a feature. With `STEPCAST_MUTE=NAME:HOOK` in a test's environment, every
// stage that the tests lower leaves that hook out. If the tests still pass, none of them guards the
// hook. A part of the end of a step counts as a separate hook: `end_of_step.reduce`.
#pragma once

#include <array>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lower/stage/feature_list.h"

namespace stepcast::lower::test {

class Muted final : public Feature {
 public:
  Muted(std::unique_ptr<Feature> feature, std::string hook)
      : inner_(std::move(feature)), hook_(std::move(hook)) {}

  void make_units(Stage& s) override { heard("make_units") ? inner_->make_units(s) : void(); }
  void make_streams(Stage& s) override { heard("make_streams") ? inner_->make_streams(s) : void(); }
  void make_states(Stage& s) override { heard("make_states") ? inner_->make_states(s) : void(); }
  void make_workspaces(Stage& s) override {
    heard("make_workspaces") ? inner_->make_workspaces(s) : void();
  }
  void before_step(Stage& s) override { heard("before_step") ? inner_->before_step(s) : void(); }
  void before_slot(Stage& s, std::size_t slot, std::size_t last) override {
    heard("before_slot") ? inner_->before_slot(s, slot, last) : void();
  }
  bool runs(Stage& s, const schedule::Slot& slot) override {
    return heard("runs") && inner_->runs(s, slot);
  }
  void before_pass(Stage& s, std::size_t slot) override {
    heard("before_pass") ? inner_->before_pass(s, slot) : void();
  }
  void after_pass(Stage& s, std::size_t slot) override {
    heard("after_pass") ? inner_->after_pass(s, slot) : void();
  }
  void after_slots(Stage& s) override { heard("after_slots") ? inner_->after_slots(s) : void(); }
  void before_unit(Stage& s, const Run& run) override {
    heard("before_unit") ? inner_->before_unit(s, run) : void();
  }
  void before_forward(Stage& s, int chunk, std::size_t unit) override {
    heard("before_forward") ? inner_->before_forward(s, chunk, unit) : void();
  }
  void after_forward(Stage& s, int chunk, std::size_t unit) override {
    heard("after_forward") ? inner_->after_forward(s, chunk, unit) : void();
  }
  void before_backward(Stage& s, int chunk, std::size_t unit) override {
    heard("before_backward") ? inner_->before_backward(s, chunk, unit) : void();
  }
  void behind_loss(Stage& s) override { heard("behind_loss") ? inner_->behind_loss(s) : void(); }
  void before_weight_gradients(Stage& s, int chunk, std::size_t unit) override {
    heard("before_weight_gradients") ? inner_->before_weight_gradients(s, chunk, unit) : void();
  }
  void run_again(Stage& s, const Run& run) override {
    heard("run_again") ? inner_->run_again(s, run) : void();
  }
  void before_second_use(Stage& s, int chunk, std::size_t unit) override {
    heard("before_second_use") ? inner_->before_second_use(s, chunk, unit) : void();
  }
  void after_backward(Stage& s, int chunk, std::size_t unit) override {
    heard("after_backward") ? inner_->after_backward(s, chunk, unit) : void();
  }
  void after_unit(Stage& s, const Run& run) override {
    heard("after_unit") ? inner_->after_unit(s, run) : void();
  }
  void end_of_backward(Stage& s, int chunk) override {
    heard("end_of_backward") ? inner_->end_of_backward(s, chunk) : void();
  }
  void backward_ended(Stage& s, int chunk) override {
    heard("backward_ended") ? inner_->backward_ended(s, chunk) : void();
  }
  void use_tile(Stage& s, const Item& item) override {
    heard("use_tile") ? inner_->use_tile(s, item) : void();
  }
  void gradients_reduced(Stage& s, const ReducedGradients& gradients) override {
    heard("gradients_reduced") ? inner_->gradients_reduced(s, gradients) : void();
  }
  void end_of_step(Stage& s, StepEnd part) override {
    constexpr std::array kParts = {"reduce", "share",   "prepare", "norm",
                                   "update", "updated", "gather",  "clear"};
    const std::string name = kParts[static_cast<std::size_t>(part)];
    heard("end_of_step." + name) ? inner_->end_of_step(s, part) : void();
  }

 private:
  bool heard(const std::string& hook) const { return hook != hook_; }

  std::unique_ptr<Feature> inner_;
  std::string hook_;
};

inline std::string mute() {
  const char* asked = std::getenv("STEPCAST_MUTE");
  return asked != nullptr ? asked : "";
}

// All features, one of them without a hook if the environment asks for that.
inline const std::vector<FeatureEntry>& features_under_test() {
  static std::unique_ptr<Feature> (*muted)() = nullptr;
  static const std::vector<FeatureEntry> entries = [] {
    std::vector<FeatureEntry> out(all_features().begin(), all_features().end());
    for (FeatureEntry& entry : out) {
      if (mute().starts_with(std::string(entry.name) + ":")) {
        muted = entry.make;
        entry.make = []() -> std::unique_ptr<Feature> {
          return std::make_unique<Muted>(muted(), mute().substr(mute().find(':') + 1));
        };
      }
    }
    return out;
  }();
  return entries;
}

}  // namespace stepcast::lower::test
