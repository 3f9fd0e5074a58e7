// Which parts of a model divide over ranks: heads, widths, the vocabulary, experts, the sequence.
#include <algorithm>

#include "rules.h"
#include "stepcast/job/facts.h"
#include "stepcast/strategy/rules.h"

namespace stepcast::strategy {
namespace {

constexpr const char* kTensor = "parallelism.tensor";

void divide(int tensor, std::int64_t count, const char* what, Faults& out) {
  if (count % tensor != 0) {
    out.add(kTensor, "tensor {} does not divide {} {}; expected a divisor", tensor, what, count);
  }
}

bool has_dense_mlps(const job::Model& m) {
  return !m.moe || m.moe->dense_layers > 0 || m.moe->every > 1;
}

// Rows of the projection to queries, keys and values.
std::int64_t projected_rows(const job::Model& m) {
  const std::int64_t v_dim = m.v_dim > 0 ? m.v_dim : m.head_dim;
  return std::int64_t{m.heads} * m.head_dim + m.kv_heads * (m.head_dim + v_dim);
}

// Whether this model's key-value heads can each be shared by several of so many tensor ranks. An
// attention gate is as wide as the query heads of all those ranks, which megatron-core multiplies
// with the heads of one (0.16.1, transformer/attention.py: get_query_key_value_tensors).
bool has_heads_to_share(const job::Model& m, int tensor) {
  const bool cross = m.encoder_layers > 0 && m.encoder_layers < m.layers;
  return !m.mla && !m.attention_gate && !m.window_heads && !m.value_norm && !cross &&
         m.shared_kv_layers == 0 && m.kv_heads > 0 && tensor > m.kv_heads &&
         tensor % m.kv_heads == 0 && m.heads % tensor == 0;
}

// Ranks that share heads cut the one projection evenly, wherever a head ends, and gather what they
// made (:1411). So PaLM's 48 heads and one key-value head, 12,800 rows, have no 12 ranks.
bool divides_key_heads(const job::Model& m, int tensor) {
  return has_heads_to_share(m, tensor) && projected_rows(m) % tensor == 0;
}

// `shares`: ranks may share a key-value head.
void cut_heads(const job::Model& m, int tensor, bool shares, Faults& out) {
  divide(tensor, m.heads, "heads", out);
  if (m.mla || m.kv_heads == m.heads || (shares && divides_key_heads(m, tensor))) {
    return;
  }
  if (shares && has_heads_to_share(m, tensor)) {
    divide(tensor, projected_rows(m), "rows of the projection to queries, keys and values:", out);
  } else {
    divide(tensor, m.kv_heads, "kv_heads", out);
  }
}

void cut_widths(const job::Model& m, int tensor, Faults& out) {
  if (has_dense_mlps(m)) {
    divide(tensor, m.ffn, "ffn", out);
    for (const std::int64_t width : m.ffns) {
      if (width % tensor != 0) {
        out.add(kTensor, "tensor {} does not divide the width {} of ffns; expected a divisor",
                tensor, width);
        return;
      }
    }
  }
}

void cut_vocabulary(const job::Model& m, int tensor, Faults& out) {
  if (m.vocab < tensor) {
    out.add(kTensor, "tensor {} is more than the {} rows of the vocabulary; expected at most that",
            tensor, m.vocab);
  }
}

void cut_experts(const job::Moe& moe, int expert, int expert_tensor, Faults& out) {
  if (moe.ffn % expert_tensor != 0) {
    out.add("parallelism.expert_tensor",
            "moe.ffn {} is not divisible by expert_tensor {}; expected a divisor", moe.ffn,
            expert_tensor);
  }
  if (moe.experts % expert != 0) {
    out.add("parallelism.expert",
            "the {} experts are not divisible by expert {}; expected a divisor", moe.experts,
            expert);
  }
}

void refuse_expert_sizes(int expert, int expert_tensor, Faults& out) {
  if (expert > 1) {
    out.add("parallelism.expert", "expert {} of a model without experts; expected 1", expert);
  } else if (expert_tensor != 1) {
    out.add("parallelism.expert_tensor", "expert_tensor {} of a model without experts; expected 1",
            expert_tensor);
  }
}

void indivisible(const char* key, const char* what, std::int64_t count, std::int64_t parts,
                 Faults& out) {
  if (count % parts != 0) {
    out.add(key, "{} ({}) is not divisible by {}", what, count, parts);
  }
}

// Heads of layers other than ordinary attention, which tensor parallelism divides as well.
void cut_mixers(const job::Model& m, int tensor, Faults& out) {
  if (m.mamba) {
    indivisible(kTensor, "the number of Mamba heads", m.mamba->heads, tensor, out);
    indivisible(kTensor, "the number of Mamba groups", m.mamba->groups, tensor, out);
  }
  if (m.linear) {
    indivisible(kTensor, "the number of linear attention's key heads", m.linear->key_heads, tensor,
                out);
    indivisible(kTensor, "the number of linear attention's value heads", m.linear->value_heads,
                tensor, out);
  }
  if (m.window_heads) {
    indivisible(kTensor, "the number of window layers' heads", m.window_heads->heads, tensor, out);
    indivisible(kTensor, "the number of window layers' key-value heads", m.window_heads->kv_heads,
                tensor, out);
  }
}

void cut_sequence(const model::Shard& shard, Faults& out) {
  indivisible("parallelism.context", "the sequence length", shard.sequence_length, shard.context,
              out);
  if (shard.sequence_parallel) {
    indivisible("parallelism.sequence_parallel", "the sequence length on a context-parallel rank",
                shard.sequence_length / shard.context, shard.tensor, out);
  }
}

void cut_shared_experts(const job::Moe& moe, const model::Shard& shard, Faults& out) {
  indivisible(kTensor, "the width of the shared experts",
              moe.shared_experts * (moe.shared_ffn > 0 ? moe.shared_ffn : moe.ffn), shard.tensor,
              out);
  if (shard.expert > 1 && shard.tensor > 1 && !shard.sequence_parallel) {
    // Megatron refuses it: without it every tensor rank would route the same tokens.
    out.add("parallelism.sequence_parallel",
            "expert parallelism together with tensor parallelism needs sequence parallelism");
  }
}

// The side of the grid of tensor ranks: q of q x q (x depth), l of l x l x l; 0: the ranks do not
// form one.
int side_of(const job::Parallelism& par) {
  for (std::int64_t side = 1; side * side <= par.tensor; ++side) {
    const std::int64_t depth = par.tensor_kind == job::TensorKind::two_d        ? 1
                               : par.tensor_kind == job::TensorKind::two_half_d ? par.tensor_depth
                                                                                : side;
    if (side * side * depth == par.tensor) {
      return static_cast<int>(side);
    }
  }
  return 0;
}

// The batch is cut over the rows of the grid and its depth, in 3D over two sides.
int rows_of(const job::Parallelism& par, int side) {
  return par.tensor_kind == job::TensorKind::two_d        ? side
         : par.tensor_kind == job::TensorKind::two_half_d ? side * par.tensor_depth
                                                          : side * side;
}

bool makes_grid(const job::Parallelism& par) {
  return par.tensor > 1 && par.tensor_kind != job::TensorKind::one_d;
}

}  // namespace

model::Shard shard_of(const job::Job& job) {
  const auto& par = job.parallelism;
  model::Shard shard;
  shard.sequences = job.workload.micro_batch;
  shard.sequence_length = job.workload.sequence_length;
  shard.context = par.context;
  shard.tensor = par.tensor;
  shard.sequence_parallel = par.sequence_parallel && par.tensor > 1;
  shard.expert = par.expert;
  shard.expert_tensor = job.model.moe ? par.expert_tensor : 1;
  if (const int side = makes_grid(par) ? side_of(par) : 0; side > 1) {
    shard.sequences /= rows_of(par, side);
    shard.tensor = side;
    shard.sequence_parallel = true;  // activations are cut over every rank
  }
  return shard;
}

namespace {

bool may_share_heads(const job::Job& job) {
  return job.system.gathers_qkv && job.parallelism.tensor_kind == job::TensorKind::one_d;
}

}  // namespace

bool shares_key_heads(const job::Job& job, int tensor) {
  return may_share_heads(job) && divides_key_heads(job.model, tensor);
}

bool forms_tensor_grid(const job::Job& job) {
  const auto& par = job.parallelism;
  if (!makes_grid(par)) {
    return true;
  }
  const int side = side_of(par);
  return side > 1 && job.workload.micro_batch % rows_of(par, side) == 0;
}

void shard_heads(const job::Job& job, Faults& out) {
  const int tensor = job.parallelism.tensor;
  cut_heads(job.model, tensor, may_share_heads(job), out);
}

void shard_widths(const job::Job& job, Faults& out) {
  cut_widths(job.model, job.parallelism.tensor, out);
}

void shard_vocabulary(const job::Job& job, Faults& out) {
  cut_vocabulary(job.model, job.parallelism.tensor, out);
}

void shard_experts(const job::Job& job, Faults& out) {
  if (job.model.moe) {
    cut_experts(*job.model.moe, job.parallelism.expert, job.parallelism.expert_tensor, out);
  }
}

void shard_balance(const job::Job& job, Faults& out) {
  const auto& balance = job.moe.balance;
  if (job.model.moe && balance.kind == job::ExpertBalance::Kind::shares &&
      balance.shares.size() != static_cast<std::size_t>(job.model.moe->experts)) {
    out.add("moe.balance", "moe.balance has {} shares for {} experts; expected one each",
            balance.shares.size(), job.model.moe->experts);
  }
}

void shard_shared_width(const job::Job& job, Faults& out) {
  const auto& moe = job.model.moe;
  if (moe && moe->shared_experts > 0 && moe->shared_ffn > 0) {
    divide(job.parallelism.tensor, moe->shared_ffn, "moe.shared_ffn", out);
  }
}

void shard_no_experts(const job::Job& job, Faults& out) {
  if (!job.model.moe) {
    refuse_expert_sizes(job.parallelism.expert, job.parallelism.expert_tensor, out);
  }
}

void shard_sequence(const job::Job& job, Faults& out) {
  if (job.parallelism.sequence_parallel) {
    divide(job.parallelism.tensor, job.workload.sequence_length, "sequence_length", out);
  }
}

// Context ranks divide the heads of mixers that pass along the sequence. Mamba's groups may be
// copied instead (megatron-core 0.16.0, ssm/mamba_context_parallel.py).
void divide_recurrent(const job::Model& m, int tensor, int ranks, Faults& out) {
  constexpr const char* kContext = "parallelism.context";
  if (m.mamba && m.mixers.find('m') != std::string::npos) {
    indivisible(kContext, "the number of Mamba heads of a tensor rank", m.mamba->heads / tensor,
                ranks, out);
    const int groups = std::max(1, m.mamba->groups / tensor);
    if (groups % ranks != 0 && ranks % groups != 0) {
      out.add(kContext, "{} Mamba groups of a tensor rank cannot be divided among {} ranks", groups,
              ranks);
    }
  }
  if (m.linear && m.mixers.find('l') != std::string::npos) {
    if (m.linear->elementwise_decay) {
      out.add(kContext,
              "linear attention with a decay for each key channel is not modelled across "
              "context-parallel ranks");
    }
    indivisible(kContext, "the number of linear attention's key heads of a tensor rank",
                m.linear->key_heads / tensor, ranks, out);
    indivisible(kContext, "the number of linear attention's value heads of a tensor rank",
                m.linear->value_heads / tensor, ranks, out);
  }
}

void shard_context(const job::Job& job, Faults& out) {
  using Kind = job::ContextKind;
  constexpr const char* kContext = "parallelism.context";
  const auto& par = job.parallelism;
  const auto& model = job.model;
  if (par.context == 1) {
    return;
  }
  const int c = par.context;
  const bool trades = par.context_kind == Kind::a2a || par.context_kind == Kind::hierarchical;
  if (par.context_kind == Kind::hierarchical && par.context_inner > 0 &&
      c % par.context_inner != 0) {
    out.add(kContext, "an inner all-to-all of {} ranks does not divide {}", par.context_inner, c);
  }
  if (job.kernels.attention == job::AttentionKernel::unfused && par.context_kind != Kind::p2p) {
    out.add("kernels.attention",
            "this kind of context parallelism needs a fused kernel; unfused attention has only "
            "p2p, the ring of ring self-attention");
  } else if (const int widest = job::too_wide_head(model, job.cluster);
             widest > 0 && par.context_kind != Kind::p2p) {
    out.add(kContext,
            "heads of {} dimensions have no fused kernel, which this kind of context parallelism "
            "needs; expected p2p",
            widest);
  }
  divide_recurrent(model, par.tensor, c, out);
  if (model.encoder_layers > 0 && model.encoder_layers < model.layers) {
    out.add(kContext, "cross-attention is not modelled across context-parallel ranks");
  }
  const std::int64_t s = job.workload.sequence_length;
  const bool causal = model.encoder_layers == 0;
  if (causal && par.context_balanced && par.context_kind != Kind::a2a && s % (2 * c) != 0) {
    out.add(kContext, "a sequence of {} does not divide into 2 x {} chunks", s, c);
  }
  if (trades) {
    // Heads of one tensor rank are divided over the ranks of the all-to-all; key-value heads may be
    // copied instead, all equally often.
    const int inner = par.context_kind == Kind::a2a ? c : std::max(1, par.context_inner);
    const int heads = model.heads / par.tensor;
    const int kv = model.mla ? heads : std::max(1, model.kv_heads / par.tensor);
    if (heads % inner != 0 || (kv % inner != 0 && inner % kv != 0)) {
      out.add(kContext,
              "{} heads and {} key-value heads of a tensor rank cannot be divided among {} ranks",
              heads, kv, inner);
    }
  }
}

void shard_tensor_grid(const job::Job& job, Faults& out) {
  const auto& par = job.parallelism;
  if (!makes_grid(par)) {
    return;
  }
  const int side = side_of(par);
  if (side < 2) {
    out.add("parallelism.tensor_kind", "{} tensor ranks cannot form this grid", par.tensor);
    return;
  }
  if (job.model.moe || job.model.mla || par.context > 1) {
    out.add("parallelism.tensor_kind",
            "grids of tensor ranks are modelled for dense layers, without latent attention and "
            "context parallelism");
  }
  if (par.overlap.tensor != job::TensorOverlap::none) {
    out.add("parallelism.overlap.tensor", "a grid of tensor ranks already overlaps its broadcasts");
  }
  if (const int rows = rows_of(par, side); job.workload.micro_batch % rows != 0) {
    out.add("workload.micro_batch", "{} sequences do not divide among the grid's {} rows",
            job.workload.micro_batch, rows);
  }
}

void shard_tensor_overlap(const job::Job& job, Faults& out) {
  const auto& par = job.parallelism;
  if (par.tensor > 1 && job::cuts_along_sequence(par.overlap.tensor) && !par.sequence_parallel) {
    out.add("parallelism.overlap.tensor",
            "products are cut along the gathered sequence: sequence_parallel must be on");
  }
}

void shard_layers(const job::Job& job, Faults& out) {
  const model::Shard shard = shard_of(job);
  cut_mixers(job.model, shard.tensor, out);
  cut_sequence(shard, out);
  if (job.model.moe) {
    cut_shared_experts(*job.model.moe, shard, out);
  }
}

std::optional<Infeasible> shard_fault(const job::Model& model, const model::Shard& shard) {
  Faults out;
  cut_heads(model, shard.tensor, true, out);
  cut_mixers(model, shard.tensor, out);
  cut_widths(model, shard.tensor, out);
  cut_vocabulary(model, shard.tensor, out);
  cut_sequence(shard, out);
  if (model.moe) {
    cut_experts(*model.moe, shard.expert, shard.expert_tensor, out);
    cut_shared_experts(*model.moe, shard, out);
  } else {
    refuse_expert_sizes(shard.expert, shard.expert_tensor == shard.tensor ? 1 : shard.expert_tensor,
                        out);
  }
  return out.found().empty() ? std::nullopt : std::optional(out.found().front());
}

}  // namespace stepcast::strategy
