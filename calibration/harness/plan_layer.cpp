// Whole transformer layers: what a fit is checked against.
#include <algorithm>
#include <array>

#include "harness/plan.h"
#include "stepcast/config/config.h"

namespace stepcast::harness {

std::vector<Strand> layer_strands(const Abilities& on, const PlanOptions& options) {
  struct Layer {
    const char* model;
    int tensor;
    std::int64_t sequences, length;
  };
  constexpr std::array<Layer, 12> kLayers = {{{"llama-3-8b", 1, 1, 8192},
                                              {"llama-3-70b", 4, 1, 8192},
                                              {"mixtral-8x7b", 1, 1, 4096},
                                              {"gpt3-175b", 8, 1, 2048},
                                              {"llama-3-8b", 1, 4, 2048},
                                              {"qwen2.5-7b", 1, 2, 4096},
                                              {"llama-3-70b", 8, 2, 4096},
                                              {"llama-2-7b", 1, 1, 4096},
                                              {"qwen3-30b-a3b", 1, 1, 4096},
                                              {"llama-3.1-405b", 8, 1, 8192},
                                              {"llama-3-8b", 1, 1, 32768},
                                              {"gpt3-175b", 4, 2, 2048}}};
  Strand strand{.share = 4, .cases = {}};
  for (const job::DType dtype : {job::DType::bf16, job::DType::fp8}) {
    for (const Layer& layer : kLayers) {
      const bool asked = options.models.empty() ||
                         std::find(options.models.begin(), options.models.end(), layer.model) !=
                             options.models.end();
      // In fp8 experts are another story of scales and paddings.
      const bool moe = config::model(layer.model).moe.has_value();
      if (!asked || !on.has(dtype) || (dtype == job::DType::fp8 && moe)) {
        continue;
      }
      for (const bool backward : {false, true}) {
        strand.cases.emplace_back(interop::LayerCase{.model = layer.model,
                                                     .dtype = dtype,
                                                     .sequences = layer.sequences,
                                                     .length = layer.length,
                                                     .tensor = layer.tensor,
                                                     .backward = backward});
      }
    }
  }
  return {strand};
}

}  // namespace stepcast::harness
