// What a job asks of its training system.
#include "stepcast/strategy/plan.h"

namespace stepcast::strategy {

std::vector<Feature> features(const job::Job& job) {
  const auto& par = job.parallelism;
  std::vector<Feature> out;
  const auto add = [&](bool asked, std::string name, const char* key) {
    if (asked) {
      out.push_back({std::move(name), key});
    }
  };
  const int model_ranks = par.tensor * par.context * par.pipeline;
  const int data = par.data.value_or(model_ranks > 0 ? job.cluster.ranks() / model_ranks : 1);
  add(data > 1, "data", "parallelism.data");
  add(par.tensor > 1, "tensor", "parallelism.tensor");
  add(par.tensor > 1 && par.tensor_kind != job::TensorKind::one_d, "tensor_2d",
      "parallelism.tensor_kind");
  add(par.tensor > 1 && par.overlap.tensor != job::TensorOverlap::none, "tensor_overlap",
      "parallelism.overlap.tensor");
  add(par.tensor > 1 && par.sequence_parallel, "sequence", "parallelism.sequence_parallel");
  const bool all_to_all = par.context_kind == job::ContextKind::a2a;
  add(par.context > 1 && !all_to_all, "context", "parallelism.context");
  add(par.context > 1 && all_to_all, "ulysses", "parallelism.context");
  add(par.expert > 1, "expert", "parallelism.expert");
  add(job.model.moe && par.expert_tensor != par.tensor, "expert_tensor",
      "parallelism.expert_tensor");
  add(par.pipeline > 1, "pipeline", "parallelism.pipeline");
  add(par.virtual_pipeline > 1, "virtual_pipeline", "parallelism.virtual_pipeline");
  if (par.pipeline > 1 && par.schedule) {
    const std::string& name = par.schedule->name;
    add(true, name.ends_with(".csv") ? "csv" : name, "parallelism.schedule");
    add(!par.schedule->vocabulary.empty(), "vocabulary", "parallelism.schedule");
  }
  using job::Sharding;
  add(par.sharding == Sharding::zero1, "zero1", "parallelism.sharding");
  add(par.sharding == Sharding::zero2, "zero2", "parallelism.sharding");
  add(par.sharding == Sharding::zero3, "zero3", "parallelism.sharding");
  add(par.sharding == Sharding::zero3 && par.shard_size && *par.shard_size < data * par.context,
      "hsdp", "parallelism.shard_size");
  const auto& zeropp = par.zeropp;
  add(zeropp.weights || zeropp.gradients || zeropp.partition > 0, "zeropp", "parallelism.zeropp");
  add(job.memory.optimizer == job::Optimizer::muon, "muon", "memory.optimizer");
  add(job.workload.finetune.kind != job::Finetune::Kind::none, "finetune", "workload.finetune");
  return out;
}

}  // namespace stepcast::strategy
