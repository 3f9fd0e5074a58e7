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

constexpr std::array kWritten = {
    Written{"bloom", kEagerCore},
    Written{"codegen", kEagerCore},
    Written{"deepseek_v4", kEagerCore},
    Written{"gpt_neo", kEagerCore},
    Written{"gpt_oss", {.eager_attention = true, .wide_norm = true}},
    Written{"gptj", kEagerCore},
    Written{"granite_swa", kEagerCore},
    Written{"granitemoe_swa", kEagerCore},
    Written{"mimo_v2_flash", {.eager_attention = true, .joined_rotary = true}},
    Written{"mpt", kEagerCore},
    Written{"switch_transformers", kEagerCore},
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

}  // namespace

job::Modules modules_of(const std::string& model_type) {
  for (const Written& one : kWritten) {
    if (one.model_type == model_type) {
      return one.modules;
    }
  }
  return {};
}

}  // namespace stepcast::config
