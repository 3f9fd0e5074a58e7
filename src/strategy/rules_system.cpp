// What a training system, a kernel and an optimizer refuse.
#include <fmt/ranges.h>

#include <algorithm>

#include "rules.h"
#include "stepcast/job/facts.h"
#include "stepcast/schedule/schedule.h"
#include "stepcast/strategy/plan.h"

namespace stepcast::strategy {

// The first rule of System::cannot that the job meets, at the key of the rule's first feature.
void system_refusals(const job::Job& job, Faults& out) {
  const std::vector<Feature> asked = features(job);
  const auto find = [&](std::string_view name) {
    return std::find_if(asked.begin(), asked.end(),
                        [&](const Feature& f) { return f.name == name; });
  };
  for (const auto& [rule, reason] : job.system.cannot) {
    std::string_view rest = rule;
    auto blamed = asked.end();
    bool all = true;
    while (all && !rest.empty()) {
      const auto plus = rest.find('+');
      const auto at = find(rest.substr(0, plus));
      all = at != asked.end();
      if (blamed == asked.end()) {
        blamed = at;  // the rule's first feature is the one that gives way
      }
      rest = plus == std::string_view::npos ? std::string_view() : rest.substr(plus + 1);
    }
    if (all && blamed != asked.end()) {
      out.add(blamed->key, "{} does not run {}: {}; expected a job without it, or another system",
              job.system.name, rule, reason);
      return;
    }
  }
}

void system_schedules(const job::Job& job, Faults& out) {
  const auto& run = job.system.schedules;
  if (run.empty() || job.parallelism.pipeline == 1) {
    return;
  }
  const auto& given = job.parallelism.schedule;
  const std::string name(given ? std::string_view(given->name)
                               : schedule::implied(job.parallelism.virtual_pipeline));
  const std::string word = name.ends_with(".csv") ? "csv" : name;
  if (std::find(run.begin(), run.end(), word) == run.end()) {
    const char* key = given                                  ? "parallelism.schedule"
                      : job.parallelism.virtual_pipeline > 1 ? "parallelism.virtual_pipeline"
                                                             : "parallelism.pipeline";
    out.add(key, "{} does not run the schedule {}; expected {}", job.system.name, word,
            fmt::join(run, " | "));
  }
}

// Megatron-FSDP: megatron-core 0.19.2, distributed/fsdp/mcore_fsdp_adapter.py:147, :169. Its shards
// stay on the device, and of a unit that was given up no rank keeps more than its shard.
void system_unit_buffers(const job::Job& job, Faults& out) {
  const job::System& system = job.system;
  if (!system.unit_buffers) {
    for (const auto& [is_set, key] :
         {std::pair{system.double_buffers, "system.double_buffers"},
          {system.unit_buffer_elements > 0, "system.unit_buffer_elements"}}) {
      if (is_set) {
        out.add(key, "this is of units in buffers; expected system.unit_buffers: true");
      }
    }
    return;
  }
  const job::Parallelism& par = job.parallelism;
  if (system.gradient_accumulation_fusion && !system.transformer_engine) {
    out.add("system.gradient_accumulation_fusion",
            "with unit_buffers only Transformer Engine's products add to gradients; expected "
            "false, or transformer_engine");
  }
  if (system.original_parameters) {
    out.add("system.original_parameters",
            "this is of FSDP1's flat parameters, which units in buffers have not; expected false, "
            "or system.unit_buffers: false");
  }
  if (par.overlap.expert && system.double_buffers) {
    out.add("parallelism.overlap.expert",
            "double_buffers are too few for two micro-batches side by side; expected false, or "
            "system.double_buffers: false");
  }
  if (par.sharding != job::Sharding::zero3) {
    return;
  }
  if (job.memory.offload.parameters.to != OffloadTarget::none) {
    out.add("memory.offload.parameters",
            "shards of unit_buffers stay on the device; expected none, or another system");
  }
  if (par.reshard_size > 0) {
    out.add("parallelism.reshard_after_forward",
            "unit_buffers are given up whole; expected true or false");
  }
}

void kernel_attention(const job::Job& job, Faults& out) {
  using job::AttentionKernel;
  const AttentionKernel attention = job.kernels.attention;
  const double needed = hardware::least_compute_capability(attention);
  const double have = job.cluster.device.compute_capability;
  const auto vendor = hardware::vendor_of(job.cluster.device);
  const bool foreign = vendor == hardware::Vendor::amd || vendor == hardware::Vendor::google;
  if (foreign && attention == AttentionKernel::flash3) {
    out.add("kernels.attention",
            "FlashAttention-3 is Hopper's, and the device is {}; expected flash2",
            job.cluster.device.name);
  }
  const int widest = job::too_wide_head(job.model, job.cluster);
  if (widest > 0 && job.kernels.fp8_attention) {
    out.add("kernels.fp8_attention", "no kernel in 8 bits takes heads of {} dimensions", widest);
  }
  if (widest > 0 && job.model.indexer) {
    out.add("kernels.attention",
            "sparse attention (model.indexer) has no kernel for heads of {} dimensions", widest);
  }
  // Scores of the indexer, and attention to the keys that it chose, are kernels of their own.
  if (job.model.indexer && !job.model.compressed && attention == AttentionKernel::unfused) {
    out.add("kernels.attention",
            "sparse attention (model.indexer) has fused kernels alone; expected flash2, flash3 or "
            "cudnn");
  }
  if (have > 0 && have < needed) {
    out.add("kernels.attention",
            "this kernel needs compute capability {:.1f}; {} has {:.1f}; expected efficient or "
            "unfused",
            needed, job.cluster.device.name, have);
  }
}

namespace {

// Whether a layer of the model has the module that kernels.cuda_graph_modules names so.
bool has_graphed(const job::Model& model, const std::string& module) {
  using model::LayerKind;
  const std::vector<LayerKind> kinds = model::layer_kinds(model);
  return std::any_of(kinds.begin(), kinds.end(), [&](const LayerKind& kind) {
    const bool mamba = kind.mixer == LayerKind::Mixer::mamba;
    return module == "mamba"  ? mamba
           : module == "attn" ? !mamba && kind.mixer != LayerKind::Mixer::none
           : module == "mlp"  ? kind.mlp == LayerKind::Mlp::dense
                              : kind.mlp == LayerKind::Mlp::moe;
  });
}

}  // namespace

// XLA runs a step as one program; CUDA graphs are NVIDIA's, and HIP's mirror them.
void kernel_graphs(const job::Job& job, Faults& out) {
  if (!job.kernels.cuda_graph && !job.kernels.cuda_graph_modules.empty()) {
    out.add("kernels.cuda_graph_modules",
            "modules of CUDA graphs, of which there are none; expected cuda_graph: true");
  }
  const auto& modules = job.kernels.cuda_graph_modules;
  if (!modules.empty() && std::none_of(modules.begin(), modules.end(), [&](const std::string& m) {
        return has_graphed(job.model, m);
      })) {
    out.add("kernels.cuda_graph_modules",
            "the model has no layer with {}; expected modules that it has, or none for the whole "
            "step",
            fmt::join(modules, ", "));
  }
  if (job.kernels.cuda_graph &&
      hardware::vendor_of(job.cluster.device) == hardware::Vendor::google) {
    out.add("kernels.cuda_graph", "{} has no CUDA graphs; expected cuda_graph: false",
            job.cluster.device.name);
  }
}

namespace {

// Whether ranks that sum their gradients are on several nodes.
bool gradients_leave_a_node(const job::Job& job) {
  const cluster::Grid grid = grid_of(job);
  for (int p = 0; p < grid.pipeline; ++p) {
    for (int t = 0; t < grid.tensor; ++t) {
      const int node = cluster::rank_at(grid, {t, 0, 0, p}) / job.cluster.node.gpus;
      for (int member = 1; member < grid.data * grid.context; ++member) {
        const int rank =
            cluster::rank_at(grid, {t, member % grid.context, member / grid.context, p});
        if (rank / job.cluster.node.gpus != node) {
          return true;
        }
      }
    }
  }
  return false;
}

}  // namespace

// Between nodes MPI sums what lies in the hosts' memory.
void system_two_levels(const job::Job& job, Faults& out) {
  const job::Cluster& cluster = job.cluster;
  const auto linked = [](const job::Device& device) { return device.pcie.count() > 0; };
  const bool all =
      linked(cluster.device) && std::all_of(cluster.overrides.begin(), cluster.overrides.end(),
                                            [&](const auto& one) { return linked(one.device); });
  if (job.system.hierarchical_all_reduce && cluster.nodes > 1 && !all &&
      gradients_leave_a_node(job)) {
    out.add("system.hierarchical_all_reduce",
            "gradients pass the hosts' memory between nodes, and the cluster has a device whose "
            "link to its host is not stated; expected hierarchical_all_reduce: false, all data "
            "ranks on one node, or cluster.device.pcie");
  }
}

// Losses that are no eager one have their own way with a cut vocabulary.
void kernel_loss_parallel(const job::Job& job, Faults& out) {
  if (!job.kernels.loss_parallel.value_or(true) && job.kernels.loss != LossKernel::eager) {
    out.add("kernels.loss_parallel",
            "only an eager loss is computed of gathered logits; expected kernels.loss: eager");
  }
}

// liger-kernel 0.8.5, transformers/monkey_patch.py:275; ops/fused_linear_cross_entropy.py:51 reads
// the whole head.
void liger_kernels(const job::Job& job, Faults& out) {
  if (job::runs_liger(job, "cross_entropy") && job::runs_liger(job, "fused_linear_cross_entropy")) {
    out.add("kernels.liger",
            "cross_entropy and fused_linear_cross_entropy are two losses; expected one of them");
  }
  if (joins_head(job.kernels.loss) && job.parallelism.tensor > 1) {
    const bool follows = job::runs_liger(job, "fused_linear_cross_entropy");
    out.add(follows ? "kernels.liger" : "kernels.loss",
            "a head and its loss in one function read the whole vocabulary; expected "
            "parallelism.tensor 1 or another loss");
  }
}

void optimizer_momentum(const job::Job& job, Faults& out) {
  const job::Memory& m = job.memory;
  if (m.momentum > 0 && m.optimizer != job::Optimizer::sgd) {
    out.add("memory.momentum",
            "momentum {} is not a setting of this optimizer; expected optimizer: sgd", m.momentum);
  }
}

void optimizer_in_backward(const job::Job& job, Faults& out) {
  const bool once = job.workload.global_batch == job.workload.micro_batch;
  if (job.memory.optimizer_in_backward && (cluster_ranks(job) > 1 || !once)) {
    out.add("memory.optimizer_in_backward",
            "gradients that are reduced or summed are whole only behind the last backward pass; "
            "expected one rank and one micro-batch a step, or false");
  }
}

}  // namespace stepcast::strategy
