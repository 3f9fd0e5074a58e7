// What transformers' modules of a model do otherwise than Llama's holds for the systems that run
// them, where the job does not state it.
#include <string>

#include "catch.hpp"
#include "stepcast/config/config.h"
#include "stepcast/input/input.h"

using namespace stepcast;
using job::AttentionKernel;

namespace {

job::Job job_of(const std::string& model, const std::string& system, const std::string& rest = "") {
  return input::parse("model: " + model + "\nsystem: " + system +
                          "\nworkload: {sequence_length: 4096, global_batch: 8}\n"
                          "cluster: {use: dgx-a100, nodes: 1}\n" +
                          rest,
                      "job.yaml")
      .job;
}

}  // namespace

TEST_CASE("modules: without a fused kernel attention is unfused, unless one is named") {
  CHECK(job_of("gemma-2-9b", "transformers").kernels.attention == AttentionKernel::unfused);
  CHECK(job_of("gpt-oss-20b", "deepspeed").kernels.attention == AttentionKernel::unfused);
  CHECK(job_of("gemma-2-9b", "transformers", "kernels: {attention: flash2}\n").kernels.attention ==
        AttentionKernel::flash2);
  // flash-attn's package in place of PyTorch's attention.
  CHECK(job_of("gemma-2-9b", "{use: transformers, scaled_dot_product: false}").kernels.attention ==
        AttentionKernel::flash2);
  CHECK(job_of("gemma-3-4b", "transformers").kernels.attention == AttentionKernel::flash2);
}

TEST_CASE("modules: systems with modules of their own know nothing of it") {
  CHECK(job_of("gemma-2-9b", "torchtitan").kernels.attention != AttentionKernel::unfused);
  CHECK(job_of("gemma-2-9b", "litgpt").kernels.attention != AttentionKernel::unfused);
  CHECK_FALSE(job_of("phi-3-mini", "torchtune").system.packed_qkv);
}

TEST_CASE("modules: projections, rotary positions and masks are the model's, or as stated") {
  const job::System phi = job_of("phi-3-mini", "transformers").system;
  CHECK(phi.packed_qkv);
  CHECK(phi.packed_gated_mlp);
  CHECK(phi.joined_rotary);
  CHECK_FALSE(job_of("llama-3-8b", "transformers").system.joined_rotary);
  CHECK_FALSE(job_of("phi-3-mini", "{use: transformers, packed_qkv: false}").system.packed_qkv);
  CHECK(job_of("falcon-7b", "transformers").system.attention_masks == AttentionMasks::all);
  CHECK(job_of("falcon-7b", "{use: transformers, attention_masks: none}").system.attention_masks ==
        AttentionMasks::none);
}
