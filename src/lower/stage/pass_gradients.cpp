// Gradients of a micro-batch as autograd leaves them in the parameters' format: each stands until
// the backward pass is over, when all are added to the wider main gradients (nanotron 0.4,
// optim/gradient_accumulator.py:197, backward).
#include <unordered_map>

#include "../data/buckets.h"
#include "../data/parameter_formats.h"
#include "feature_list.h"

namespace stepcast::lower {
namespace {

class PassGradients final : public Feature {
 public:
  void after_backward(Stage& stage, int chunk, std::size_t unit) override;
  void backward_ended(Stage& stage, int chunk) override;

 private:
  std::vector<program::BufferIndex> made_;
  std::unordered_map<const Passes*, TensorList> lists_;
};

void PassGradients::after_backward(Stage& stage, int chunk, std::size_t unit) {
  const Passes& passes = *stage.units[static_cast<std::size_t>(chunk)][unit].passes;
  if (!stage.plan.state_layout.keeps_pass_gradients || passes.parameters.trained.total() == 0) {
    return;
  }
  const program::LabelIndex label = label_of(stage, "gradients of a micro-batch");
  const auto [list, fresh] = lists_.try_emplace(&passes);
  if (fresh) {
    list->second = gradients_of(passes, standing_width(stage.plan, false), label);
  }
  made_.push_back(
      stage.builder.allocate(list->second, program::MemoryCategory::gradients, label, false));
}

void PassGradients::backward_ended(Stage& stage, int /*chunk*/) {
  for (const program::BufferIndex buffer : made_) {
    stage.builder.release(buffer);
  }
  made_.clear();
}

}  // namespace

std::unique_ptr<Feature> make_pass_gradients() { return std::make_unique<PassGradients>(); }

}  // namespace stepcast::lower
