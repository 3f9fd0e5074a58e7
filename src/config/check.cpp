#include "check.h"

#include <fmt/core.h>

#include <cstdlib>
#include <numeric>
#include <set>

namespace stepcast::config {

using job::DType;

void derive(job::Model& m) {
  if (m.kv_heads == 0) {
    m.kv_heads = m.heads;
  }
  if (m.head_dim == 0) {
    if (m.mla) {
      m.head_dim = m.mla->qk_nope_dim + m.mla->qk_rope_dim;
    } else if (m.heads > 0 && m.hidden % m.heads == 0) {
      m.head_dim = static_cast<int>(m.hidden / m.heads);
    }
  }
  if (m.ffn == 0 && m.moe && m.moe->dense_layers == 0 && m.moe->every == 1) {
    m.ffn = m.moe->ffn;
  }
  if (m.ffn == 0 && !m.gated_mlp) {
    m.ffn = 4 * m.hidden;
  }
  if (m.moe && m.moe->ffn == 0) {
    m.moe->ffn = m.ffn;
  }
}

void derive(Loaded& loaded) {
  job::Job& j = loaded.job;
  const auto set = [&](const char* key) { return loaded.origins.count(key) > 0; };
  derive(j.model);
  if (j.model.name.empty()) {
    j.model.name = "custom";
  }
  if (j.model.positions == job::Positions::learned && j.model.max_positions == 0) {
    j.model.max_positions = j.workload.sequence_length;
  }
  if (!set("parallelism.expert_tensor")) {
    j.parallelism.expert_tensor = j.model.moe ? j.parallelism.tensor : 1;
  }
  if (!set("memory.dtypes.parameters")) {
    const DType in = j.workload.precision;
    j.memory.dtypes.parameters = in == DType::fp16                        ? DType::fp16
                                 : in == DType::fp32 || in == DType::tf32 ? DType::fp32
                                                                          : DType::bf16;
  }
  // DeepSpeed keeps and reduces gradients in the parameters' 16-bit format
  // (communication_data_type); Megatron-LM does in fp16, and switches fp32 on for bf16
  // (training/arguments.py).
  const DType p = j.memory.dtypes.parameters;
  const GradientFormat format = j.system.habits.gradient_format;
  const bool follow = format == GradientFormat::parameters ||
                      (format == GradientFormat::parameters_if_fp16 && p == DType::fp16);
  if (follow && !set("memory.dtypes.gradients")) {
    j.memory.dtypes.gradients = p;
  }
  if (follow && !set("memory.dtypes.reduce")) {
    j.memory.dtypes.reduce = p;
  }
  // torchtitan's "default": parameters that the next micro-batches need again stay gathered.
  if (!j.system.reshard_with_pipeline && j.parallelism.pipeline > 1 &&
      !set("parallelism.reshard_after_forward")) {
    j.parallelism.reshard_after_forward = false;
  }
  if (!j.system.order.empty() && !set("cluster.order")) {
    j.cluster.order = j.system.order;
  }
  // Megatron-LM's buffers of main gradients stay on the device (HybridDeviceOptimizer copies them).
  if (!set("memory.offload.gradients") && j.system.habits.gradients_follow_optimizer) {
    j.memory.offload.gradients = j.memory.offload.optimizer;
  }
  // Parameters in fp32 are their own master copy.
  if (j.memory.dtypes.parameters == DType::fp32 && !set("memory.dtypes.master")) {
    j.memory.dtypes.master = std::nullopt;
  }
}

namespace {

class Checker {
 public:
  explicit Checker(const Loaded& loaded) : loaded_(loaded), j_(loaded.job) {}

  // The cluster by itself, without a job on it.
  std::vector<Infeasible> run_cluster() {
    const job::Cluster& c = j_.cluster;
    if (c.nodes < 1) {
      no("cluster.nodes", "cluster.nodes is missing; expected the number of hosts");
    } else if (c.node.gpus < 1) {
      no("cluster.node", "cluster.node is missing; expected a node, or a named cluster");
    } else {
      cluster();
    }
    nccl();
    return std::move(out_);
  }

