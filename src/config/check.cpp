#include "check.h"

#include <fmt/core.h>

#include <algorithm>

#include "defaults.h"
#include "stepcast/job/facts.h"

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
  if (m.ffn == 0 && !m.ffns.empty()) {
    m.ffn = *std::max_element(m.ffns.begin(), m.ffns.end());
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

namespace {

bool narrow(DType format) { return format != DType::fp32 && format != DType::tf32; }

// Whether parameters have the precision's format where the job does not state theirs: the system
// leaves that open, or keeps the format in which they are loaded, which is that of a checkpoint in
// 16 bits.
bool follow_precision(const Loaded& loaded) {
  const job::Job& j = loaded.job;
  if (loaded.origins.count("memory.dtypes.parameters") == 0) {
    return true;
  }
  if (!j.system.loads_as_stored || by_job(loaded, "memory.dtypes.parameters")) {
    return false;
  }
  const auto sharding = j.parallelism.sharding;
  const bool units = sharding == job::Sharding::zero2 || sharding == job::Sharding::zero3;
  const bool widened = j.system.widens_shards && units && !job::trains_adapters(j);
  // PEFT widens what a base in 4 bits leaves in 16 (0.21.2 utils/other.py,
  // prepare_model_for_kbit_training).
  const bool prepared = j.workload.finetune.kind == job::Finetune::Kind::qlora;
  return narrow(j.model.checkpoint) && !widened && !prepared;
}

}  // namespace

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
    j.parallelism.expert_tensor = job::divides_experts(j) ? j.parallelism.tensor : 1;
  }
  if (follow_precision(loaded)) {
    const DType in = j.workload.precision;
    const auto& narrow = j.system.narrow_parameters;
    const bool few = std::find(narrow.begin(), narrow.end(), in) != narrow.end();
    j.memory.dtypes.parameters = few && in == DType::nvfp4                ? in
                                 : few                                    ? DType::fp8
                                 : in == DType::fp16                      ? DType::fp16
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
  if (j.system.habits.states_follow_parameters && !set("memory.dtypes.gradients")) {
    j.memory.dtypes.gradients = job::trained_format(j);
  }
  if (j.system.habits.states_follow_parameters && !set("memory.dtypes.moments")) {
    j.memory.dtypes.moments = job::trained_format(j);
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

std::vector<Lacking> lacking(const job::Device& device) {
  std::vector<Lacking> out;
  if (device.memory.count() <= 0) {
    out.push_back({"memory", "a size such as 80 GB"});
  }
  if (device.memory_bandwidth.count() <= 0) {
    out.push_back({"memory_bandwidth", "a bandwidth such as 3350 GB/s"});
  }
  if (device.peak.empty()) {
    out.push_back({"peak", "rates such as {bf16: 989 TFLOP/s}"});
  }
  return out;
}

namespace {

// Whether the job has something at this key or below it.
bool states(const Loaded& loaded, const std::string& key) {
  const auto at = loaded.origins.lower_bound(key);
  return at != loaded.origins.end() && (at->first == key || at->first.starts_with(key + "."));
}

// What a cluster's node and device must state: of one that states a part of it, each key that it
// lacks.
void need_machines(const Loaded& loaded, std::vector<Infeasible>& out) {
  const auto lacks = [&](std::string key, std::string_view what) {
    out.push_back({key, fmt::format("'{}' is missing; expected {}", key, what)});
  };
  const job::Cluster& c = loaded.job.cluster;
  if (c.node.gpus < 1 && states(loaded, "cluster.node")) {
    lacks("cluster.node.gpus", "the number of GPUs of a node");
  } else if (c.node.gpus < 1) {
    lacks("cluster.node", "a node, or a named cluster");
  }
  const std::vector<Lacking> device = lacking(c.device);
  if (!device.empty() && !states(loaded, "cluster.device")) {
    lacks("cluster.device", "a device, or a named cluster");
    return;
  }
  for (const Lacking& one : device) {
    lacks(fmt::format("cluster.device.{}", one.key), one.expected);
  }
}

}  // namespace

std::vector<Infeasible> missing(const Loaded& loaded) {
  std::vector<Infeasible> out;
  const job::Job& j = loaded.job;
  const job::Model& m = j.model;
  const auto need = [&](bool there, const char* key, const char* what) {
    if (!there) {
      out.push_back({key, fmt::format("'{}' is missing; expected {}", key, what)});
    }
  };
  if (loaded.origins.count("model") == 0) {
    need(false, "model", "a name, a config.json, or fields");
  } else {
    need(m.layers > 0, "model.layers", "an integer");
    need(m.hidden > 0, "model.hidden", "an integer");
    need(m.heads > 0, "model.heads", "an integer");
    need(m.vocab > 0, "model.vocab", "an integer");
    if (m.layers > 0 && m.hidden > 0 && m.heads > 0) {
      need(m.head_dim > 0, "model.head_dim", "an integer, since hidden is not a multiple of heads");
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
  if (loaded.origins.count("cluster") == 0) {
    need(false, "cluster", "a name such as dgx-h100 with nodes");
  } else {
    need(j.cluster.nodes > 0, "cluster.nodes", "the number of hosts");
    need_machines(loaded, out);
  }
  need(j.workload.sequence_length > 0, "workload.sequence_length", "an integer");
  need(j.workload.global_batch > 0, "workload.global_batch", "an integer");
  return out;
}

std::vector<Infeasible> missing(const job::Cluster& cluster) {
  if (cluster.nodes < 1) {
    return {{"cluster.nodes", "cluster.nodes is missing; expected the number of hosts"}};
  }
  if (cluster.node.gpus < 1) {
    return {{"cluster.node", "cluster.node is missing; expected a node, or a named cluster"}};
  }
  return {};
}

}  // namespace stepcast::config
