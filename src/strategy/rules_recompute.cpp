// Recomputation: Megatron-LM's own checks (megatron/core/transformer/transformer_config.py,
// recompute_modules), and what it cannot be combined with.
#include "rules.h"
#include "stepcast/job/facts.h"

namespace stepcast::strategy {
namespace {

bool offloads_activations(const job::Job& job) {
  return job.memory.offload.activations.to != job::OffloadTarget::none;
}

}  // namespace

void recompute_modules(const job::Job& job, Faults& out) {
  for (const std::string& module : job.memory.recompute.modules) {
    if (const char* what = job::lacking(job.model, module)) {
      out.add("memory.recompute.modules",
              "the model has no {}, which {} would recompute; expected {}", what, module,
              "modules that it has");
    }
    if (module == "shared_experts" && job.parallelism.overlap.shared_expert) {
      out.add("memory.recompute.modules",
              "shared_experts cannot be recomputed while they overlap the dispatch; expected "
              "either this or parallelism.overlap.shared_expert");
    }
  }
}

void recompute_within_budget(const job::Job& job, Faults& out) {
  if (job.memory.recompute.share < 1 && !job.kernels.compile) {
    out.add("memory.recompute.memory_budget",
            "a budget is torch.compile's, and nothing is compiled; expected kernels.compile: true, "
            "or another recomputation");
  }
}

void recompute_whole(const job::Job& job, Faults& out) {
  using Kind = job::Recompute::Kind;
  const Kind kind = job.memory.recompute.kind;
  if (job.memory.whole_micro_batches > 0 && (kind == Kind::none || kind == Kind::optimal)) {
    out.add(
        "memory.whole_micro_batches",
        "whole_micro_batches states how many micro-batches recompute nothing; expected a recompute "
        "other than none and optimal");
  }
}

// The size of what is copied is the same for all micro-batches: what units keep between passes.
void whole_beside_offload(const job::Job& job, Faults& out) {
  if (offloads_activations(job) && job.memory.whole_micro_batches > 0) {
    out.add("memory.whole_micro_batches",
            "micro-batches that keep all activations cannot be combined with offloaded "
            "activations; expected one "
            "of whole_micro_batches and offload.activations");
  }
}

void optimal_beside_offload(const job::Job& job, Faults& out) {
  if (offloads_activations(job) && job.memory.recompute.kind == job::Recompute::Kind::optimal) {
    out.add(
        "memory.recompute.optimal",
        "the budget does not count offloaded activations; expected one of recompute.optimal and "
        "offload.activations");
  }
}

}  // namespace stepcast::strategy
