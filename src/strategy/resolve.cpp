#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include "stepcast/strategy/plan.h"

namespace stepcast::strategy {
namespace {

Infeasible infeasible(std::string key, std::string reason) {
  return Infeasible{std::move(key), std::move(reason)};
}

// Layers of each virtual stage in model order (stage = chunk * pipeline + rank).
std::variant<std::vector<int>, Infeasible> layers_by_stage(const job::Job& job) {
  const int p = job.parallelism.pipeline;
  const int v = job.parallelism.virtual_pipeline;
  const int stages = p * v;
  const auto& given = job.parallelism.layers_per_stage;
  if (given.empty()) {
    const int layers = model::layer_count(job.model);
    if (layers % (p * v) != 0) {
      return infeasible(
          v > 1 ? "parallelism.virtual_pipeline" : "parallelism.pipeline",
          fmt::format(
              "{} layers do not divide into {} stages; give layers_per_stage or another size",
              layers, p * v));
    }
    return std::vector<int>(static_cast<std::size_t>(stages), layers / stages);
  }
  std::vector<int> out;
  if (static_cast<int>(given.size()) == p * v) {
    out = given;
  } else if (static_cast<int>(given.size()) == p) {
    // Per pipeline rank: cut evenly into its chunks.
    out.assign(static_cast<std::size_t>(stages), 0);
    for (int r = 0; r < p; ++r) {
      if (given[r] % v != 0) {
        return infeasible(
            "parallelism.layers_per_stage",
            fmt::format("{} layers of stage {} do not divide into {} chunks", given[r], r, v));
      }
      for (int c = 0; c < v; ++c) {
        out[c * p + r] = given[r] / v;
      }
    }
  } else {
    return infeasible("parallelism.layers_per_stage",
                      fmt::format("{} entries for {} stages", given.size(), p * v));
  }
  if (std::any_of(out.begin(), out.end(), [](int n) { return n < 0; })) {
    return infeasible("parallelism.layers_per_stage", "a stage has a negative number of layers");
  }
  const int sum = std::accumulate(out.begin(), out.end(), 0);
  if (sum != model::layer_count(job.model)) {
    return infeasible(
        "parallelism.layers_per_stage",
        fmt::format("adds up to {} layers; the model has {}", sum, model::layer_count(job.model)));
  }
  return out;
}

std::optional<Infeasible> check_features(const job::Job& job) {
  const auto& par = job.parallelism;
  if (par.context > 1) {
    return infeasible("parallelism.context", "context parallelism is not modelled yet");
  }
  if (par.expert > 1) {
    return infeasible("parallelism.expert", "expert parallelism is not modelled yet");
  }
  if (job.moe.capacity_factor) {
    return infeasible("moe.capacity_factor",
                      "expert capacity (token dropping) is not modelled yet");
  }
  // FlashAttention-1 needs Turing, -2 and cuDNN's fused attention Ampere, -3 Hopper (their
  // READMEs).
  using job::AttentionKernel;
  const AttentionKernel attention = job.kernels.attention;
  const double needed = attention == AttentionKernel::unfused  ? 0
                        : attention == AttentionKernel::flash1 ? 7.5
                        : attention == AttentionKernel::flash3 ? 9.0
                                                               : 8.0;
  const double have = job.cluster.device.compute_capability;
  if (have > 0 && have < needed) {
    return infeasible(
        "kernels.attention",
        fmt::format(
            "this kernel needs compute capability {:.1f}; {} has {:.1f}; expected 'unfused'",
            needed, job.cluster.device.name, have));
  }
  if (par.overlap.tensor != job::TensorOverlap::none) {
    return infeasible("parallelism.overlap.tensor",
                      "GEMMs split to hide tensor collectives are not modelled yet");
  }
  if (par.pipeline > 1 && par.sharding == job::Sharding::zero3) {
    return infeasible("parallelism.sharding",
                      "zero3 with pipeline parallelism is not modelled yet");
  }
  if (par.pipeline > 1 && par.sharding == job::Sharding::zero2) {
    return infeasible("parallelism.sharding",
                      "zero2 is refused with pipeline parallelism, as DeepSpeed does "
                      "(gradients would be reduced once a micro-batch)");
  }
  return std::nullopt;
}

}  // namespace

std::variant<Plan, Infeasible> resolve(const job::Job& job) {
  if (auto why = check_features(job)) {
    return *why;
  }
  Plan plan;
  plan.job = job;
  const auto& par = job.parallelism;
  const int ranks = job.cluster.ranks();
  const int model_ranks = par.tensor * par.context * par.pipeline;
  if (model_ranks > ranks || ranks % model_ranks != 0) {
    return infeasible(
        "parallelism.tensor",
        fmt::format("tensor {} x context {} x pipeline {} = {} does not divide {} ranks",
                    par.tensor, par.context, par.pipeline, model_ranks, ranks));
  }
  const int data = par.data.value_or(ranks / model_ranks);
  if (data * model_ranks != ranks) {
    return infeasible(
        "parallelism.data",
        fmt::format("data {} x tensor {} x context {} x pipeline {} = {}, not {} ranks", data,
                    par.tensor, par.context, par.pipeline, data * model_ranks, ranks));
  }
  plan.grid = {par.tensor, par.context, data, par.pipeline, par.expert, job.cluster.order};

  const std::int64_t per_step = job.workload.micro_batch * data;
  if (job.workload.global_batch % per_step != 0) {
    return infeasible("workload.global_batch",
                      fmt::format("{} sequences are no multiple of micro-batch {} x data {}",
                                  job.workload.global_batch, job.workload.micro_batch, data));
  }
  plan.micro_batches = static_cast<int>(job.workload.global_batch / per_step);

  plan.shard.sequences = job.workload.micro_batch;
  plan.shard.sequence_length = job.workload.sequence_length;
  plan.shard.context = par.context;
  plan.shard.tensor = par.tensor;
  plan.shard.sequence_parallel = par.sequence_parallel && par.tensor > 1;
  plan.shard.expert = par.expert;
  plan.shard.expert_tensor = job.model.moe ? std::max(par.expert_tensor, par.tensor) : 1;
  plan.style = model::style_of(job);
  // Megatron pads the vocabulary to 128 x tensor (--make-vocab-size-divisible-by); others keep it.
  const bool pads = job.system.family == job::System::Family::megatron;
  plan.vocab = model::padded_vocab(job.model.vocab, pads ? 128 : 1, par.tensor);
  plan.job.model.vocab = plan.vocab;
  if (auto why = model::check_shard(plan.job.model, plan.shard)) {
    return *why;
  }

  auto layers = layers_by_stage(job);
  if (auto* why = std::get_if<Infeasible>(&layers)) {
    return *why;
  }
  const auto& counts = std::get<std::vector<int>>(layers);
  const int p = par.pipeline;
  plan.stages.resize(p);
  int first = 0;
  for (int s = 0; s < static_cast<int>(counts.size()); ++s) {
    Chunk chunk{first, counts[s], s == 0, s + 1 == static_cast<int>(counts.size()), s};
    first += counts[s];
    plan.stages[s % p].push_back(chunk);
  }

  job::Schedule schedule = par.schedule.value_or(job::Schedule{
      par.virtual_pipeline > 1 ? "interleaved_1f1b" : "1f1b", "", std::nullopt, 0, 1.0});
  const std::string& name = schedule.name;
  if (par.virtual_pipeline > 1 && name != "interleaved_1f1b") {
    return infeasible("parallelism.schedule",
                      fmt::format("{} runs one chunk per rank; virtual_pipeline is {}", name,
                                  par.virtual_pipeline));
  }
  plan.interleaved = par.virtual_pipeline > 1 && p > 1;
  schedule::Request request;
  request.stages = p;
  request.micro_batches = plan.micro_batches;
  request.chunks = par.virtual_pipeline;
  request.group = schedule.group.value_or(0);
  request.extra_warmup = schedule.extra_warmup;
  auto order = schedule::make(name, request);
  if (auto* why = std::get_if<Infeasible>(&order)) {
    return *why;
  }
  plan.order = std::get<schedule::Order>(std::move(order));

  plan.shard_ranks = par.shard_size.value_or(data);
  if (plan.shard_ranks < 1 || data % plan.shard_ranks != 0) {
    return infeasible(
        "parallelism.shard_size",
        fmt::format("{} does not divide {} data-parallel ranks", plan.shard_ranks, data));
  }
  if (par.sharding == job::Sharding::none) {
    plan.shard_ranks = 1;
  }
  plan.replicas = data / plan.shard_ranks;
  if (data > 1) {
    switch (par.sharding) {
      case job::Sharding::none:
        plan.data_comm = DataComm::all_reduce;
        break;
      case job::Sharding::zero1:
        plan.data_comm = DataComm::shard_states;
        break;
      case job::Sharding::zero2:
        plan.data_comm = DataComm::shard_grads;
        break;
      case job::Sharding::zero3:
        plan.data_comm = DataComm::shard_all;
        break;
    }
  }
  return plan;
}

int expert_shards(const Plan& plan) { return std::gcd(plan.expert_data, plan.shard_ranks); }

std::int64_t bucket_elements(const Plan& plan) {
  const auto& system = plan.job.system;
  if (system.bucket_bytes.count() > 0) {
    const double width = job::bytes_per_element(plan.job.memory.dtypes.reduce);
    return static_cast<std::int64_t>(static_cast<double>(system.bucket_bytes.count()) / width);
  }
  if (system.bucket_elements > 0) {
    return system.bucket_elements;
  }
  return std::max<std::int64_t>(40'000'000, std::int64_t{1'000'000} * plan.grid.data);
}

}  // namespace stepcast::strategy