  std::vector<Infeasible> run() {
    present();
    if (!out_.empty()) {
      return std::move(out_);
    }
    model();
    device();
    cluster();
    nccl();
    recompute();
    recompute_and_offload();
    grid();
    stages();
    for (Infeasible& one : check_offload(j_)) {
      out_.push_back(std::move(one));
    }
    optimizer();
    return std::move(out_);
  }

 private:
  template <class... Args>
  void no(std::string key, fmt::format_string<Args...> text, Args&&... args) {
    out_.push_back({std::move(key), fmt::format(text, std::forward<Args>(args)...)});
  }

  void present() {
    const job::Model& m = j_.model;
    const auto need = [&](bool there, const char* key, const char* what) {
      if (!there) {
        no(key, "'{}' is missing; expected {}", key, what);
      }
    };
    if (loaded_.origins.count("model") == 0) {
      need(false, "model", "a name, a config.json, or fields");
    } else {
      need(m.layers > 0, "model.layers", "an integer");
      need(m.hidden > 0, "model.hidden", "an integer");
      need(m.heads > 0, "model.heads", "an integer");
      need(m.vocab > 0, "model.vocab", "an integer");
      if (m.layers > 0 && m.hidden > 0 && m.heads > 0) {
        need(m.head_dim > 0, "model.head_dim",
             "an integer, since hidden is not a multiple of heads");
        need(m.ffn > 0, "model.ffn", "an integer, since a gated MLP has no default width");
      }
      if (m.moe) {
        need(m.moe->experts > 0, "model.moe.experts", "an integer");
        need(m.moe->topk > 0, "model.moe.topk", "an integer");
      }
      if (m.mla) {
        need(m.mla->kv_lora_rank > 0, "model.mla.kv_lora_rank", "an integer");
        need(m.mla->qk_nope_dim > 0, "model.mla.qk_nope_dim", "an integer");
        need(m.mla->qk_rope_dim > 0, "model.mla.qk_rope_dim", "an integer");
        need(m.mla->v_dim > 0, "model.mla.v_dim", "an integer");
      }
    }
    if (loaded_.origins.count("cluster") == 0) {
      need(false, "cluster", "a name such as dgx-h100 with nodes");
    } else {
      need(j_.cluster.nodes > 0, "cluster.nodes", "the number of hosts");
      need(j_.cluster.node.gpus > 0, "cluster.node", "a node, or a named cluster");
      const job::Device& d = j_.cluster.device;
      need(d.memory.count() > 0 && d.memory_bandwidth.count() > 0 && !d.peak.empty(),
           "cluster.device", "a device, or a named cluster");
    }
    need(j_.workload.sequence_length > 0, "workload.sequence_length", "an integer");
    need(j_.workload.global_batch > 0, "workload.global_batch", "an integer");
  }

  void model() {
    const job::Model& m = j_.model;
    for (Infeasible& one : check_model(m)) {
      out_.push_back(std::move(one));
    }
    if (m.heads % m.kv_heads != 0) {
      no("model.kv_heads", "kv_heads {} does not divide heads {}; expected a divisor", m.kv_heads,
         m.heads);
    }
    if (m.moe && m.moe->topk > m.moe->experts) {
      no("model.moe.topk", "topk {} is more than the {} experts; expected at most that",
         m.moe->topk, m.moe->experts);
    }
    if (m.moe && m.moe->dense_layers > m.layers) {
      no("model.moe.dense_layers",
         "dense_layers {} is more than the {} layers; expected at most that", m.moe->dense_layers,
         m.layers);
    }
    if (m.positions == job::Positions::learned && j_.workload.sequence_length > m.max_positions) {
      no("workload.sequence_length",
         "sequence_length {} is beyond the model's {} learned positions; "
         "expected at most that",
         j_.workload.sequence_length, m.max_positions);
    }
  }

