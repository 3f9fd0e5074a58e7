// A feature that no training system has, to hold the design to its word: one file, this one, and
// one line behind the array of all features. Nothing else of a step knows of it.
//
// LAW  A checksum of each unit's gradients behind each of its backward passes reads every trained
//      element once: units x micro-batches kernels more, and otherwise the same tasks in the same
//      order.
#include "catch.hpp"
#include "lower/stage/feature_list.h"
#include "support/lowered.h"

namespace stepcast::lower {
namespace {

constexpr const char* kLabel = "checksum of gradients";

class Checksum final : public Feature {
 public:
  void after_backward(Stage& stage, int chunk, std::size_t unit) override {
    const Passes& passes = *stage.units[static_cast<std::size_t>(chunk)][unit].passes;
    const double bytes = static_cast<double>(passes.parameters.trained.dense) *
                         width(stage.plan.precision.gradients);
    memory_kernel(stage, bytes, cost::MemoryOp::optimizer, program::Category::other, kLabel);
  }
};

std::vector<std::string> labels_of(const program::Program& p) {
  std::vector<std::string> out;
  for (const program::Task& t : p.tasks) {
    out.push_back(p.labels[t.label]);
  }
  return out;
}

TEST_CASE("A made-up feature is one file and one line of the array", "[lower]") {
  const std::string job =
      "model: {layers: 2, hidden: 1024, heads: 8, ffn: 4096, vocab: 32000}\n"
      "cluster: {use: dgx-h100, nodes: 1}\nsystem: megatron-lm\n"
      "workload: {sequence_length: 512, global_batch: 24, micro_batch: 1}\n"
      "parallelism: {sharding: zero1, overlap: {grad_reduce: true}}\n";
  std::vector<FeatureEntry> features(all_features().begin(), all_features().end());
  features.push_back(
      {"checksum", []() -> std::unique_ptr<Feature> { return std::make_unique<Checksum>(); }});
  const support::Lowered without(job);
  const support::Lowered with(job, false, {}, features);
  std::vector<std::string> labels = labels_of(with.program());
  constexpr std::ptrdiff_t kUnits = 4;  // two layers, embedding and head
  constexpr std::ptrdiff_t kMicroBatches = 3;
  CHECK(std::erase(labels, kLabel) == kUnits * kMicroBatches);
  CHECK(labels == labels_of(without.program()));
}

}  // namespace
}  // namespace stepcast::lower
