// Whether the node can hold what the job offloads.
#include <fmt/core.h>

#include "check.h"

namespace stepcast::config {

using job::OffloadTarget;

namespace {

struct Fact {
  bool known;
  const char* key;
  const char* what;
};

void activations(const job::Job& j, std::vector<Infeasible>& out) {
  const job::Offload& o = j.memory.offload;
  if (o.activation_layers > 0 && o.activations.to == OffloadTarget::none) {
    out.push_back({"memory.offload.activation_layers",
                   "no activations are offloaded; expected memory.offload.activations, or 0"});
  }
  if (!o.activation_modules.empty() && o.activations.to == OffloadTarget::none) {
    out.push_back({"memory.offload.activation_modules",
                   "no activations are offloaded; expected memory.offload.activations, or no "
                   "modules"});
  }
  // The interleaved schedule's own condition, which Megatron-Kwai's offloading lives in.
  if (o.activations.to != OffloadTarget::none && o.overlap &&
      j.system.activation_offload == job::System::ActivationOffload::pairs &&
      j.parallelism.pipeline <= 2) {
    out.push_back({"memory.offload.activations",
                   "beside forward-backward pairs they travel on more than 2 stages; expected "
                   "parallelism.pipeline 3 or more, or system.activation_offload units"});
  }
}

// DeepSpeed's TiledLinear: modules whose parameters ZeRO-3 gathers.
void tiles(const job::Job& j, std::vector<Infeasible>& out) {
  if (j.memory.offload.tiling <= 1) {
    return;
  }
  const auto refuse = [&](const char* reason) { out.push_back({"memory.offload.tiling", reason}); };
  const auto& p = j.parallelism;
  if (!j.system.habits.tiles_linears || p.sharding != job::Sharding::zero3) {
    refuse(
        "tiles are gathered one by one; expected a system of DeepSpeed's family and "
        "parallelism.sharding zero3, or 1");
  } else if (p.tensor > 1 || p.pipeline > 1) {
    refuse(
        "a linear is cut into tiles on one rank; expected parallelism.tensor 1 and "
        "parallelism.pipeline 1, or 1");
  } else if (p.zeropp.partition > 0 || p.zeropp.weights || p.zeropp.gradients) {
    refuse("tiles travel in the parameters' own format; expected no parallelism.zeropp, or 1");
  }
}

}  // namespace

std::vector<Infeasible> check_offload(const job::Job& j) {
  std::vector<Infeasible> out;
  const job::Offload& o = j.memory.offload;
  const job::Node& n = j.cluster.node;
  const auto need = [&](const char* part, const char* to, const std::vector<Fact>& facts) {
    for (const Fact& fact : facts) {
      if (!fact.known) {
        out.push_back({fmt::format("memory.offload.{}", part),
                       fmt::format("{} to {} needs {}, which the node {} does not state; expected "
                                   "{}",
                                   part, to, fact.what, n.name, fact.key)});
        return;
      }
    }
  };
  const std::vector<Fact> memory = {
      {n.host_memory.count() > 0, "cluster.node.host_memory", "the host memory's size"},
      {n.host_memory_bandwidth.count() > 0, "cluster.node.host_memory_bandwidth",
       "the host memory's bandwidth"},
      {j.cluster.device.pcie.count() > 0, "cluster.device.pcie", "the GPU's link to the host"}};
  const auto check = [&](const char* part, const job::OffloadPart& p, bool computes) {
    if (p.to == OffloadTarget::none) {
      return;
    }
    const bool nvme = p.to == OffloadTarget::nvme;
    std::vector<Fact> facts = memory;
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
    need(part, nvme ? "nvme" : "cpu", facts);
  };
  if (o.parameters.to != OffloadTarget::none && j.parallelism.sharding != job::Sharding::zero3) {
    out.push_back({"memory.offload.parameters",
                   "parameters are offloaded where units are gathered before use; expected "
                   "parallelism.sharding zero3, or none"});
  }
  tiles(j, out);
  check("optimizer", o.optimizer, true);
  check("parameters", o.parameters, false);
  check("gradients", o.gradients, false);
  check("activations", o.activations, false);
  activations(j, out);
  return out;
}

}  // namespace stepcast::config