  // Megatron-LM's own checks (megatron/core/transformer/transformer_config.py, recompute_modules).
  void recompute() {
    const job::Recompute& r = j_.memory.recompute;
    using Kind = job::Recompute::Kind;
    const auto& moe = j_.model.moe;
    for (const std::string& module : r.modules) {
      const char* lacks = nullptr;
      if (module == "mla_up_proj" && !j_.model.mla) {
        lacks = "multi-head latent attention";
      } else if ((module == "moe" || module == "moe_act") && !moe) {
        lacks = "experts";
      } else if (module == "shared_experts" && (!moe || moe->shared_experts == 0)) {
        lacks = "shared experts";
      }
      if (lacks != nullptr) {
        no("memory.recompute.modules", "the model has no {}, which {} would recompute; expected {}",
           lacks, module, "modules that it has");
      }
      if (module == "shared_experts" && j_.parallelism.overlap.shared_expert) {
        no("memory.recompute.modules",
           "shared_experts cannot be recomputed while they overlap the dispatch; expected one of "
           "this and parallelism.overlap.shared_expert");
      }
    }
    if (j_.memory.whole_micro_batches > 0 && (r.kind == Kind::none || r.kind == Kind::optimal)) {
      no("memory.whole_micro_batches",
         "whole_micro_batches says which micro-batches recompute nothing; expected a recompute "
         "other than none and optimal");
    }
  }

  // What moves is sized once for all micro-batches, by what units keep between their passes.
  void recompute_and_offload() {
    const bool moves = j_.memory.offload.activations.to != job::OffloadTarget::none;
    if (moves && j_.memory.whole_micro_batches > 0) {
      no("memory.whole_micro_batches",
         "micro-batches that keep all cannot stand beside offloaded activations; expected one of "
         "whole_micro_batches and offload.activations");
    }
    if (moves && j_.memory.recompute.kind == job::Recompute::Kind::optimal) {
      no("memory.recompute.optimal",
         "the budget counts no offloaded activations; expected one of recompute.optimal and "
         "offload.activations");
    }
  }

  void device() {
    const DType p = j_.workload.precision;
    if (job::peak_of(j_.cluster.device, p).count() <= 0) {
      no("workload.precision", "the device {} has no peak rate for {}; expected {}",
         j_.cluster.device.name, job::to_string(p), formats());
    }
  }

  std::string formats() const {
    std::string all;
    for (const auto& [type, rate] : j_.cluster.device.peak) {
      all += (all.empty() ? "" : " | ") + std::string(job::to_string(type));
    }
    return all;
  }

  void cluster() {
    const job::Cluster& c = j_.cluster;
    if (c.nodes > 10'000'000 / c.node.gpus) {
      no("cluster.nodes", "{} nodes of {} GPUs are too many; expected at most 10000000 GPUs",
         c.nodes, c.node.gpus);
    }
    if (c.nodes > 1 && c.fabric.kind != job::Fabric::Kind::none &&
        c.fabric.kind != job::Fabric::Kind::torus &&
        (c.node.nics == 0 || c.node.nic.count() <= 0)) {
      no("cluster.nodes", "{} nodes without network adapters; expected node.nics and node.nic",
         c.nodes);
    }
    node(c.node);
    fabric(c);
    for (std::size_t i = 0; i < c.overrides.size(); ++i) {
      const auto& o = c.overrides[i];
      const std::string key = fmt::format("cluster.overrides.{}", i);
      if (o.count < 1) {
        no(key, "the override has no count of nodes; expected {{first, count, device}}");
      } else if (o.first + o.count > c.nodes) {
        no(key, "nodes {} to {} are beyond the cluster's {}; expected nodes from 0", o.first,
           o.first + o.count - 1, c.nodes);
      } else if (o.device.peak.empty()) {
        no(key, "the override has no device; expected {{first, count, device}}");
      } else if (job::peak_of(o.device, j_.workload.precision).count() <= 0) {
        no(key, "the device {} has no peak rate for {}; expected another precision", o.device.name,
           job::to_string(j_.workload.precision));
      }
    }
    for (std::size_t i = 0; i < c.faults.size(); ++i) {
      fault(c, c.faults[i], fmt::format("cluster.faults.{}", i));
    }
  }

  void node(const job::Node& n) {
    if (n.pcie_switches % n.sockets != 0) {
      no("cluster.node.pcie_switches",
         "{} switches do not divide among {} sockets; expected a multiple", n.pcie_switches,
         n.sockets);
    }
    if (!n.nvlink_links.empty() && n.intra != job::Node::Intra::nvlink_mesh) {
      no("cluster.node.nvlink_links",
         "links are listed for GPUs that a switch joins; expected intra: nvlink_mesh");
    }
  }

