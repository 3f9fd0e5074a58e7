// Weight gradients of the output projection that wait for the end of the last stage's passes, where
// that stage would wait for the others: those of the first micro-batches, whose inputs and
// gradients of logits stand until then (megatron-core 0.16.0, tensor_parallel/layers.py:509;
// utils.py, drain_embedding_wgrad_compute). Hooks around weight gradients are called in the pass
// itself, as Megatron-LM's own are.
#include <algorithm>

#include "../stage/feature_list.h"

namespace stepcast::lower {

namespace {

class DeferredHead final : public Feature {
 public:
  void after_slots(Stage& stage) override {
    for (std::size_t chunk = 0; chunk < stage.units.size(); ++chunk) {
      for (std::size_t unit = 0; unit < stage.units[chunk].size(); ++unit) {
        drain(stage, static_cast<int>(chunk), unit);
      }
    }
  }

 private:
  static void drain(Stage& stage, int chunk, std::size_t unit) {
    for (int m = 0; m < stage.plan.micro_batches && defers(stage, chunk, unit, m); ++m) {
      const Passes& passes = *units_of(stage, chunk, m)[unit].passes;
      Kept& kept =
          stage.passes.kept[static_cast<std::size_t>(chunk)][unit][static_cast<std::size_t>(m)];
      stage.builder.set_micro_batch(m, chunk);
      const program::BufferIndex temporary =
          stage.builder.allocate(passes.memory.weight_grad, program::MemoryCategory::activations,
                                 label_of(stage, "weight gradients"), true);
      replay(stage, passes.weight_grad);
      stage.builder.release(temporary);
      stage.builder.release(kept.inputs);
      stage.builder.release(kept.gradients);
      kept = {};
    }
  }
};

}  // namespace

std::unique_ptr<Feature> make_deferred_head() { return std::make_unique<DeferredHead>(); }

}  // namespace stepcast::lower
