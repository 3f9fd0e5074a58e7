// Whether the node can hold what the job offloads, and whether the strategy can offload it.
#include "rules.h"

namespace stepcast::strategy {
namespace {

using job::OffloadTarget;

struct Fact {
  bool known;
  const char* key;
  const char* what;
};

// Reports the first fact that the node does not state.
void known(const job::Node& node, const char* part, const char* to, const std::vector<Fact>& facts,
           Faults& out) {
  for (const Fact& fact : facts) {
    if (!fact.known) {
      out.add(fmt::format("memory.offload.{}", part),
              "{} to {} needs {}, which the node {} does not state; expected {}", part, to,
              fact.what, node.name, fact.key);
      return;
    }
  }
}

std::vector<Fact> facts_needed(const job::Cluster& cluster, bool nvme, bool computes) {
  const job::Node& n = cluster.node;
  std::vector<Fact> facts = {
      {n.host_memory.count() > 0, "cluster.node.host_memory", "the host memory's size"},
      {n.host_memory_bandwidth.count() > 0, "cluster.node.host_memory_bandwidth",
       "the host memory's bandwidth"},
      {cluster.device.pcie.count() > 0, "cluster.device.pcie", "the GPU's link to the host"}};
  if (computes) {
    facts.push_back({n.cpu_cores > 0, "cluster.node.cpu_cores", "the number of CPU cores"});
  }
  if (nvme) {
    facts.push_back({n.nvme.count() > 0, "cluster.node.nvme", "the size of its NVMe drives"});
    facts.push_back(
        {n.nvme_read.count() > 0, "cluster.node.nvme_read", "the drives' read bandwidth"});
    facts.push_back(
        {n.nvme_write.count() > 0, "cluster.node.nvme_write", "the drives' write bandwidth"});
  }
  return facts;
}

}  // namespace

void offload_parameters(const job::Job& job, Faults& out) {
  if (job.memory.offload.parameters.to != OffloadTarget::none &&
      job.parallelism.sharding != job::Sharding::zero3) {
    out.add("memory.offload.parameters",
            "parameters can be offloaded only where units are gathered before use; expected "
            "parallelism.sharding zero3, or none");
  }
}

// DeepSpeed's TiledLinear: modules whose parameters ZeRO-3 gathers.
void offload_tiles(const job::Job& job, Faults& out) {
  if (job.memory.offload.tiling <= 1) {
    return;
  }
  constexpr const char* kKey = "memory.offload.tiling";
  const auto& p = job.parallelism;
  if (!job.system.habits.tiles_linears || p.sharding != job::Sharding::zero3) {
    out.add(kKey,
            "tiles are gathered one by one; expected a system of DeepSpeed's family and "
            "parallelism.sharding zero3, or 1");
  } else if (p.tensor > 1 || p.pipeline > 1) {
    out.add(kKey,
            "a linear is cut into tiles on one rank; expected parallelism.tensor 1 and "
            "parallelism.pipeline 1, or 1");
  } else if (p.zeropp.partition > 0 || p.zeropp.weights || p.zeropp.gradients) {
    out.add(kKey,
            "tiles travel in the parameters' own format; expected no parallelism.zeropp, or 1");
  }
}

void offload_facts(const job::Job& job, Faults& out) {
  const auto judge = [&](const char* part, const job::OffloadPart& p, bool computes) {
    if (p.to == OffloadTarget::none) {
      return;
    }
    const bool nvme = p.to == OffloadTarget::nvme;
    known(job.cluster.node, part, nvme ? "nvme" : "cpu", facts_needed(job.cluster, nvme, computes),
          out);
  };
  const job::Offload& o = job.memory.offload;
  judge("optimizer", o.optimizer, true);
  judge("parameters", o.parameters, false);
  judge("gradients", o.gradients, true);  // of several micro-batches they are added there
  judge("activations", o.activations, false);
}

void offload_activations(const job::Job& job, Faults& out) {
  const job::Offload& o = job.memory.offload;
  if (o.activation_layers > 0 && o.activations.to == OffloadTarget::none) {
    out.add("memory.offload.activation_layers",
            "no activations are offloaded; expected memory.offload.activations, or 0");
  }
  if (!o.activation_modules.empty() && o.activations.to == OffloadTarget::none) {
    out.add("memory.offload.activation_modules",
            "no activations are offloaded; expected memory.offload.activations, or no modules");
  }
  // The interleaved schedule's own condition, since Megatron-Kwai's offloading is part of it.
  if (o.activations.to != OffloadTarget::none && o.overlap &&
      job.system.activation_offload == job::System::ActivationOffload::pairs &&
      job.parallelism.pipeline <= 2) {
    out.add("memory.offload.activations",
            "with forward-backward pairs activations are offloaded only on more than 2 stages; "
            "expected "
            "parallelism.pipeline 3 or more, or system.activation_offload units");
  }
}

}  // namespace stepcast::strategy