  void fabric(const job::Cluster& c) {
    const job::Fabric& f = c.fabric;
    if (f.kind == job::Fabric::Kind::dragonfly && f.nodes_per_pod == 0) {
      no("cluster.fabric.kind", "a dragonfly has groups; expected nodes_per_pod too");
    }
    if (f.nodes_per_pod % f.nodes_per_leaf != 0) {
      no("cluster.fabric.nodes_per_pod",
         "{} nodes a pod are no multiple of the {} below a leaf; expected whole leaves",
         f.nodes_per_pod, f.nodes_per_leaf);
    }
    if (f.kind == job::Fabric::Kind::torus && !f.torus.empty()) {
      double chips = 1;
      for (const int size : f.torus) {
        chips *= size;
      }
      if (chips != static_cast<double>(c.nodes) * c.node.gpus) {
        no("cluster.fabric.torus",
           "the torus holds {} chips and the cluster {}; expected as many nodes times GPUs", chips,
           std::int64_t{c.nodes} * c.node.gpus);
      }
    }
  }

  void fault(const job::Cluster& c, const job::LinkFault& f, const std::string& key) {
    if (f.target.empty()) {
      no(key, "the fault names no link; expected one such as node3/nic2");
      return;
    }
    if (f.down && f.bandwidth != 1) {
      no(key, "'{}' is down and keeps a bandwidth of {}; expected one of the two", f.target,
         f.bandwidth);
    }
    const std::string& t = f.target;
    const auto number = [&](std::size_t at) { return std::strtol(t.c_str() + at, nullptr, 10); };
    const auto below = [&](long n, long limit, const char* of, const char* what) {
      if (n >= limit) {
        no(key, "'{}' is beyond the {}'s {} {}; expected {} from 0", t, of, limit, what, what);
      }
    };
    const int ports = std::min(c.node.nics, c.node.gpus);
    const bool tree = c.fabric.kind == job::Fabric::Kind::fat_tree ||
                      c.fabric.kind == job::Fabric::Kind::dragonfly;
    const long units = (c.nodes + c.fabric.nodes_per_leaf - 1) / c.fabric.nodes_per_leaf;
    if (t.starts_with("leaf")) {
      below(number(4), units * (tree ? 1 : std::max(1, ports)), "fabric", "leaves");
      return;
    }
    if (t.starts_with("rail")) {
      below(number(4), ports, "node", "rails");
      return;
    }
    if (!t.starts_with("node")) {
      return;  // spines and pods: the topology counts them
    }
    const std::size_t slash = t.find('/');
    const bool nic = t.compare(slash + 1, 3, "nic") == 0;
    const std::size_t dash = t.find('-');
    below(number(4), c.nodes, "cluster", "nodes");
    below(number(slash + 4), nic ? c.node.nics : c.node.gpus, "node", nic ? "NICs" : "GPUs");
    if (dash != std::string::npos) {
      below(number(dash + 4), c.node.gpus, "node", "GPUs");
    }
  }

