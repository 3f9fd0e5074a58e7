// Small jobs with small spaces, drawn at random with a fixed seed, and the reference for a search:
// every combination, loaded as a user would type it.
#pragma once

#include <fmt/format.h>

#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "stepcast/input/input.h"
#include "stepcast/search/search.h"
#include "stepcast/search/space.h"
#include "stepcast/text/document.h"

namespace stepcast::test {

inline search::JobLoader loader_of(const std::string& job) {
  return [job](const std::vector<std::string>& overrides) -> std::variant<job::Job, Infeasible> {
    try {
      return input::parse(job, "job", overrides).job;
    } catch (const InputError& error) {
      const Fault& first = error.faults().front();
      return Infeasible{to_string(first.where), first.message};
    }
  };
}

inline search::Space space_of(const std::string& yaml, const std::string& job) {
  return search::read_space(text::parse_yaml(yaml, "space"), input::parse(job, "job").job);
}

// Calls a function with the overrides of each combination, in any order.
inline void each_combination(const search::Space& space,
                             const std::function<void(const std::vector<std::string>&)>& visit) {
  std::vector<std::string> now;
  const std::function<void(std::size_t)> from = [&](std::size_t i) {
    if (i == space.dimensions.size()) {
      visit(now);
      return;
    }
    for (const std::string& value : space.dimensions[i].values) {
      now.push_back(space.dimensions[i].key + "=" + value);
      from(i + 1);
      now.pop_back();
    }
  };
  from(0);
}

// Systems whose defaults differ in what candidates share.
inline const std::vector<std::string> kSystems = {"megatron-lm-2022",
                                                  "megatron-lm-2021",
                                                  "megatron-deepspeed",
                                                  "megatron-fsdp",
                                                  "megatron-bridge",
                                                  "nemo",
                                                  "zero-bubble",
                                                  "gpt-neox",
                                                  "deepspeed",
                                                  "pytorch-ddp",
                                                  "pytorch-fsdp1",
                                                  "pytorch-fsdp2",
                                                  "torchtitan",
                                                  "transformers",
                                                  "composer",
                                                  "fairscale",
                                                  "aleph-alpha-scaling",
                                                  "litgpt-fsdp",
                                                  "internevo",
                                                  "paddlenlp",
                                                  "colossal-ai",
                                                  "nanotron",
                                                  "nemo-automodel",
                                                  "deepseek"};

struct DrawnSpace {
  std::string job;
  std::string space;  // YAML
};

// At most 32 ranks; dense models and mixtures of experts; long and short sequences; three to five
// dimensions with two or three values.
inline DrawnSpace draw_space(std::mt19937& random) {
  const auto pick = [&](std::size_t n) {
    return std::uniform_int_distribution<std::size_t>(0, n - 1)(random);
  };
  const auto one_of = [&](const std::vector<std::string>& texts) {
    return texts[pick(texts.size())];
  };
  const bool experts = pick(5) < 2;
  const std::string system = pick(2) == 0 ? "megatron-lm" : one_of(kSystems);
  const std::string model =
      experts ? "{layers: 4, hidden: 512, heads: 8, kv_heads: 8, head_dim: 64, ffn: 2048, vocab: "
                "8000, gated_mlp: true, norm: rms, positions: rotary, moe: {experts: 8, topk: 2, "
                "ffn: 1024" +
                    one_of({"", "", ", shared_experts: 1"}) + "}}"
              : "{layers: 8, hidden: 1024, heads: 16, kv_heads: 8, head_dim: 64, ffn: 4096, vocab: "
                "16000, gated_mlp: true, norm: rms, positions: rotary}";
  DrawnSpace out;
  out.job = fmt::format(
      "model: {}\ncluster: {{use: {}, nodes: {}}}\nsystem: {}\n"
      "workload: {{sequence_length: {}, global_batch: {}, micro_batch: 1}}\n",
      model, one_of({"dgx-a100", "dgx-h100", "aws-p4d"}), one_of({"1", "2", "4"}), system,
      one_of({"1024", "4096"}), one_of({"32", "64"}));
  std::vector<std::string> dimensions = {
      "tensor: [1, 2, 4]",
      "pipeline: [1, 2, 4]",
      "virtual_pipeline: [1, 2]",
      "context: [1, 2]",
      "context: [1, 2, 4]",
      "micro_batch: [1, 2, 4]",
      "sequence_parallel: [false, true]",
      "sharding: [none, zero1, zero2, zero3]",
      "recompute: [none, selective, full]",
      "recompute: [{every: 2}, {uniform: 2}, {block: 1}]",
      "recompute: [{modules: [core_attn, mlp]}, full]",
      "schedule: [gpipe, 1f1b]",
      "schedule: [1f1b, zb_h1, zb_v]",
      "cluster.order: [tp-cp-ep-dp-pp, tp-cp-ep-pp-dp]",
      "cluster.order: [dp-ep-tp-cp-pp, pp-dp-ep-cp-tp]",
      "offload: [{optimizer: cpu}, {activations: cpu}, {}]",
      "parallelism.overlap.grad_reduce: [false, true]",
      "parallelism.overlap.param_gather: [false, true]",
      "parallelism.accumulation: [{reduce: each}, {reduce: last}]",
      "parallelism.overlap.pipeline: [false, true]",
      "parallelism.overlap.tensor: [none, ring]",
      "context: [{size: 2, kind: p2p}, {size: 2, kind: a2a}, 1]",
      "context: [{size: 4, kind: hierarchical, inner: 2}, {size: 4, kind: all_gather}]",
      "layers_per_stage: [[1, 3], [3, 1], [2, 2], [3, 5]]",
      "kernels.compile: [false, true]"};
  const std::vector<std::string> of_experts = {"expert: [1, 2, 4]",
                                               "expert: [2, 8]",
                                               "expert_tensor: [1, 2]",
                                               "expert_tensor: [1, 4]",
                                               "dispatcher: [alltoall, allgather]",
                                               "dispatcher: [deepep, hybridep]",
                                               "moe.capacity_factor: [1.25]",
                                               "parallelism.overlap.expert: [false, true]"};
  const std::size_t wanted = 3 + pick(3);
  std::vector<std::string> keys;
  while (keys.size() < wanted) {
    // For a mixture of experts, half the dimensions concern the experts.
    const auto& from = experts && pick(2) == 0 ? of_experts : dimensions;
    const std::string& d = from[pick(from.size())];
    const std::string key = d.substr(0, d.find(':'));
    if (std::find(keys.begin(), keys.end(), key) == keys.end()) {
      keys.push_back(key);
      out.space += d + "\n";
    }
  }
  return out;
}

}  // namespace stepcast::test
