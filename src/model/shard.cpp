// What cannot be cut, how a job's framework shapes operators, and the padding of the vocabulary.
#include <fmt/format.h>

#include "builder.h"
#include "stepcast/model/experts.h"

namespace stepcast::model {

namespace {

// Heads of layers that are not the ordinary attention, which tensor parallelism cuts as well.
std::optional<Infeasible> check_mixers(const job::Model& model, int t) {
  const auto cut = [&](const char* what, std::int64_t count) -> std::optional<Infeasible> {
    if (count % t == 0) {
      return std::nullopt;
    }
    return Infeasible{"parallelism.tensor",
                      fmt::format("{} ({}) is not divisible by {}", what, count, t)};
  };
  std::optional<Infeasible> fault;
  const auto check = [&](const char* what, std::int64_t count) {
    if (!fault) {
      fault = cut(what, count);
    }
  };
  if (model.mamba) {
    check("the number of Mamba heads", model.mamba->heads);
    check("the number of Mamba groups", model.mamba->groups);
  }
  if (model.linear) {
    check("the number of linear attention's key heads", model.linear->key_heads);
    check("the number of linear attention's value heads", model.linear->value_heads);
  }
  if (model.window_heads) {
    check("the number of window layers' heads", model.window_heads->heads);
    check("the number of window layers' key-value heads", model.window_heads->kv_heads);
  }
  return fault;
}

}  // namespace

std::optional<Infeasible> check_shard(const job::Model& model, const Shard& shard) {
  const int t = shard.tensor;
  const auto indivisible = [](const char* key, const char* what, std::int64_t count,
                              std::int64_t parts) {
    return Infeasible{key, fmt::format("{} ({}) is not divisible by {}", what, count, parts)};
  };
  if (model.heads % t != 0) {
    return indivisible("parallelism.tensor", "the number of heads", model.heads, t);
  }
  if (!model.mla && model.kv_heads % t != 0) {
    return indivisible("parallelism.tensor", "the number of key-value heads", model.kv_heads, t);
  }
  if (auto fault = check_mixers(model, t)) {
    return fault;
  }
  const bool dense = !model.moe || model.moe->dense_layers > 0 || model.moe->every > 1;
  if (dense && model.ffn % t != 0) {
    return indivisible("parallelism.tensor", "the MLP width", model.ffn, t);
  }
  if (model.vocab < t) {
    return Infeasible{"parallelism.tensor", "there are more tensor ranks than vocabulary rows"};
  }
  if (shard.sequence_length % shard.context != 0) {
    return indivisible("parallelism.context", "the sequence length", shard.sequence_length,
                       shard.context);
  }
  if (shard.sequence_parallel && (shard.sequence_length / shard.context) % t != 0) {
    return indivisible("parallelism.sequence_parallel",
                       "the sequence length on a context-parallel rank",
                       shard.sequence_length / shard.context, t);
  }
  if (!model.moe) {
    if (shard.expert > 1) {
      return Infeasible{"parallelism.expert", "the model has no experts"};
    }
    if (shard.expert_tensor > 1 && shard.expert_tensor != t) {
      return Infeasible{"parallelism.expert_tensor", "the model has no experts"};
    }
    return std::nullopt;
  }
  const job::Moe& moe = *model.moe;
  if (moe.experts % shard.expert != 0) {
    return indivisible("parallelism.expert", "the number of experts", moe.experts, shard.expert);
  }
  if (moe.ffn % shard.expert_tensor != 0) {
    return indivisible("parallelism.expert_tensor", "an expert's width", moe.ffn,
                       shard.expert_tensor);
  }
  const std::int64_t shared = moe.shared_experts * (moe.shared_ffn > 0 ? moe.shared_ffn : moe.ffn);
  if (shared % t != 0) {
    return indivisible("parallelism.tensor", "the width of the shared experts", shared, t);
  }
  if (shard.expert > 1 && t > 1 && !shard.sequence_parallel) {
    // Megatron refuses it: without it every tensor rank would route the same tokens.
    return Infeasible{"parallelism.sequence_parallel",
                      "expert parallelism beside tensor parallelism needs it"};
  }
  return std::nullopt;
}

std::int64_t padded_vocab(std::int64_t vocab, std::int64_t divisor, int tensor) {
  if (divisor <= 1) {
    return vocab;
  }
  const std::int64_t multiple = divisor * tensor;
  return ceil_div(vocab, multiple) * multiple;
}

Style style_of(const job::Job& job) {
  Style s;
  s.routing = routing_of(job);
  switch (job.workload.precision) {
    case job::DType::fp32:
    case job::DType::tf32:
      s.dtype = job::DType::fp32;
      break;
    case job::DType::fp16:
      s.dtype = job::DType::fp16;
      break;
    default:  // 8-bit and 4-bit recipes keep activations in bf16 between their GEMMs
      s.dtype = job::DType::bf16;
      break;
  }
  s.attention = job.kernels.attention;
  s.finetune = job.workload.finetune;
  s.loss = job.kernels.loss;
  s.fused_norm = job.system.fused_norm;
  s.fused_softmax = job.system.fused_softmax;
  s.fused_bias_activation = job.system.fused_bias_activation;
  s.fused_bias_dropout_add = job.system.fused_bias_dropout_add;
  s.fused_rotary = job.system.fused_rotary;
  // torchtitan rotates pairs of reals where queries and keys are normed (models/qwen3: CosSinRoPE).
  s.complex_rotary = job.system.complex_rotary && !job.model.qk_norm;
  s.compiled = job.kernels.compile;
  s.loss_metrics = job.system.loss_metrics;
  s.quantized_inputs = job.system.quantized_inputs;
  s.fused_qkv = job.system.habits.packs_projections || job.system.packed_qkv;
  // torch.nn.Linear adds its bias in the product's epilogue (addmm by cuBLASLt, torch 1.10 and
  // later); Megatron-LM's layers add theirs behind it, or hand it on to the next kernel.
  s.fused_linear_bias = s.compiled || !job.system.habits.adds_linear_bias_apart;
  return s;
}

}  // namespace stepcast::model
