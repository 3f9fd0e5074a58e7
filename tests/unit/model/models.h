// Published architectures, copied by hand from their config.json (comments name the HuggingFace
// repositories).
#pragma once

#include "stepcast/job/job.h"

namespace stepcast::test {

inline job::Model gpt(const char* name, int layers, std::int64_t hidden, int heads,
                      std::int64_t vocab, std::int64_t positions) {
  job::Model m;
  m.name = name;
  m.layers = layers;
  m.hidden = hidden;
  m.heads = m.kv_heads = heads;
  m.head_dim = static_cast<int>(hidden / heads);
  m.ffn = 4 * hidden;
  m.vocab = vocab;
  m.max_positions = positions;
  m.tied_embeddings = true;
  m.biases.qkv = m.biases.attention_out = m.biases.mlp = true;
  return m;
}

inline job::Model llama(const char* name, int layers, std::int64_t hidden, int heads, int kv_heads,
                        std::int64_t ffn, std::int64_t vocab) {
  job::Model m;
  m.name = name;
  m.layers = layers;
  m.hidden = hidden;
  m.heads = heads;
  m.kv_heads = kv_heads;
  m.head_dim = static_cast<int>(hidden / heads);
  m.ffn = ffn;
  m.vocab = vocab;
  m.gated_mlp = true;
  m.norm = job::Norm::rms;
  m.positions = job::Positions::rotary;
  return m;
}

inline job::Model moe(job::Model m, int experts, int topk, std::int64_t ffn) {
  m.moe.emplace();
  m.moe->experts = experts;
  m.moe->topk = topk;
  m.moe->ffn = ffn;
  return m;
}

inline job::Model llama3_8b() { return llama("llama-3-8b", 32, 4096, 32, 8, 14336, 128256); }
inline job::Model llama3_70b() { return llama("llama-3-70b", 80, 8192, 64, 8, 28672, 128256); }
inline job::Model mixtral_8x7b() {
  return moe(llama("mixtral-8x7b", 32, 4096, 32, 8, 14336, 32000), 8, 2, 14336);
}

// deepseek-ai/DeepSeek-V3, without its multi-token-prediction layer.
inline job::Model deepseek_v3() {
  job::Model m = moe(llama("deepseek-v3", 61, 7168, 128, 128, 18432, 129280), 256, 8, 2048);
  m.moe->shared_experts = 1;
  m.moe->dense_layers = 3;
  m.moe->router_bias = true;
  m.mla = job::Mla{1536, 512, 128, 64, 128};
  return m;
}

// deepseek-ai/DeepSeek-V2.
inline job::Model deepseek_v2() {
  job::Model m = moe(llama("deepseek-v2", 60, 5120, 128, 128, 12288, 102400), 160, 6, 1536);
  m.moe->shared_experts = 2;
  m.moe->dense_layers = 1;
  m.mla = job::Mla{1536, 512, 128, 64, 128};
  return m;
}

}  // namespace stepcast::test
