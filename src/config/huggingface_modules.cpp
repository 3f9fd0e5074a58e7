// How transformers writes the modules of each family (5.23.0, models/TYPE/modeling_TYPE.py): which
// projections are one linear, what rotary positions and norms make, and whether attention may be
// PyTorch's (_supports_sdpa).
#include <array>
#include <string_view>

#include "huggingface_config.h"

namespace stepcast::config {

namespace {

struct Written {
  std::string_view model_type;
  job::Modules modules;
};

constexpr job::Modules kEagerCore = {.eager_attention = true};
// Part of each head is rotated and joined with the rest.
constexpr job::Modules kJoinedRotary = {.joined_rotary = true};
// The norm multiplies by its weight, or by 1 + weight, ahead of the cast to 16 bits.
constexpr job::Modules kWideNorm = {.wide_norm = true};
constexpr job::Modules kScalingSinks = {.eager_attention = true, .logsumexp_sinks = true};

constexpr std::array kWritten = {
    Written{"bloom", kEagerCore},
    Written{"codegen", kEagerCore},
    Written{"deepseek_v4", kEagerCore},
    Written{"gpt_neo", kEagerCore},
    Written{"gpt_oss", {.eager_attention = true, .wide_norm = true}},
    Written{"gptj", kEagerCore},
    Written{"granite_swa", kScalingSinks},
    Written{"granitemoe_swa", kScalingSinks},
    Written{"mimo_v2_flash", {.eager_attention = true, .joined_rotary = true}},
    Written{"mpt", kEagerCore},
    Written{"switch_transformers", kEagerCore},
    Written{"llama4", {.every_token = true}},
    Written{"llama4_text", {.every_token = true}},
    Written{"gemma", kWideNorm},
    Written{"gemma2", {.eager_attention = true, .wide_norm = true}},
    Written{"gemma3_text", kWideNorm},
    Written{"vaultgemma", {.eager_attention = true, .wide_norm = true}},
    Written{"afmoe", kWideNorm},
    Written{"flex_olmo", kWideNorm},
    Written{"olmo2", kWideNorm},
    Written{"olmo3", kWideNorm},
    Written{"falcon", {.masked_attention = true, .copied_qkv = true}},
    Written{"gpt_neox", {.packed_qkv = true, .joined_rotary = true}},
    Written{"phi3", {.packed_qkv = true, .packed_gated_mlp = true, .joined_rotary = true}},
    Written{"phi", kJoinedRotary},
    Written{"stablelm", kJoinedRotary},
    Written{"nemotron", kJoinedRotary},
    Written{"glm", {.packed_gated_mlp = true, .joined_rotary = true}},
    Written{"glm4", {.packed_gated_mlp = true, .joined_rotary = true}},
    Written{"glm4_moe", kJoinedRotary},
    Written{"glm4v_text", {.packed_gated_mlp = true, .joined_rotary = true}},
    Written{"glm4v_moe_text", kJoinedRotary},
    Written{"minimax_m2", kJoinedRotary},
    Written{"qwen3_next", {.joined_rotary = true, .wide_norm = true}},
    Written{"qwen3_5_text", {.joined_rotary = true, .wide_norm = true}},
    Written{"qwen3_5_moe_text", {.joined_rotary = true, .wide_norm = true}},
};

// What Liger-Kernel patches of a family by default (liger-kernel 0.8.5,
// transformers/monkey_patch.py:3904, MODEL_TYPE_TO_APPLY_LIGER_FN, and the defaults of these
// functions). Of families that are not listed it patches nothing; experts are of those that have
// them.
struct Patched {
  std::string_view model_type;
  job::LigerOperators liger;
};

constexpr job::LigerOperators kLlama4 = {.qk_norm = false, .experts = false};
constexpr job::LigerOperators kNoRope = {.rope = false};
constexpr job::LigerOperators kNoQkNorm = {.qk_norm = false};
constexpr job::LigerOperators kNoGlu = {.glu = false, .experts = false};
constexpr job::LigerOperators kNothing = {.rope = false,
                                          .rms_norm = false,
                                          .glu = false,
                                          .experts = false,
                                          .loss = false,
                                          .linear_loss = false};

constexpr std::array kPatched = {
    Patched{"deepseek_v2", kNoRope},
    Patched{"deepseek_v3", kNoRope},
    Patched{"deepseek_v4", {.rope = false, .glu = false, .experts = false}},
    Patched{"exaone4", {}},
    Patched{"gemma", {}},
    Patched{"gemma2", {}},
    Patched{"gemma3_text", {}},
    Patched{"gemma4_text", kNoRope},
    Patched{"glm4", kNoRope},
    Patched{"glm4v_text", kNoRope},
    Patched{"glm4v_moe_text", kNoRope},
    Patched{"gpt_oss", kNoGlu},
    Patched{"granite", {.linear_loss = false}},
    Patched{"hunyuan_v1_dense", kNoQkNorm},
    Patched{"hunyuan_v1_moe", kNoQkNorm},
    Patched{"llama", {}},
    Patched{"llama4", kLlama4},
    Patched{"llama4_text", kLlama4},
    Patched{"ministral", {}},
    Patched{"mistral", {}},
    Patched{"mixtral", {}},
    Patched{"nemotron", {.rope = false, .rms_norm = false, .glu = false, .experts = false}},
    Patched{"olmo2", kNoQkNorm},
    Patched{"olmo3", kNoQkNorm},
    Patched{"phi3", {}},
    Patched{"qwen2", {}},
    Patched{"qwen2_5_vl_text", {}},
    Patched{"qwen2_vl_text", {}},
    Patched{"qwen3", {}},
    Patched{"qwen3_5_moe_text", kNoRope},
    Patched{"qwen3_5_text", kNoRope},
    Patched{"qwen3_moe", {}},
    Patched{"qwen3_next", kNoRope},
    Patched{"qwen3_vl_moe_text", {}},
    Patched{"qwen3_vl_text", kNoGlu},
    Patched{"smollm3", {}},
};

// The row of a family, or what stands for those that have none.
template <class Rows, class Value>
Value row_of(const Rows& rows, const std::string& model_type, Value without) {
  for (const auto& [type, value] : rows) {
    if (type == model_type) {
      return value;
    }
  }
  return without;
}

}  // namespace

job::Modules modules_of(const std::string& model_type) {
  job::Modules out = row_of(kWritten, model_type, job::Modules{});
  out.liger = row_of(kPatched, model_type, kNothing);
  return out;
}

}  // namespace stepcast::config
