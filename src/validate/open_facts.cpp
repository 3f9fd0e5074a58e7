#include "open_facts.h"

#include <cmath>
#include <string_view>

namespace stepcast::validate {
namespace {

struct OpenFact {
  std::string_view key;  // of the job; a section stands for all keys below it
  HalfWidths widths;
};

// Judgement, rounded up from the spread between the two likeliest values of each key.
constexpr OpenFact kOpenFacts[] = {
    {"cluster.device", {0, 0.02}},
    {"cluster", {0.03, 0.03}},
    {"kernels.attention", {0.05, 0.05}},
    {"kernels.loss", {0, 0.10}},  // logits in full or chunk by chunk
    {"memory.recompute", {0.08, 0.08}},
    {"model.vocab", {0.02, 0.02}},
    {"moe.dispatcher", {0.05, 0.05}},
    {"parallelism.layers_per_stage", {0.02, 0.02}},
    {"parallelism.virtual_pipeline", {0.05, 0.05}},
    {"parallelism.schedule", {0.05, 0.05}},
    {"system", {0.05, 0.05}},
    // Rank and modules of adapters, and whether embedding and head are trained as well.
    {"workload.finetune", {0.05, 0.15}},
    {"workload.global_batch", {0.02, 0.02}},
    {"workload.micro_batch", {0.05, 0.05}},
    {"workload.precision", {0.01, 0.01}},
};
// Any other key.
constexpr HalfWidths kOther = {0.05, 0.05};

HalfWidths of(std::string_view key) {
  for (const OpenFact& fact : kOpenFacts) {
    if (key == fact.key || (key.starts_with(fact.key) && key[fact.key.size()] == '.')) {
      return fact.widths;
    }
  }
  return kOther;
}

}  // namespace

HalfWidths open_facts(std::span<const runs::Assumption> assumed) {
  HalfWidths out;
  for (const runs::Assumption& one : assumed) {
    const HalfWidths widths = of(one.key);
    out.time = std::hypot(out.time, widths.time);
    out.memory = std::hypot(out.memory, widths.memory);
  }
  return out;
}

}  // namespace stepcast::validate
