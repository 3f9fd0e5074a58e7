// Sizes multiply to the cluster's ranks, and the batch divides over data-parallel ranks.
#include <algorithm>

#include "batches.h"
#include "rules.h"
#include "stepcast/strategy/plan.h"

namespace stepcast::strategy {
namespace {

// The key to blame where tensor x context x pipeline exceeds the ranks.
const char* size_to_change(const job::Parallelism& p) {
  return p.pipeline > 1 ? "parallelism.pipeline" : "parallelism.tensor";
}

bool is_even(const job::Job& job) {
  return job.workload.micro_batches.kind == job::MicroBatches::Kind::even;
}

// The fault of the numbers that the workload states.
void stated_batches(const job::Job& job, Faults& out) {
  const auto each = micro_batches_of(job.workload, job.cluster, grid_of(job));
  if (const auto* why = std::get_if<Infeasible>(&each)) {
    out.add(*why);
  }
}

}  // namespace

std::int64_t cluster_ranks(const job::Job& job) {
  return std::int64_t{job.cluster.nodes} * job.cluster.node.gpus;
}

std::int64_t model_ranks(const job::Job& job) {
  // Sizes are at most 10^7: the product of two fits 64 bits, and a third is multiplied in only if
  // that product does not exceed the ranks.
  const job::Parallelism& p = job.parallelism;
  const std::int64_t two = std::int64_t{p.tensor} * p.context;
  return two > cluster_ranks(job) ? two : two * p.pipeline;
}

std::optional<std::int64_t> data_ranks(const job::Job& job) {
  const std::int64_t ranks = cluster_ranks(job);
  const std::int64_t of_model = model_ranks(job);
  if (of_model < 1 || of_model > ranks || ranks % of_model != 0) {
    return std::nullopt;
  }
  const std::int64_t data = ranks / of_model;
  return job.parallelism.data.value_or(data) == data ? std::optional(data) : std::nullopt;
}

cluster::Grid grid_of(const job::Job& job) {
  const job::Parallelism& p = job.parallelism;
  return {p.tensor,   p.context, static_cast<int>(data_ranks(job).value()),
          p.pipeline, p.expert,  job.cluster.order};
}

bool zero2_by_units(const job::System& system) {
  return system.habits.zero2_shards_parameters && !system.reduce_to_owner;
}

bool wraps_alone(const job::Job& job, job::Sharding sharding, std::int64_t data_ranks) {
  return job.system.wraps_alone && sharding == job::Sharding::zero3 && data_ranks == 1;
}

void grid_fits(const job::Job& job, Faults& out) {
  const job::Parallelism& p = job.parallelism;
  if (model_ranks(job) > cluster_ranks(job)) {
    out.add(size_to_change(p),
            "tensor {} x context {} x pipeline {} is more than the cluster's {} ranks; expected at "
            "most that",
            p.tensor, p.context, p.pipeline, cluster_ranks(job));
  }
}

void grid_data(const job::Job& job, Faults& out) {
  const job::Parallelism& p = job.parallelism;
  const std::int64_t ranks = cluster_ranks(job);
  const std::int64_t of_model = model_ranks(job);
  if (p.data && of_model * *p.data != ranks) {
    out.add("parallelism.data",
            "tensor {} x context {} x pipeline {} x data {} is not the cluster's {} ranks; "
            "expected {}",
            p.tensor, p.context, p.pipeline, *p.data, ranks,
            ranks % of_model == 0 ? fmt::format("data {}", ranks / of_model)
                                  : "sizes that multiply to it");
  } else if (!p.data && ranks % of_model != 0) {
    out.add(size_to_change(p),
            "tensor {} x context {} x pipeline {} = {} does not divide the cluster's {} ranks; "
            "expected a divisor",
            p.tensor, p.context, p.pipeline, of_model, ranks);
  }
}

void grid_batch(const job::Job& job, Faults& out) {
  if (is_even(job)) {
    stated_batches(job, out);
  }
}

void grid_shard_size(const job::Job& job, Faults& out) {
  const job::Parallelism& p = job.parallelism;
  const std::int64_t data = data_ranks(job).value() * p.context;
  if (p.shard_size && data % *p.shard_size != 0) {
    out.add("parallelism.shard_size", "shard_size {} does not divide data {}; expected a divisor",
            *p.shard_size, data);
  }
}

void grid_shard_size_of(const job::Job& job, Faults& out) {
  const job::Parallelism& p = job.parallelism;
  if (p.shard_size && p.sharding == job::Sharding::none) {
    out.add("parallelism.shard_size",
            "shard_size {} without sharding; expected sharding zero1, zero2 or zero3",
            *p.shard_size);
  }
}

// hpZ and fully_shard's integer cut every unit again among ranks that follow each other;
// fully_shard refuses an integer that is not a factor of the ranks that share parameters
// (torch 2.6.0, torch/distributed/fsdp/_fully_shard/_fsdp_init.py:33).
void grid_partition(const job::Job& job, Faults& out) {
  const job::Parallelism& p = job.parallelism;
  const bool by_units = p.sharding == job::Sharding::zero3 ||
                        (p.sharding == job::Sharding::zero2 && zero2_by_units(job.system));
  if (!by_units) {
    if (p.reshard_size > 0) {
      out.add("parallelism.reshard_after_forward",
              "no parameters are gathered by units; expected true or false, or sharding zero3");
    }
    return;
  }
  const std::int64_t shards = p.shard_size.value_or(data_ranks(job).value() * p.context);
  const auto judge = [&](const char* key, std::int64_t ranks) {
    if (ranks > 1 && shards % ranks != 0) {
      out.add(key, "{} ranks do not divide the {} that share parameters; expected a divisor", ranks,
              shards);
    }
  };
  judge("parallelism.zeropp.partition", p.zeropp.partition);
  if (p.zeropp.partition == 0) {
    judge("parallelism.reshard_after_forward", p.reshard_size);
  }
}

// A layer that runs several times is gathered as often, and its gradients are added up before they
// are reduced: units here are gathered and reduced once a pass.
void grid_repeated_predictions(const job::Job& job, Faults& out) {
  const job::Parallelism& p = job.parallelism;
  const bool by_units = p.sharding == job::Sharding::zero3 ||
                        (p.sharding == job::Sharding::zero2 && zero2_by_units(job.system));
  if (by_units && job.model.mtp_repeated && job.model.mtp_layers > 1) {
    out.add("model.mtp_repeated",
            "a prediction layer that runs several times is not modelled where parameters are "
            "sharded; expected false, or sharding none, zero1 or zero2");
  }
}

// torchao 0.14.1, float8/config.py:293: tensors with one scale alone; float8/fsdp_utils.py has
// FSDP2's hooks (fsdp_pre_all_gather), which refuse what was sharded again behind the forward pass
// (torch 2.15, distributed/fsdp/_fully_shard/_fsdp_param.py:1150).
void grid_float8_gather(const job::Job& job, Faults& out) {
  const job::Parallelism& p = job.parallelism;
  if (p.float8_all_gather == Float8Gather::none) {
    return;
  }
  constexpr const char* kKey = "parallelism.float8_all_gather";
  const job::System& system = job.system;
  if (p.sharding != job::Sharding::zero3) {
    out.add(kKey, "no parameters are gathered by units; expected none, or sharding zero3");
  } else if (!system.habits.casts_operands_twice || system.flat_parameters ||
             system.transformer_engine) {
    out.add(kKey, "only FSDP2's units gather shards that torchao casts; expected none");
  } else if (job.workload.precision != DType::fp8) {
    out.add(kKey, "one scale a weight goes with fp8 alone; expected none, or precision fp8");
  } else if (p.reshard_size > 0) {
    out.add("parallelism.reshard_after_forward",
            "8-bit weights are not sharded over {} ranks behind the forward pass; expected true, "
            "false, or float8_all_gather none",
            p.reshard_size);
  }
}

void grid_batches(const job::Job& job, Faults& out) {
  if (!is_even(job)) {
    stated_batches(job, out);
  }
}

void grid_experts(const job::Job& job, Faults& out) {
  const job::Parallelism& p = job.parallelism;
  const model::Shard shard = shard_of(job);
  const std::int64_t stage_ranks = p.tensor * p.context * data_ranks(job).value();
  if (stage_ranks % (std::int64_t{shard.expert} * shard.expert_tensor) != 0) {
    out.add(p.expert > 1 ? "parallelism.expert" : "parallelism.expert_tensor",
            "expert {} x expert_tensor {} does not divide the {} ranks of a stage", p.expert,
            shard.expert_tensor, stage_ranks);
  }
}

void grid_even_batches(const job::Job& job, Faults& out) {
  if (is_even(job)) {
    return;
  }
  const cluster::Grid grid = grid_of(job);
  const auto each = std::get<std::vector<int>>(micro_batches_of(job.workload, job.cluster, grid));
  if (std::all_of(each.begin(), each.end(), [&](int n) { return n == each.front(); })) {
    return;
  }
  if (const auto why = must_be_even(job, grid, each)) {
    out.add(*why);
  }
}

}  // namespace stepcast::strategy