  void grid() {
    const job::Parallelism& p = j_.parallelism;
    const job::Model& m = j_.model;
    const std::int64_t ranks = std::int64_t{j_.cluster.nodes} * j_.cluster.node.gpus;
    const auto divide = [&](std::int64_t of, const char* what) {
      if (of % p.tensor != 0) {
        no("parallelism.tensor", "tensor {} does not divide {} {}; expected a divisor", p.tensor,
           what, of);
      }
    };
    // Sizes are at most 10^7: two of them fit, a third is multiplied in only below the ranks.
    const std::int64_t two = std::int64_t{p.tensor} * p.context;
    const std::int64_t model_ranks = two > ranks ? two : two * p.pipeline;
    if (model_ranks > ranks) {
      no(blame(),
         "tensor {} x context {} x pipeline {} is more than the cluster's {} ranks; expected at "
         "most that",
         p.tensor, p.context, p.pipeline, ranks);
      return;
    }
    divide(m.heads, "heads");
    if (!m.mla && m.kv_heads != m.heads) {
      divide(m.kv_heads, "kv_heads");
    }
    if (!m.moe || m.moe->dense_layers > 0 || m.moe->every > 1) {
      divide(m.ffn, "ffn");
    }
    if (m.vocab < p.tensor) {
      no("parallelism.tensor",
         "tensor {} is more than the {} rows of the vocabulary; expected at most that", p.tensor,
         m.vocab);
    }
    if (m.moe) {
      if (m.moe->ffn % p.expert_tensor != 0) {
        no("parallelism.expert_tensor",
           "moe.ffn {} is not divisible by expert_tensor {}; expected a divisor", m.moe->ffn,
           p.expert_tensor);
      }
      if (m.moe->experts % p.expert != 0) {
        no("parallelism.expert",
           "the {} experts are not divisible by expert {}; expected a divisor", m.moe->experts,
           p.expert);
      }
      const auto& balance = j_.moe.balance;
      if (balance.kind == job::ExpertBalance::Kind::shares &&
          balance.shares.size() != static_cast<std::size_t>(m.moe->experts)) {
        no("moe.balance", "moe.balance has {} shares for {} experts; expected one each",
           balance.shares.size(), m.moe->experts);
      }
      if (m.moe->shared_experts > 0 && m.moe->shared_ffn > 0) {
        divide(m.moe->shared_ffn, "moe.shared_ffn");
      }
    } else if (p.expert > 1) {
      no("parallelism.expert", "expert {} of a model without experts; expected 1", p.expert);
    } else if (p.expert_tensor != 1) {
      no("parallelism.expert_tensor", "expert_tensor {} of a model without experts; expected 1",
         p.expert_tensor);
    }
    if (p.sequence_parallel) {
      divide(j_.workload.sequence_length, "sequence_length");
    }
    if (p.data) {
      const std::int64_t all = model_ranks * *p.data;
      if (all != ranks) {
        no("parallelism.data",
           "tensor {} x context {} x pipeline {} x data {} is not the cluster's {} ranks; "
           "expected {}",
           p.tensor, p.context, p.pipeline, *p.data, ranks,
           ranks % model_ranks == 0 ? fmt::format("data {}", ranks / model_ranks)
                                    : "sizes that multiply to it");
        return;
      }
    } else if (ranks % model_ranks != 0) {
      no(blame(),
         "tensor {} x context {} x pipeline {} = {} does not divide the cluster's {} ranks; "
         "expected "
         "a divisor",
         p.tensor, p.context, p.pipeline, model_ranks, ranks);
      return;
    }
    data_ = ranks / model_ranks;
    const job::Workload& w = j_.workload;
    const std::int64_t at_once = data_ * w.micro_batch;
    if (w.micro_batches.kind != job::MicroBatches::Kind::even) {
      micro_batches_ = 0;  // strategy counts them rank by rank
    } else if (w.global_batch % at_once != 0) {
      no("workload.global_batch",
         "global_batch {} is not a multiple of data {} x micro_batch {}; expected a "
         "multiple of {}",
         w.global_batch, data_, w.micro_batch, at_once);
    } else {
      micro_batches_ = w.global_batch / at_once;
    }
    if (p.shard_size && data_ * p.context % *p.shard_size != 0) {
      no("parallelism.shard_size", "shard_size {} does not divide data {}; expected a divisor",
         *p.shard_size, data_ * p.context);
    }
    if (p.shard_size && p.sharding == job::Sharding::none) {
      no("parallelism.shard_size",
         "shard_size {} without sharding; expected sharding zero1, zero2 or zero3", *p.shard_size);
    }
  }

  // The written key that is most likely wrong.
  std::string blame() const {
    for (const char* key : {"parallelism.pipeline", "parallelism.tensor"}) {
      if (loaded_.origins.count(key) > 0) {
        return key;
      }
    }
    return "parallelism";
  }

  void optimizer() {
    const job::Memory& m = j_.memory;
    if (m.momentum > 0 && m.optimizer != job::Optimizer::sgd) {
      no("memory.momentum", "momentum {} is no setting of this optimizer; expected optimizer: sgd",
         m.momentum);
    }
  }

