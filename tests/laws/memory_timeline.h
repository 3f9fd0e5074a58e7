// Small jobs for laws of memory: a pipeline, sharded states, experts.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "catch.hpp"
#include "stepcast/config/config.h"
#include "stepcast/forecast/forecaster.h"

namespace stepcast::test {

inline const std::string kDense =
    "model: {layers: 8, hidden: 1024, heads: 16, kv_heads: 4, head_dim: 64, ffn: 4096, vocab: "
    "32000, gated_mlp: true, "
    "norm: rms, positions: rotary}\n"
    "cluster: {use: dgx-h100, nodes: 1}\n"
    "workload: {sequence_length: 2048, global_batch: 16, micro_batch: 1, precision: bf16}\n";

inline const std::vector<std::pair<std::string, std::string>> kMemoryJobs = {
    {"pipeline",
     kDense + "system: megatron-lm\nparallelism: {tensor: 2, pipeline: 4, sharding: zero1}\n"},
    {"interleaved",
     kDense +
         "system: megatron-lm\nparallelism: {pipeline: 4, virtual_pipeline: 2, sharding: zero1}\n"
         "memory: {recompute: full}\n"},
    {"zero bubble", kDense + "system: zero-bubble\nparallelism: {pipeline: 4, schedule: zb_h1}\n"},
    {"fsdp",
     kDense + "system: pytorch-fsdp2\nparallelism: {sharding: fsdp}\nmemory: {recompute: full}\n"},
    {"fsdp, expandable", kDense + "system: pytorch-fsdp2\nparallelism: {sharding: fsdp}\nmemory: "
                                  "{allocator: expandable_segments}\n"},
    {"deepspeed", kDense + "system: deepspeed\nparallelism: {sharding: zero2}\n"},
};

inline result::MemoryTimeline memory_of(const std::string& text) {
  const auto job = config::parse(text, "memory").job;
  forecast::Forecaster forecaster(STEPCAST_SOURCE_DIR);
  auto out = forecaster.memory(job);
  if (const auto* why = std::get_if<Infeasible>(&out)) {
    FAIL(why->key << ": " << why->reason);
  }
  return std::get<result::MemoryTimeline>(std::move(out));
}

}  // namespace stepcast::test
