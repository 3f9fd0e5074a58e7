// Lists changes to a job that save memory without changing what is trained.
#include <fmt/format.h>

#include <algorithm>

#include "stepcast/search/advice.h"

namespace stepcast::search {
namespace {

using Changes = std::vector<std::vector<std::string>>;
using Kind = job::Recompute::Kind;

// The bytes that model states and activations may take on the fullest stage: its capacity without
// memory outside the framework's allocator and without the allocator's waste.
std::int64_t allocated_budget(const result::Report& misfit) {
  Bytes beside(0);
  Bytes most(-1);
  for (const result::StageMemory& stage : misfit.memory) {
    if (stage.process > most) {
      most = stage.process;
      beside = stage.process - std::max(stage.allocated, stage.first_step_peak);
    }
  }
  return (misfit.capacity - beside).count();
}

void recomputation(const job::Job& job, const result::Report& misfit, Changes& out) {
  const job::Recompute& now = job.memory.recompute;
  if (now.kind == Kind::full && job.model.layers > 1) {
    out.push_back({"memory.recompute={uniform: 2}"});
    out.push_back({"memory.recompute={uniform: 4}"});
    return;
  }
  if (now.kind == Kind::uniform) {
    out.push_back({fmt::format("memory.recompute={{uniform: {}}}", 2 * now.layers)});
    return;
  }
  if (now.kind == Kind::none) {
    out.push_back({"memory.recompute=selective"});
  }
  if (const std::int64_t budget = allocated_budget(misfit); budget > 0) {
    out.push_back({fmt::format("memory.recompute={{optimal: {{budget: {} MiB}}}}", budget >> 20)});
  }
  if (now.kind != Kind::every || now.layers > 2) {
    out.push_back({"memory.recompute={every: 2}"});
  }
  out.push_back({"memory.recompute=full"});
}

void sharding(const job::Job& job, Changes& out) {
  for (const Sharding level : {Sharding::zero1, Sharding::zero2, Sharding::zero3}) {
    if (job.parallelism.sharding < level) {
      out.push_back({fmt::format("parallelism.sharding={}", to_string(level))});
    }
  }
}

// Doubles one size of the process grid and reduces data parallelism accordingly. If the job states
// the data size, it is halved.
void grid(const job::Job& job, Changes& out) {
  const job::Parallelism& p = job.parallelism;
  const auto doubled = [&](const char* key, int size, bool costs_data) {
    std::vector<std::string> change = {fmt::format("parallelism.{}={}", key, 2 * size)};
    if (p.data && costs_data) {
      if (*p.data % 2 != 0) {
        return;
      }
      change.push_back(fmt::format("parallelism.data={}", *p.data / 2));
    }
    out.push_back(std::move(change));
  };
  if (2 * p.pipeline <= job.model.layers) {
    doubled("pipeline", p.pipeline, true);
  }
  if (2 * p.tensor <= job.cluster.node.gpus) {
    doubled("tensor", p.tensor, true);
  }
  doubled("context", p.context, true);
  if (job.model.moe && 2 * p.expert <= job.model.moe->experts) {
    doubled("expert", p.expert, false);
  }
  if (p.tensor > 1 && !p.sequence_parallel) {
    out.push_back({"parallelism.sequence_parallel=true"});
  }
}

void offloading(const job::Job& job, Changes& out) {
  const job::Offload& now = job.memory.offload;
  const std::pair<const char*, const job::OffloadPart*> parts[] = {
      {"optimizer", &now.optimizer}, {"activations", &now.activations}};
  for (const auto& [name, part] : parts) {
    if (part->to == job::OffloadTarget::none) {
      out.push_back({now.any() ? fmt::format("memory.offload.{}=cpu", name)
                               : fmt::format("memory.offload={{{}: cpu}}", name)});
    }
  }
}

}  // namespace

std::vector<std::vector<std::string>> changes(const job::Job& job, const result::Report& misfit) {
  Changes out;
  recomputation(job, misfit, out);
  sharding(job, out);
  for (std::int64_t size = job.workload.micro_batch / 2; size >= 1; size /= 2) {
    out.push_back({fmt::format("workload.micro_batch={}", size)});
  }
  grid(job, out);
  offloading(job, out);
  if (job.kernels.loss == job::LossKernel::eager) {
    out.push_back({"kernels.loss=fused"});
    if (job.system.transformers_modules && job.kernels.liger.empty() &&
        job.parallelism.tensor == 1 && job.model.modules.liger.loss) {
      out.push_back({"kernels.liger=true"});
    }
  }
  if (job.memory.allocator == job::Memory::Allocator::caching &&
      hardware::vendor_of(job.cluster.device) != hardware::Vendor::google) {
    out.push_back({"memory.allocator=expandable_segments"});
  }
  return out;
}

}  // namespace stepcast::search
