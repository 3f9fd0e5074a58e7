// One rule of the book: its statement, when its faults are reported, and the function that judges
// it. Rules are in files by subject; rules.cpp has the table of all.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "stepcast/base/diagnostics.h"
#include "stepcast/cluster/topology.h"
#include "stepcast/job/job.h"
#include "stepcast/model/operators.h"
#include "stepcast/schedule/schedule.h"
#include "stepcast/strategy/policies.h"

namespace stepcast::strategy {

// Where a rule puts what it finds: one fault, or one for each entry of a list.
class Faults {
 public:
  // `key`: the job's key at fault. If it was not written, the enclosing key is blamed.
  template <class... Args>
  void add(std::string key, fmt::format_string<Args...> text, Args&&... args) {
    found_.push_back({std::move(key), fmt::format(text, std::forward<Args>(args)...)});
  }
  void add(Infeasible why) { found_.push_back(std::move(why)); }

  const std::vector<Infeasible>& found() const { return found_; }

 private:
  std::vector<Infeasible> found_;
};

using Judge = void(const job::Job&, Faults&);

struct Rule {
  // reading: reported when a job is read, with all other faults. planning: reported when the job is
  // planned, if no rule before it finds a fault: a search may still choose another system, kernel
  // or schedule than the one that refuses the job, and most of these rules divide by sizes that
  // earlier rules have checked.
  enum class When { reading, planning };
  // What has to hold for the rule to be meaningful.
  enum class Needs { nothing, enough_ranks, whole_grid };

  std::string_view says;
  When when;
  Needs needs;
  Judge* judge;
};

// ---------------------------------------------------------------- sizes that several rules use
std::int64_t cluster_ranks(const job::Job& job);
// Ranks of one replica of the model: tensor x context x pipeline. If tensor x context exceeds the
// cluster's ranks, the pipeline is left out, since the product might overflow.
std::int64_t model_ranks(const job::Job& job);
// Whether so many tensor ranks share each key-value head of the model, of which a rank otherwise
// has one or more to itself (System::gathers_qkv).
bool shares_key_heads(const job::Job& job, int tensor);
// Data-parallel ranks; nothing where the sizes do not multiply to the cluster's ranks.
std::optional<std::int64_t> data_ranks(const job::Job& job);
// The process grid of a job whose sizes multiply to the cluster's ranks.
cluster::Grid grid_of(const job::Job& job);
// What one rank holds of a layer. If the tensor ranks do not form the grid that the job asks for,
// the shard is that of 1D tensor parallelism.
model::Shard shard_of(const job::Job& job);
// Whether the tensor ranks and the micro-batch fill the grid that the job asks for. One dimension
// always does.
bool forms_tensor_grid(const job::Job& job);
// Whether a CSV file states the job's schedule.
bool has_table(const job::Job& job);
// The schedule whose order the job's ranks follow; without pipeline stages a table is ignored.
// nullptr: the order comes from a table, or the name is unknown.
const schedule::Entry* entry_of(const job::Job& job);

// Whether ZeRO-2 keeps parameters sharded between steps and gathers them unit by unit: FSDP's
// SHARD_GRAD_OP does, FairScale's ShardedDDP does not.
bool zero2_by_units(const job::System& system);
// Whether micro-batches' gradients are added up whole on each rank; else each pass reduces its own.
bool accumulates_whole(const job::Job& job, DataComm comm, int pipeline);
// A single data-parallel rank has sharded units all the same.
bool wraps_alone(const job::Job& job, job::Sharding sharding, std::int64_t data_ranks);

// ---------------------------------------------------------------- rules_model.cpp
Judge model_linear, model_mamba, model_indexer, model_window_heads, model_mixers, model_mlps,
    model_widths, model_values, model_branches, model_letters, model_empty_layers, model_encoder,
    model_predictions, model_chunked_window, model_heads, model_experts, model_dense_layers,
    model_output_norms, model_positions, model_streams, model_compressed, model_hash,
    model_attention_residuals, model_layer_embedding, model_shared_kv;

// ---------------------------------------------------------------- rules_cluster.cpp
Judge device_format, cluster_size, cluster_adapters, node_switches, node_links, fabric_groups,
    fabric_pods, fabric_slices, fabric_torus, node_reduction, fabric_reduction, device_overrides,
    link_faults, nccl_channels;

// ---------------------------------------------------------------- rules_recompute.cpp
Judge recompute_modules, recompute_within_budget, recompute_whole, whole_beside_offload,
    optimal_beside_offload;

// ---------------------------------------------------------------- rules_grid.cpp
Judge grid_fits, grid_data, grid_batch, grid_shard_size, grid_shard_size_of, grid_partition,
    grid_float8_gather, grid_repeated_predictions, grid_batches, grid_experts, grid_even_batches;

// ---------------------------------------------------------------- rules_shard.cpp
Judge shard_heads, shard_widths, shard_vocabulary, shard_experts, shard_balance, shard_shared_width,
    shard_no_experts, shard_sequence, shard_context, shard_tensor_grid, shard_tensor_overlap,
    shard_layers;

// ---------------------------------------------------------------- rules_stages.cpp
Judge stages_layers, stages_chunks, stages_virtual, stages_groups, schedule_size, schedule_known,
    schedule_chunks, schedule_pairs, schedule_deferred_head;

// ---------------------------------------------------------------- rules_offload.cpp
Judge offload_parameters, offload_tiles, offload_facts, offload_activations;

// ---------------------------------------------------------------- rules_system.cpp
Judge system_refusals, system_schedules, system_unit_buffers, kernel_attention, kernel_graphs,
    system_two_levels, kernel_loss_parallel, liger_kernels, optimizer_momentum,
    optimizer_in_backward;

}  // namespace stepcast::strategy