  void stages() {
    const job::Parallelism& p = j_.parallelism;
    static const std::set<std::string> plain = {"gpipe", "1f1b", "interleaved_1f1b"};
    if (!p.layout.empty() || p.redistribute || p.embedding_as_layer || p.loss_as_layer ||
        j_.model.mtp_layers > 0 || (p.schedule && plain.count(p.schedule->name) == 0)) {
      return;  // strategy places these
    }
    const int layers = j_.model.layers;
    const std::int64_t virtual_stages = std::int64_t{p.pipeline} * p.virtual_pipeline;
    if (virtual_stages > layers && p.layers_per_stage.empty()) {
      no(p.virtual_pipeline > 1 ? "parallelism.virtual_pipeline" : "parallelism.pipeline",
         "pipeline {} x virtual_pipeline {} is more than the model's {} layers; expected at most "
         "that",
         p.pipeline, p.virtual_pipeline, layers);
      return;
    }
    if (p.layers_per_stage.empty()) {
      if (layers % virtual_stages != 0) {
        no(p.virtual_pipeline > 1 ? "parallelism.virtual_pipeline" : "parallelism.pipeline",
           "{} layers do not divide by pipeline {} x virtual_pipeline {}; expected a divisor, or "
           "layers_per_stage",
           layers, p.pipeline, p.virtual_pipeline);
      }
    } else {
      const auto n = static_cast<std::int64_t>(p.layers_per_stage.size());
      const std::int64_t sum =
          std::accumulate(p.layers_per_stage.begin(), p.layers_per_stage.end(), std::int64_t{0});
      if (n != p.pipeline && n != virtual_stages) {
        no("parallelism.layers_per_stage",
           "layers_per_stage has {} entries; expected {} (one a stage) or {} (one a "
           "virtual stage)",
           n, p.pipeline, virtual_stages);
      } else if (sum != layers) {
        no("parallelism.layers_per_stage",
           "layers_per_stage adds up to {}; expected the model's {} layers", sum, layers);
      }
    }
    const bool interleaved = p.schedule ? p.schedule->name != "gpipe" && p.schedule->name != "1f1b"
                                        : p.virtual_pipeline > 1;
    if (p.virtual_pipeline > 1 && !interleaved) {
      no("parallelism.schedule",
         "virtual_pipeline {} needs the schedule interleaved_1f1b; expected it, or "
         "virtual_pipeline 1",
         p.virtual_pipeline);
    }
    if (p.virtual_pipeline > 1 && p.pipeline == 1) {
      no("parallelism.virtual_pipeline",
         "virtual_pipeline {} without pipeline stages; expected pipeline above 1",
         p.virtual_pipeline);
      return;
    }
    if (interleaved && p.virtual_pipeline > 1 && micro_batches_ > 0) {
      groups(p);
    }
  }

  // Megatron-LM, core/pipeline_parallel/schedules.py: pipeline <= group <= micro-batches, and what
  // remains of the last group is nothing or at least a pipeline full.
  void groups(const job::Parallelism& p) {
    const std::int64_t group = p.schedule && p.schedule->group ? *p.schedule->group : p.pipeline;
    const char* key =
        p.schedule && p.schedule->group ? "parallelism.schedule" : "workload.global_batch";
    const std::int64_t rest = micro_batches_ % group;
    if (micro_batches_ < p.pipeline) {
      no("workload.global_batch",
         "{} micro-batches are fewer than the {} stages; expected at least as many", micro_batches_,
         p.pipeline);
    } else if (group < p.pipeline || group > micro_batches_) {
      no(key,
         "groups of {} micro-batches with {} of them on {} stages; expected a group from {} to {}",
         group, micro_batches_, p.pipeline, p.pipeline, micro_batches_);
    } else if (rest != 0 && rest < p.pipeline) {
      no(key,
         "{} micro-batches in groups of {} leave {}, less than the {} stages; expected a multiple "
         "of the group",
         micro_batches_, group, rest, p.pipeline);
    }
  }

  void nccl() {
    const job::Nccl& n = j_.nccl;
    if (n.min_ctas && n.max_ctas && *n.min_ctas > *n.max_ctas) {
      no("nccl.min_ctas", "nccl.min_ctas is {}, more than nccl.max_ctas ({})", *n.min_ctas,
         *n.max_ctas);
    }
  }

  const Loaded& loaded_;
  const job::Job& j_;
  std::vector<Infeasible> out_;
  std::int64_t data_ = 0;
  std::int64_t micro_batches_ = 0;
};

}  // namespace

std::vector<Infeasible> check(const Loaded& loaded) { return Checker(loaded).run(); }

std::vector<Infeasible> check_cluster(const Loaded& loaded) {
  return Checker(loaded).run_cluster();
}

}  // namespace stepcast::config
