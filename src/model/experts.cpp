#include "stepcast/model/experts.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "stepcast/job/facts.h"

namespace stepcast::model {
namespace {

// Load of each expert over the mean.
std::vector<double> loads(const job::ExpertBalance& balance, int experts) {
  using Kind = job::ExpertBalance::Kind;
  std::vector<double> out(static_cast<std::size_t>(experts), 1.0);
  if (balance.kind == Kind::spread && experts > 1) {
    const double hot = std::clamp(balance.spread, 1.0, static_cast<double>(experts));
    std::fill(out.begin(), out.end(), (experts - hot) / (experts - 1));
    out.front() = hot;
  } else if (balance.kind == Kind::shares) {
    STEPCAST_CHECK(static_cast<int>(balance.shares.size()) == experts,
                   "a share of the load for each expert");
    const double sum = std::accumulate(balance.shares.begin(), balance.shares.end(), 0.0);
    STEPCAST_CHECK(sum > 0, "experts' shares of the load");
    for (std::size_t i = 0; i < out.size(); ++i) {
      out[i] = balance.shares[i] / sum * experts;
    }
  }
  return out;
}

double most_loaded(const std::vector<double>& by_expert, int ranks) {
  // With more ranks than experts, which rules refuse, an expert is on one.
  const std::size_t each =
      std::max<std::size_t>(1, by_expert.size() / static_cast<std::size_t>(std::max(1, ranks)));
  double most = 0;
  for (std::size_t first = 0; first + each <= by_expert.size(); first += each) {
    double sum = 0;
    for (std::size_t i = 0; i < each; ++i) {
      sum += by_expert[first + i];
    }
    most = std::max(most, sum / static_cast<double>(each));
  }
  return most;
}

// Ways to choose k of n; 0 where there are none.
double ways_to_choose(int n, int k) {
  double ways = k < 0 || k > n ? 0 : 1;
  for (int i = 0; i < k && ways > 0; ++i) {
    ways *= static_cast<double>(n - i) / (i + 1);
  }
  return ways;
}

std::int64_t rounded(double x) { return static_cast<std::int64_t>(std::llround(x)); }

}  // namespace

double expert_load(const job::ExpertBalance& balance, int experts, int ranks, double copies) {
  if (ranks <= 1) {
    return 1;
  }
  if (balance.kind == job::ExpertBalance::Kind::forced) {
    return copies > 0 ? 1 + std::sqrt(2 * std::log(ranks) * (ranks - 1) / copies) : 1;
  }
  return most_loaded(loads(balance, experts), ranks);
}

double expected_groups(int experts, int topk, int groups) {
  if (groups <= 1) {
    return 1;
  }
  // Probability that none of the top-k experts is in a given group: C(E - e, k) / C(E, k).
  const int each = experts / groups;
  double none = 1;
  for (int i = 0; i < topk; ++i) {
    none *= std::max(0.0, static_cast<double>(experts - each - i)) / (experts - i);
  }
  return groups * (1 - none);
}

Routes routes_of(const job::Moe& moe) {
  return {moe.experts, moe.topk, moe.router_groups, moe.router_group_topk};
}

double expected_sets(const Routes& r, int sets) {
  const bool limited = r.groups > 1 && r.group_topk < r.groups;
  if (!limited || sets <= 1 || r.experts % r.groups != 0) {
    return expected_groups(r.experts, r.topk, sets);
  }
  const int open = r.experts / r.groups * r.group_topk;  // experts of the chosen groups
  if (sets % r.groups == 0) {
    return expected_groups(open, r.topk, sets / r.groups * r.group_topk);
  }
  if (r.groups % sets != 0) {
    return expected_groups(r.experts, r.topk, sets);
  }
  // Several groups in each set: of them, h are chosen with the hypergeometric probability.
  const int each = r.groups / sets;
  double none = 0;
  for (int h = 0; h <= std::min(each, r.group_topk); ++h) {
    const double chosen = ways_to_choose(each, h) *
                          ways_to_choose(r.groups - each, r.group_topk - h) /
                          ways_to_choose(r.groups, r.group_topk);
    const int inside = r.experts / r.groups * h;
    none += chosen * ways_to_choose(open - inside, r.topk) / ways_to_choose(open, r.topk);
  }
  return sets * (1 - none);
}

double ExpertRows::copies_by_domain(int domains) const { return expected_sets(routes, domains); }

std::int64_t routed_width(const job::Model& model) {
  return model.moe && model.moe->latent > 0 ? model.moe->latent : model.hidden;
}

Routing routing_of(const job::Job& job) {
  Routing out;
  out.dispatcher = job.moe.dispatcher;
  if (!job.model.moe) {
    return out;
  }
  const job::Moe& moe = *job.model.moe;
  // Megatron-LM core 0.16, transformer/moe/experts.py, TEGroupedMLP: _apply_bias,
  // quantization_padding. HybridEP pads while it sends.
  const bool grouped =
      job.moe.grouped && job.system.habits.adds_expert_bias_apart && job.system.transformer_engine;
  // Experts' rows are a list on the host there, which a graph of the whole step cannot read: it
  // hands biases to Transformer Engine's grouped product.
  out.biases_apart = grouped && !job::graphs_experts(job.kernels);
  out.biases_in_product = grouped && job::graphs_experts(job.kernels);
  out.biases_gathered = job.moe.grouped && job.moe.gathered_biases;
  out.pads = grouped && job::bytes_per_element(job.workload.precision) < 2 &&
             !job.moe.capacity_factor && out.dispatcher != job::MoeRuntime::Dispatcher::hybridep;
  out.grouped = job.moe.grouped;
  out.weighs_rows = !job.moe.weighted_inside && job.system.habits.adds_expert_bias_apart;
  out.joins_experts = !job.moe.grouped && job.system.habits.adds_expert_bias_apart;
  out.weighted_inside = job.moe.weighted_inside;
  out.fp8_dispatch = job.moe.fp8_dispatch && job.workload.precision == job::DType::fp8_block &&
                     out.dispatcher == job::MoeRuntime::Dispatcher::deepep;
  out.pads = out.pads && !out.fp8_dispatch;  // rows are laid out by experts in aligned blocks
  out.every_token = job.moe.every_token;
  out.fused_experts = job.model.gated_mlp && job.model.modules.liger.experts &&
                      job::runs_liger(job, "glu") && job.parallelism.expert == 1 &&
                      job.moe.grouped && !out.every_token;
  out.fused_permute = job.moe.fused_permute;
  out.sends_probabilities = job.system.habits.sends_probabilities;
  out.indexed = job.moe.indexed && !job.moe.fused_permute &&
                out.dispatcher == job::MoeRuntime::Dispatcher::alltoall;
  out.wide_router = job.moe.wide_router;
  out.wide_weighing = job.moe.wide_weighing && !job.moe.weighted_inside && !job.moe.fused_permute;
  const job::Parallelism& par = job.parallelism;
  out.whole_sequence =
      job.system.routes_whole_sequence && par.sequence_parallel && par.tensor > 1 &&
      (par.expert_tensor == par.tensor ||
       (par.expert_tensor == 1 && par.expert > 1 && out.indexed)) &&
      out.dispatcher == job::MoeRuntime::Dispatcher::alltoall && !moe.latent && !moe.branch_norms;
  out.sends_parts = out.whole_sequence && par.expert_tensor != par.tensor;
  const int ranks = std::max(1, job.parallelism.expert);
  out.shared_beside = job.parallelism.overlap.shared_expert && moe.shared_experts > 0 &&
                      ranks > 1 && out.dispatcher != job::MoeRuntime::Dispatcher::allgather;
  const double split =
      std::max(1, job.parallelism.context) *
      (par.sequence_parallel && (!out.whole_sequence || out.sends_parts) ? par.tensor : 1);
  const double tokens = static_cast<double>(job.workload.micro_batch) *
                        static_cast<double>(job.workload.sequence_length) / split;
  out.load = expert_load(job.moe.balance, moe.experts, ranks, tokens * ranks * moe.topk);
  if (job.moe.capacity_factor) {
    // Each expert gets at most its capacity (Megatron-LM: moe_utils.py, get_capacity).
    const double capacity = *job.moe.capacity_factor;
    std::vector<double> taken = loads(job.moe.balance, moe.experts);
    for (double& one : taken) {
      one = std::min(one, capacity);
    }
    out.kept = std::accumulate(taken.begin(), taken.end(), 0.0) / moe.experts;
    out.load = ranks > 1 ? std::min(most_loaded(taken, ranks), capacity) : out.kept;
    out.one_hot = job.moe.one_hot;
    if (out.one_hot || job.moe.pad_to_capacity) {
      out.kept = out.load = capacity;  // buffers are computed, and sent, with what is empty in them
    }
  }
  return out;
}

ExpertRows expert_rows(const job::Model& model, const Shard& shard, const Routing& routing) {
  const job::Moe& moe = *model.moe;
  const bool split = shard.sequence_parallel && shard.tensor > 1 &&
                     (!routing.whole_sequence || routing.sends_parts);
  ExpertRows out;
  out.routes = routes_of(moe);
  const std::int64_t all = shard.sequences * shard.sequence_length / std::max(1, shard.context);
  out.tokens = all / (split ? shard.tensor : 1);
  const std::int64_t copies = out.tokens * (routing.every_token ? moe.experts : moe.topk);
  out.sent = rounded(static_cast<double>(copies) * routing.kept);
  out.received = rounded(static_cast<double>(copies) * routing.load);
  // Without sequence parallelism all tensor-parallel ranks hold the same tokens, as they do where
  // each routes the whole sequence.
  const int distinct = split || shard.tensor == 1 ? shard.expert_tensor : 1;
  out.computed = out.received * distinct;
  out.gathered = out.tokens * shard.expert * distinct;
  out.distinct = rounded(static_cast<double>(out.tokens) * routing.load *
                         expected_sets(out.routes, shard.expert));
  out.copies_by_rank = expected_sets(out.routes, shard.expert);
  return out;
}

}  // namespace stepcast::model
