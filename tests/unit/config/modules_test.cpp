// What transformers' modules of a model do otherwise than Llama's holds for the systems that run
// them, where the job does not state it.
#include <string>

#include "catch.hpp"
#include "stepcast/config/config.h"
#include "stepcast/input/input.h"
#include "stepcast/job/facts.h"

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

TEST_CASE("modules: Liger-Kernel runs what it has for a family, and its loss is the job's") {
  using job::runs_liger;
  const std::string liger = "kernels: {liger: true}\n";
  const job::Job llama = job_of("llama-3-8b", "transformers", liger);
  CHECK(llama.kernels.loss == LossKernel::fused_linear);
  CHECK(runs_liger(llama, "rope"));
  CHECK(runs_liger(llama, "rms_norm"));
  CHECK(runs_liger(llama, "glu"));
  CHECK(job_of("llama-3-8b", "transformers", "kernels: {liger: [cross_entropy]}\n").kernels.loss ==
        LossKernel::fused);
  CHECK(
      job_of("llama-3-8b", "transformers", "kernels: {liger: true, loss: eager}\n").kernels.loss ==
      LossKernel::eager);
  CHECK(job_of("llama-3-8b", "transformers", "kernels: {liger: false}\n").kernels.loss ==
        LossKernel::eager);
  // TRL's fused head stays in its place; the loss that it had before gives way.
  CHECK(job_of("llama-3-8b", "trl", liger).kernels.loss == LossKernel::tiled_linear);
  CHECK(job_of("llama-3-8b", "trl-1.14", liger).kernels.loss == LossKernel::fused_linear);
  // Of families that are not in its list nothing is replaced.
  const job::Job pythia = job_of("pythia-12b", "transformers", liger);
  CHECK(pythia.kernels.loss == LossKernel::eager);
  CHECK_FALSE(runs_liger(pythia, "rope"));
  const job::Job oss = job_of("gpt-oss-20b", "transformers", liger);
  CHECK(oss.kernels.loss == LossKernel::fused_linear);
  CHECK_FALSE(runs_liger(oss, "glu"));
}

TEST_CASE("modules: every expert of Llama 4 computes every token under transformers alone") {
  CHECK(job_of("llama-4-scout", "transformers").moe.every_token);
  CHECK_FALSE(job_of("llama-4-scout", "megatron-lm").moe.every_token);
  CHECK_FALSE(
      job_of("llama-4-scout", "transformers", "moe: {every_token: false}\n").moe.every_token);
}
