// What context parallelism and grids of tensor ranks need of a job.
#include "cut.h"

#include <fmt/format.h>

#include <algorithm>

#include "infeasible.h"

namespace stepcast::strategy {
namespace {

std::optional<Infeasible> check_context(const job::Job& job) {
  using Kind = job::ContextKind;
  const auto& par = job.parallelism;
  const auto& model = job.model;
  if (par.context == 1) {
    return std::nullopt;
  }
  const int c = par.context;
  const bool trades = par.context_kind == Kind::a2a || par.context_kind == Kind::hierarchical;
  if (par.context_kind == Kind::hierarchical && par.context_inner > 0 &&
      c % par.context_inner != 0) {
    return infeasible(
        "parallelism.context",
        fmt::format("an inner all-to-all of {} ranks does not divide {}", par.context_inner, c));
  }
  if (job.kernels.attention == job::AttentionKernel::unfused && par.context_kind != Kind::p2p) {
    return infeasible("kernels.attention",
                      "this kind of context parallelism needs a fused kernel; unfused scores have "
                      "the ring of ring self-attention (p2p)");
  }
  if (model.mixers.find_first_of("lm") != std::string::npos) {
    return infeasible("parallelism.context",
                      "the state of linear-attention and Mamba layers, which passes along the "
                      "sequence, is not modelled "
                      "across ranks");
  }
  if (model.encoder_layers > 0 && model.encoder_layers < model.layers) {
    return infeasible("parallelism.context",
                      "cross-attention is not modelled across context-parallel ranks");
  }
  const std::int64_t s = job.workload.sequence_length;
  const bool causal = model.encoder_layers == 0;
  if (causal && par.context_balanced && par.context_kind != Kind::a2a && s % (2 * c) != 0) {
    return infeasible("parallelism.context",
                      fmt::format("a sequence of {} does not divide into 2 x {} chunks", s, c));
  }
  if (trades) {
    // Heads on one tensor rank are dealt to the all-to-all's ranks; key-value heads may be copied,
    // evenly.
    const int inner = par.context_kind == Kind::a2a ? c : std::max(1, par.context_inner);
    const int heads = model.heads / par.tensor;
    const int kv = model.mla ? heads : std::max(1, model.kv_heads / par.tensor);
    if (heads % inner != 0 || (kv % inner != 0 && inner % kv != 0)) {
      return infeasible(
          "parallelism.context",
          fmt::format(
              "{} heads and {} key-value heads of a tensor rank cannot be dealt to {} ranks", heads,
              kv, inner));
    }
  }
  return std::nullopt;
}

// The side of the grid: q of q x q (x depth), l of l x l x l; 0: the ranks do not make one.
int side_of(const job::Parallelism& par) {
  for (int side = 1; side <= par.tensor; ++side) {
    const int depth = par.tensor_kind == job::TensorKind::two_d        ? 1
                      : par.tensor_kind == job::TensorKind::two_half_d ? par.tensor_depth
                                                                       : side;
    if (side * side * depth == par.tensor) {
      return side;
    }
  }
  return 0;
}

std::optional<Infeasible> cut_grid(Plan& plan) {
  const auto& par = plan.job.parallelism;
  if (par.tensor == 1 || par.tensor_kind == job::TensorKind::one_d) {
    return std::nullopt;
  }
  const int side = side_of(par);
  if (side < 2) {
    return infeasible("parallelism.tensor_kind",
                      fmt::format("{} tensor ranks make no such grid", par.tensor));
  }
  if (plan.job.model.moe || plan.job.model.mla || par.context > 1) {
    return infeasible("parallelism.tensor_kind",
                      "grids of tensor ranks are modelled for dense layers, without latent "
                      "attention and context parallelism");
  }
  if (par.overlap.tensor != job::TensorOverlap::none) {
    return infeasible("parallelism.overlap.tensor",
                      "a grid of tensor ranks overlaps its broadcasts by itself");
  }
  // The batch is cut over the rows of the grid and its depth, in 3D over two sides.
  const int rows = par.tensor_kind == job::TensorKind::two_d        ? side
                   : par.tensor_kind == job::TensorKind::two_half_d ? side * par.tensor_depth
                                                                    : side * side;
  if (plan.shard.sequences % rows != 0) {
    return infeasible("workload.micro_batch",
                      fmt::format("{} sequences do not divide over the grid's {} rows",
                                  plan.shard.sequences, rows));
  }
  plan.shard.sequences /= rows;
  plan.shard.tensor = side;
  plan.shard.sequence_parallel = true;  // activations are cut over every rank
  return std::nullopt;
}

}  // namespace

std::optional<Infeasible> cut(Plan& plan) {
  const auto& par = plan.job.parallelism;
  using job::TensorOverlap;
  const bool chunks =
      par.overlap.tensor == TensorOverlap::ring || par.overlap.tensor == TensorOverlap::async;
  if (auto why = check_context(plan.job)) {
    return why;
  }
  if (auto why = cut_grid(plan)) {
    return why;
  }
  if (par.tensor > 1 && chunks && !par.sequence_parallel) {
    return infeasible("parallelism.overlap.tensor",
                      "products are cut along the gathered sequence: sequence_parallel must be on");
  }
  return std::nullopt;
}

}  // namespace stepcast::strategy
