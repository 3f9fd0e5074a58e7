// The rule book: every rule, in the order in which faults are reported.
#include "rules.h"

#include <array>
#include <span>

#include "stepcast/strategy/rules.h"

namespace stepcast::strategy {
namespace {

using enum Rule::When;
using enum Rule::Needs;

constexpr std::array kSystemRules = {
    Rule{"the system runs what the job asks of it", planning, nothing, system_refusals},
    Rule{"the system runs the schedule", planning, nothing, system_schedules},
    Rule{"units in buffers", planning, nothing, system_unit_buffers},
    Rule{"the device runs the attention kernel", planning, nothing, kernel_attention},
    Rule{"only GPUs have CUDA graphs", planning, nothing, kernel_graphs},
    Rule{"gradients in two levels reach the host", planning, whole_grid, system_two_levels},
};

constexpr std::array kModelRules = {
    Rule{"linear attention has its sizes", reading, nothing, model_linear},
    Rule{"Mamba has its sizes", reading, nothing, model_mamba},
    Rule{"an indexer has its sizes", reading, nothing, model_indexer},
    Rule{"window heads have their sizes", reading, nothing, model_window_heads},
    Rule{"mixers that are named have sizes", reading, nothing, model_mixers},
    Rule{"MLPs that are named have sizes", reading, nothing, model_mlps},
    Rule{"dense layers have a width", reading, nothing, model_widths},
    Rule{"keys serve as values behind norms", reading, nothing, model_values},
    Rule{"experts with norms of their own are of both kinds", reading, nothing, model_branches},
    Rule{"there is at most one letter a layer", reading, nothing, model_letters},
    Rule{"every layer has a mixer or an MLP", reading, nothing, model_empty_layers},
    Rule{"an encoder is part of the layers", reading, nothing, model_encoder},
    Rule{"an encoder has no prediction layers", reading, nothing, model_predictions},
    Rule{"a chunked window is a window", reading, nothing, model_chunked_window},
    Rule{"key-value heads divide heads", reading, nothing, model_heads},
    Rule{"tokens choose among the experts", reading, nothing, model_experts},
    Rule{"dense layers are part of the layers", reading, nothing, model_dense_layers},
    Rule{"residual streams are mixed around plain blocks", reading, nothing, model_streams},
    Rule{"compressed attention has its sizes, whole", reading, nothing, model_compressed},
    Rule{"tables of experts are on the first stage", reading, nothing, model_hash},
    Rule{"stages hold whole blocks of attention residuals", reading, nothing,
         model_attention_residuals},
    Rule{"one stage has the layers' embeddings", reading, nothing, model_layer_embedding},
    Rule{"keys are shared with an earlier layer", reading, nothing, model_shared_kv},
    Rule{"norms of results are a block's only ones", reading, nothing, model_output_norms},
    Rule{"learned positions reach over the sequence", reading, nothing, model_positions},
};

constexpr std::array kDeviceRules = {
    Rule{"the device computes in the precision", reading, nothing, device_format},
};

constexpr std::array kClusterRules = {
    Rule{"the cluster is of a size that counts", reading, nothing, cluster_size},
    Rule{"several nodes have network adapters", reading, nothing, cluster_adapters},
    Rule{"PCIe switches divide among sockets", reading, nothing, node_switches},
    Rule{"NVLink links are listed of a mesh", reading, nothing, node_links},
    Rule{"only NVIDIA's switches reduce over NVLink", reading, nothing, node_reduction},
    Rule{"a torus has no switches that reduce", reading, nothing, fabric_reduction},
    Rule{"a dragonfly has groups", reading, nothing, fabric_groups},
    Rule{"pods hold whole leaves", reading, nothing, fabric_pods},
    Rule{"slices are equal parts of a torus fabric", reading, nothing, fabric_slices},
    Rule{"a torus holds the cluster's chips", reading, nothing, fabric_torus},
    Rule{"overrides name nodes and a device", reading, nothing, device_overrides},
    Rule{"faults name links that exist", reading, nothing, link_faults},
    Rule{"NCCL's channels have a range", reading, nothing, nccl_channels},
};

constexpr std::array kJobRules = {
    Rule{"the model has what is recomputed", reading, nothing, recompute_modules},
    Rule{"a budget of memory is a compiler's", reading, nothing, recompute_within_budget},
    Rule{"whole micro-batches are spared a recompute", reading, nothing, recompute_whole},
    Rule{"whole micro-batches or offloading", reading, nothing, whole_beside_offload},
    Rule{"optimal recompute or offloading", reading, nothing, optimal_beside_offload},
    Rule{"one replica fits the cluster", reading, nothing, grid_fits},
    Rule{"tensor divides heads", reading, enough_ranks, shard_heads},
    Rule{"tensor divides the MLP's width", reading, enough_ranks, shard_widths},
    Rule{"tensor cuts the vocabulary", reading, enough_ranks, shard_vocabulary},
    Rule{"expert sizes divide experts", reading, enough_ranks, shard_experts},
    Rule{"every expert has a share", reading, enough_ranks, shard_balance},
    Rule{"tensor divides shared experts", reading, enough_ranks, shard_shared_width},
    Rule{"expert sizes are of a model with experts", reading, enough_ranks, shard_no_experts},
    Rule{"tensor divides the sequence", reading, enough_ranks, shard_sequence},
    Rule{"sizes multiply to the cluster", reading, enough_ranks, grid_data},
    Rule{"micro-batches make up the global batch", reading, whole_grid, grid_batch},
    Rule{"shard_size divides data", reading, whole_grid, grid_shard_size},
    Rule{"shard_size is of a sharding", reading, whole_grid, grid_shard_size_of},
    Rule{"layers fill stages", reading, nothing, stages_layers},
    Rule{"the schedule runs several chunks", reading, nothing, stages_chunks},
    Rule{"virtual stages are of a pipeline", reading, nothing, stages_virtual},
    Rule{"groups of micro-batches fill the stages", reading, whole_grid, stages_groups},
    Rule{"8-bit gathers are FSDP2's", reading, nothing, grid_float8_gather},
    Rule{"units are gathered once a pass", reading, nothing, grid_repeated_predictions},
    Rule{"offloaded parameters are gathered", reading, nothing, offload_parameters},
    Rule{"tiles are gathered on one rank", reading, nothing, offload_tiles},
    Rule{"the node holds what is offloaded", reading, nothing, offload_facts},
    Rule{"activations are offloaded, and meet pairs", reading, nothing, offload_activations},
    Rule{"one of Liger's losses, of a whole vocabulary", reading, nothing, liger_kernels},
    Rule{"momentum is a setting of the optimizer", reading, nothing, optimizer_momentum},
    Rule{"a step in the backward pass has all of a gradient", reading, nothing,
         optimizer_in_backward},
    Rule{"an eager loss gathers logits", planning, nothing, kernel_loss_parallel},
    Rule{"each rank has its micro-batches", planning, whole_grid, grid_batches},
    Rule{"experts' ranks divide a stage's", planning, whole_grid, grid_experts},
    Rule{"context ranks cut the attention", planning, whole_grid, shard_context},
    Rule{"tensor ranks make the grid", planning, whole_grid, shard_tensor_grid},
    Rule{"overlapped products cut the sequence", planning, whole_grid, shard_tensor_overlap},
    Rule{"ranks cut every mixer, sequence and expert", planning, whole_grid, shard_layers},
    Rule{"the order of passes can be listed", planning, whole_grid, schedule_size},
    Rule{"the schedule has a name or a table", planning, nothing, schedule_known},
    Rule{"the schedule runs as many chunks", planning, nothing, schedule_chunks},
    Rule{"the schedule pairs passes", planning, nothing, schedule_pairs},
    Rule{"the head's weight gradient can wait", planning, nothing, schedule_deferred_head},
    Rule{"a second copy's ranks divide the shards'", planning, whole_grid, grid_partition},
    Rule{"ranks that meet run as many micro-batches", planning, whole_grid, grid_even_batches},
};

// The whole book, in reading order.
constexpr std::array<std::span<const Rule>, 5> kBook = {kSystemRules, kModelRules, kDeviceRules,
                                                        kClusterRules, kJobRules};

bool holds(Rule::Needs needs, const job::Job& job) {
  switch (needs) {
    case Rule::Needs::nothing:
      return true;
    case Rule::Needs::enough_ranks:
      return model_ranks(job) <= cluster_ranks(job);
    case Rule::Needs::whole_grid:
      return data_ranks(job).has_value();
  }
  return true;
}

void judge_when_reading(std::span<const Rule> rules, const job::Job& job, Faults& out) {
  for (const Rule& rule : rules) {
    if (rule.when == Rule::When::reading && holds(rule.needs, job)) {
      rule.judge(job, out);
    }
  }
}

}  // namespace

std::vector<Infeasible> faults(const job::Job& job) {
  Faults out;
  for (const auto& rules : kBook) {
    judge_when_reading(rules, job, out);
  }
  return out.found();
}

std::vector<Infeasible> cluster_faults(const job::Job& job) {
  Faults out;
  judge_when_reading(kClusterRules, job, out);
  return out.found();
}

std::optional<Infeasible> first_fault(const job::Job& job) {
  Faults out;
  for (const auto& rules : kBook) {
    for (const Rule& rule : rules) {
      if (holds(rule.needs, job)) {
        rule.judge(job, out);
      }
      if (!out.found().empty()) {
        return out.found().front();
      }
    }
  }
  return std::nullopt;
}

}  // namespace stepcast::strategy
