// Writes Megatron-LM's arguments (megatron/training/arguments.py) after torchrun, as a script.
#include "write_megatron.h"

#include <algorithm>

namespace stepcast::interop::launch {
namespace {

void write_model_moe(const job::Model& m, Arguments& out) {
  if (!m.moe) {
    return;
  }
  out.group();
  const job::Moe& moe = *m.moe;
  out.value("num-experts", moe.experts);
  out.value("moe-ffn-hidden-size", moe.ffn);
  out.value("moe-router-topk", moe.topk);
  if (moe.router_groups > 1) {
    out.value("moe-router-num-groups", moe.router_groups);
    out.value("moe-router-group-topk", moe.router_group_topk);
  }
  if (moe.every > 1) {
    out.value("moe-layer-freq", moe.every);
  } else if (moe.dense_layers > 0) {
    out.value("moe-layer-freq",
              fmt::format("'([0]*{}+[1]*{})'", moe.dense_layers, m.layers - moe.dense_layers));
  }
  if (moe.shared_experts > 0) {
    // All shared experts together are one MLP.
    out.value("moe-shared-expert-intermediate-size",
              moe.shared_experts * (moe.shared_ffn > 0 ? moe.shared_ffn : moe.ffn));
  }
  if (moe.latent > 0) {
    out.value("moe-latent-size", moe.latent);
  }
  out.flag_if(moe.router_bias, "moe-router-enable-expert-bias");
  out.flag_if(moe.shared_gate, "moe-shared-expert-gate");
}

// Layers that are a mixer or an MLP each, as --hybrid-layer-pattern names them; nothing where a
// layer is both or of a kind that it has no letter for.
void write_hybrid(const job::Model& m, Arguments& out) {
  if (m.mixers.empty() || m.mlps.empty()) {
    return;
  }
  std::string pattern;
  for (std::size_t i = 0; i < static_cast<std::size_t>(m.layers); ++i) {
    const char mixer = m.mixers[i % m.mixers.size()];
    const char mlp = m.mlps[i % m.mlps.size()];
    const char letter = mixer == 'm' && mlp == '-'   ? 'M'
                        : mixer == 'a' && mlp == '-' ? '*'
                        : mixer == '-' && mlp == 'd' ? '-'
                        : mixer == '-' && mlp == 'e' ? 'E'
                                                     : '\0';
    if (letter == '\0') {
      return;
    }
    pattern += letter;
  }
  for (int i = 0; i < m.mtp_layers; ++i) {
    pattern += m.moe ? "/*E" : "/*-";
  }
  out.value("hybrid-layer-pattern", fmt::format("'{}'", pattern));
  if (m.mamba) {
    out.value("mamba-num-heads", m.mamba->heads);
    out.value("mamba-head-dim", m.mamba->head_dim);
    out.value("mamba-state-dim", m.mamba->state);
    out.value("mamba-num-groups", m.mamba->groups);
  }
}

void write_heads(const job::Model& m, Arguments& out) {
  out.group();
  out.value("num-attention-heads", m.heads);
  if (m.mla) {
    out.flag("multi-latent-attention");
    if (m.mla->q_lora_rank > 0) {
      out.value("q-lora-rank", m.mla->q_lora_rank);
    }
    out.value("kv-lora-rank", m.mla->kv_lora_rank);
    out.value("qk-head-dim", m.mla->qk_nope_dim);
    out.value("qk-pos-emb-head-dim", m.mla->qk_rope_dim);
    out.value("v-head-dim", m.mla->v_dim);
  } else {
    out.value("kv-channels", m.head_dim);
    if (m.kv_heads != m.heads) {
      out.flag("group-query-attention");
      out.value("num-query-groups", m.kv_heads);
    }
  }
  out.flag_if(m.qk_norm, "qk-layernorm");
  write_hybrid(m, out);
  if (m.sliding_window > 0) {
    out.value("window-size", fmt::format("{},0", m.sliding_window - 1));  // without its own key
    const std::size_t every = m.mixers.size();
    if (every > 0 && m.mixers == std::string(every - 1, 'w') + "a") {
      out.value("window-attn-skip-freq", every);
    }
  }
}

}  // namespace

void write_megatron_model(const Request& r, Arguments& out) {
  const job::Model& m = r.job.model;
  out.group();
  out.value("num-layers", m.layers);
  out.value("hidden-size", m.hidden);
  out.value("ffn-hidden-size", m.ffn);
  out.value("seq-length", r.job.workload.sequence_length);
  out.value("max-position-embeddings", m.positions == job::Positions::learned
                                           ? m.max_positions
                                           : r.job.workload.sequence_length);
  if (m.encoder_layers > 0) {
    out.value("encoder-num-layers", m.encoder_layers);
  }
  if (m.mtp_layers > 0) {
    out.value("mtp-num-layers", m.mtp_layers);
    out.flag_if(m.mtp_repeated, "mtp-use-repeated-layer");
  }
  write_heads(m, out);
  out.group();
  out.value("position-embedding-type", m.positions == job::Positions::learned  ? "learned_absolute"
                                       : m.positions == job::Positions::rotary ? "rope"
                                                                               : "none");
  out.value("normalization", m.norm == job::Norm::rms ? "RMSNorm" : "LayerNorm");
  out.flag_if(m.gated_mlp, "swiglu");
  out.flag_if(!m.tied_embeddings, "untie-embeddings-and-output-weights");
  if (!(m.biases.qkv && m.biases.attention_out && m.biases.mlp)) {
    out.flag("disable-bias-linear");
    out.flag_if(m.biases.qkv, "add-qkv-bias");
  }
  out.value("attention-dropout", m.dropout);
  out.value("hidden-dropout", m.dropout);
  // The tokenizer's vocabulary without its end-of-document token.
  out.value("tokenizer-type", "NullTokenizer");
  out.value("vocab-size", m.vocab - 1);
  if (r.job.system.vocab_divisor > 0) {
    out.value("make-vocab-size-divisible-by", r.job.system.vocab_divisor);
  }
  write_model_moe(m, out);
}

namespace {

// Where two settings of a job mean the same, takes the one that Megatron-LM's reader gives.
job::Job view(const job::Job& job) {
  job::Job out = job;
  job::Recompute& recompute = out.memory.recompute;
  if (recompute.kind == job::Recompute::Kind::full) {
    recompute.kind = job::Recompute::Kind::uniform;  // of one layer
    recompute.layers = 1;
  }
  if (out.model.moe && out.model.moe->shared_experts == 1 && out.model.moe->shared_ffn == 0) {
    out.model.moe->shared_ffn = out.model.moe->ffn;
  }
  job::Parallelism& p = out.parallelism;
  if (!p.layers_per_stage.empty()) {
    p.layout = megatron_layout(p.layers_per_stage);
    p.layers_per_stage.clear();
  }
  return out;
}

Written write_megatron(const Request& r) {
  Arguments out;
  out.group();
  out.value("nnodes", r.job.cluster.nodes);
  out.value("nproc-per-node", r.job.cluster.node.gpus);
  const std::string launcher = out.lines().front();
  Arguments script;
  write_megatron_model(r, script);
  write_megatron_parallel(r, script);
  write_megatron_kernels(r, script);
  std::string text = fmt::format(
      "torchrun {} --node-rank ${{NODE_RANK:-0}} --master-addr "
      "${{MASTER_ADDR:-localhost}} \\\n  {}",
      launcher, r.job.model.mamba ? "pretrain_mamba.py" : "pretrain_gpt.py");
  for (const std::string& line : script.lines()) {
    if (!line.empty()) {
      text += " \\\n  " + line;
    }
  }
  return {text + "\n"};
}

}  // namespace

std::string megatron_layout(const std::vector<int>& layers) {
  std::string out = "E";
  for (std::size_t i = 0; i < layers.size(); ++i) {
    out += (i == 0 ? "" : "|") + std::string(static_cast<std::size_t>(layers[i]), 't');
  }
  return out + "L";
}

const Writer& megatron_writer() {
  static const Writer writer = {
      "megatron",
      "Megatron-LM's arguments",
      ".sh",
      "# ",
      {"megatron-lm", "megatron-fsdp", "megatron-lm-2021", "megatron-lm-2022", "megatron-lm-2023",
       "megatron-lm-2024", "zero-bubble"},
      write_megatron,
      {{"kernels.attention", "which FlashAttention is installed"},
       {"kernels.library", "the installed cuBLAS"},
       {"kernels.fp8_attention", "numerics of the recipe"},
       {"kernels.fused_casts", "numerics of the recipe"},
       {"kernels.casts_apart", "numerics of the recipe"},
       {"moe.fp8_dispatch", "numerics of the recipe"},
       {"memory.fp8_activation_input", "numerics of the recipe"},
       {"memory.kept_weight_copies", "the installed Transformer Engine"},
       {"memory.fp12_attention_output", "numerics of the recipe"},
       {"memory.allocator", "PYTORCH_CUDA_ALLOC_CONF"},
       {"moe.balance", "what the router decides"},
       {"workload.documents", "the training data"},
       {"workload.tokens", "the length of the run"}},
      view,
  };
  return writer;
}

}  // namespace stepcast::interop::launch
