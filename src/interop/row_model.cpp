// The model of a row.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "row_builder.h"
#include "skips.h"

namespace stepcast::interop {
namespace {

// GPT-2's byte-pair vocabulary, the default of the frameworks' GPT examples (row README: 50257 by
// default).
constexpr std::int64_t kDefaultVocab = 50257;
// Llama's: with it, counted once, the zero-bubble models of 6.2B and 14.6B have as many parameters
// as they are named by (with GPT-2's 6.3 and 14.7).
constexpr std::int64_t kLlamaVocab = 32000;
// Megatron-LM, --hidden-dropout and --attention-dropout.
constexpr double kMegatronDropout = 0.1;

// Heads nearest to 128 wide, in eights so that tensor ranks divide them.
std::int64_t likely_heads(std::int64_t hidden) {
  constexpr std::int64_t kWidth = 128;
  constexpr std::int64_t kStep = 8;
  std::int64_t best = 1;
  for (std::int64_t heads = kStep; heads <= hidden; heads += kStep) {
    if (hidden % heads == 0 &&
        std::abs(hidden / heads - kWidth) < std::abs(hidden / best - kWidth)) {
      best = heads;
    }
  }
  return best;
}

}  // namespace

void RowBuilder::write_model() {
  if (model["published"].present()) {
    out["model"] = {{"use", model["published"].text()}};
    return;
  }
  Json m = Json::object();
  const std::int64_t hidden = *model["hidden"].integer();
  const std::int64_t heads = model["heads"].integer().value_or(likely_heads(hidden));
  if (model["arch"].text() == "t5") {  // both stacks; the decoder's length is the workload's
    const std::int64_t encoder = flags["encoder-num-layers"].integer_or(0);
    m["layers"] = encoder + flags["decoder-num-layers"].integer_or(0);
    m["encoder_layers"] = encoder;
    m["encoder_sequence"] = *row["seq_len"].integer();
  } else {
    m["layers"] = *model["layers"].integer();
    if (model["arch"].text() == "bert") {
      m["encoder_layers"] = m["layers"];
    }
  }
  if (measures_experts(row)) {
    m["mixers"] = "-";
  }
  m["hidden"] = hidden;
  m["heads"] = heads;
  if (!model["heads"].present()) {
    assume(std::to_string(heads) + " heads", kSizeUnknown);
  }
  if (const auto kv = model["kv_heads"].integer()) {
    m["kv_heads"] = *kv;
  }
  if (const auto dim = model["head_dim"].integer()) {
    m["head_dim"] = *dim;
  }
  const Fields moe = model["moe"];
  const std::int64_t expert_ffn = moe["moe_ffn"].integer_or(model["ffn"].integer_or(4 * hidden));
  m["ffn"] = model["ffn"].integer_or(moe.is_map() ? expert_ffn : 4 * hidden);
  write_vocab(m);
  const bool gated = model["gated_mlp"].flag().value_or(llama_like());
  m["gated_mlp"] = gated;
  m["tied_embeddings"] = model["tied_embeddings"].flag().value_or(!llama_like());

  std::string positions = model["position"].text();
  if (functional()) {
    positions = flags["position-embedding-type"].text();
    positions = positions.empty() || positions == "learned_absolute" ? "learned" : positions;
  }
  if (positions.empty()) {
    positions = llama_like() ? "rotary" : "learned";
  }
  if (positions == "rope") {
    positions = "rotary";
  }
  if (positions == "alibi") {  // a bias on the attention scores: no parameters, nothing moved
    positions = "none";
  }
  m["positions"] = positions;
  if (positions == "learned") {
    m["max_positions"] = flags["max-position-embeddings"].integer_or(*row["seq_len"].integer());
  }
  const bool rms = functional() ? flags["normalization"].text() == "RMSNorm" : llama_like();
  m["norm"] = rms ? "rms" : "layer";
  m["biases"] = functional() ? !flags["disable-bias-linear"].is_true()
                             : model["biases"].flag().value_or(!llama_like());
  m["dropout"] = dropout();
  if (flags["qk-layernorm"].is_true()) {
    m["qk_norm"] = true;
  }
  if (moe.is_map()) {
    write_moe(m, moe, expert_ffn);
  }
  write_window(m);
  if (const auto predictions = model["mtp_layers"].integer(); predictions && *predictions > 0) {
    m["mtp_layers"] = *predictions;
  }
  if (flags["multi-latent-attention"].is_true()) {
    // Defaults of Megatron-LM's arguments.
    m["mla"] = {{"q_lora_rank", flags["q-lora-rank"].integer_or(0)},
                {"kv_lora_rank", flags["kv-lora-rank"].integer_or(32)},
                {"qk_nope_dim", flags["qk-head-dim"].integer_or(128)},
                {"qk_rope_dim", flags["qk-pos-emb-head-dim"].integer_or(64)},
                {"v_dim", flags["v-head-dim"].integer_or(128)}};
    m.erase("kv_heads");
    m.erase("head_dim");
  }
  out["model"] = m;
}

// "alternate layers sliding/full" (gpt-oss); otherwise every layer has the window.
void RowBuilder::write_window(Json& m) {
  const auto window = model["sliding_window"].integer();
  if (!window || *window <= 0) {
    return;
  }
  m["sliding_window"] = *window;
  if (contains(model["window_pattern"].text(), "alternate")) {
    m["mixers"] = "wa";
  }
}

void RowBuilder::write_vocab(Json& m) {
  std::optional<std::int64_t> vocab = job["vocab"].integer();
  if (!vocab) {
    vocab = model["vocab"].integer();
  }
  if (!vocab) {
    vocab = zero_bubble() ? kLlamaVocab : kDefaultVocab;
    if (!measures_experts(row)) {
      assume(fmt::format("a vocabulary of {}", *vocab), kVocabUnknown);
    }
  }
  const std::int64_t unit = (uses_megatron() ? 128 : 1) * tp();  // --make-vocab-size-divisible-by
  const bool padded = job["vocab"].present() && *vocab % tp() == 0;
  m["vocab"] = padded ? *vocab : (*vocab + unit - 1) / unit * unit;
}

double RowBuilder::dropout() const {
  if (functional()) {
    return flags["hidden-dropout"].number().value_or(kMegatronDropout);
  }
  return llama_like() || !uses_megatron() ? 0.0 : kMegatronDropout;
}

void RowBuilder::write_moe(Json& m, Fields moe, std::int64_t expert_ffn) {
  Json e = Json::object();
  e["experts"] = moe["experts"].integer_or(0);
  e["topk"] = moe["topk"].integer_or(1);
  e["ffn"] = expert_ffn;
  const std::int64_t shared_ffn = moe["shared_ffn"].integer_or(0);
  const std::int64_t shared = moe["shared_experts"].integer_or(0);
  if (shared > 0 || shared_ffn > 0) {
    e["shared_experts"] = std::max<std::int64_t>(shared, 1);
    if (shared_ffn > 0) {
      e["shared_ffn"] = shared_ffn / std::max<std::int64_t>(shared, 1);
    }
  }
  const std::int64_t dense =
      moe["dense_layers"].integer_or(moe["first_dense_layers"].integer_or(0));
  if (dense > 0) {
    e["dense_layers"] = dense;
  }
  m["moe"] = e;
}

}  // namespace stepcast::interop
