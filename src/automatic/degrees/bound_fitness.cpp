#include "bound_fitness.h"

#include <fmt/format.h>

#include <algorithm>

#include "../infinity.h"
#include "stepcast/job/facts.h"
#include "stepcast/search/objective.h"
#include "stepcast/strategy/plan.h"
#include "stepcast/terms/parallelism.h"

namespace stepcast::automatic {
namespace {

// The keys that a bound varies itself.
constexpr const char* kInner[] = {
    "parallelism.tensor",   "parallelism.pipeline",          "parallelism.virtual_pipeline",
    "workload.micro_batch", "parallelism.sequence_parallel", "parallelism.sharding",
    "memory.recompute"};

}  // namespace

BoundFitness::BoundFitness(const Inputs& in)
    : request_(in.request), base_(in.base), loader_(in.loader), forecaster_(in.forecaster) {}

std::vector<int> BoundFitness::sizes() const {
  std::vector<int> out;
  for (const search::Dimension& d : request_.space.dimensions) {
    out.push_back(static_cast<int>(d.values.size()));
  }
  return out;
}

std::vector<std::string> BoundFitness::overrides(const Genome& genome) const {
  std::vector<std::string> out;
  for (std::size_t d = 0; d < genome.size(); ++d) {
    const search::Dimension& dimension = request_.space.dimensions[d];
    out.push_back(
        fmt::format("{}={}", dimension.key, dimension.values[static_cast<std::size_t>(genome[d])]));
  }
  return out;
}

bool BoundFitness::inner(std::size_t dimension) const {
  const std::string& key = request_.space.dimensions[dimension].key;
  return std::any_of(std::begin(kInner), std::end(kInner), [&](const char* k) { return key == k; });
}

BoundFitness::Family& BoundFitness::family_of(const Genome& genome) {
  Genome outer = genome;
  for (std::size_t d = 0; d < outer.size(); ++d) {
    outer[d] = inner(d) ? -1 : outer[d];
  }
  const auto [at, fresh] = families_.try_emplace(outer);
  // Another point of the family may give a job that can be loaded.
  if (fresh || !at->second.bounds) {
    auto loaded = loader_(overrides(genome));
    if (auto* job = std::get_if<job::Job>(&loaded)) {
      auto bounds = forecaster_.bounds(*job);
      if (auto* b = std::get_if<forecast::Forecaster::Bounds>(&bounds)) {
        at->second.bounds.emplace(std::move(*b));
        at->second.job = std::move(*job);
      }
    }
  }
  return at->second;
}

bool BoundFitness::runs(const job::Job& family, const bound::Candidate& c) const {
  job::Job job = family;
  job::Parallelism& p = job.parallelism;
  p.tensor = c.tensor;
  p.pipeline = c.pipeline;
  p.virtual_pipeline = c.virtual_pipeline;
  p.context = c.context;
  p.data = c.data;
  p.sequence_parallel = c.sequence_parallel;
  p.sharding = c.sharding;
  p.expert_tensor = c.expert_tensor > 0 ? c.expert_tensor : c.tensor;
  job.workload.micro_batch = c.micro_batch;
  job.memory.recompute = c.recompute;
  return std::holds_alternative<strategy::Plan>(strategy::resolve(job));
}

double BoundFitness::operator()(const Genome& genome) {
  // The sizes are checked first, since most points of a space fail there.
  bound::Candidate c;
  c.tensor = base_.parallelism.tensor;
  c.pipeline = base_.parallelism.pipeline;
  c.virtual_pipeline = base_.parallelism.virtual_pipeline;
  c.micro_batch = base_.workload.micro_batch;
  c.sequence_parallel = base_.parallelism.sequence_parallel;
  c.sharding = base_.parallelism.sharding;
  c.recompute = base_.memory.recompute;
  int context = base_.parallelism.context;
  int data = base_.parallelism.data.value_or(0);
  for (std::size_t d = 0; d < genome.size(); ++d) {
    const search::Dimension& dimension = request_.space.dimensions[d];
    const std::string& text = dimension.values[static_cast<std::size_t>(genome[d])];
    const auto number = [&] { return static_cast<int>(search::integer_of(dimension, text)); };
    if (dimension.key == "parallelism.tensor") {
      c.tensor = number();
    } else if (dimension.key == "parallelism.pipeline") {
      c.pipeline = number();
    } else if (dimension.key == "parallelism.virtual_pipeline") {
      c.virtual_pipeline = number();
    } else if (dimension.key == "parallelism.context") {
      context = number();
    } else if (dimension.key == "parallelism.data") {
      data = number();
    } else if (dimension.key == "workload.micro_batch") {
      c.micro_batch = number();
    } else if (dimension.key == "parallelism.sequence_parallel") {
      c.sequence_parallel = text == "true";
    } else if (dimension.key == "parallelism.sharding") {
      const auto sharding = parse<Sharding>(text);
      if (!sharding) {
        return kInfinity;
      }
      c.sharding = *sharding;
    } else if (dimension.key == "memory.recompute") {
      const auto [at, fresh] = recomputes_.try_emplace(text);
      if (fresh) {
        auto loaded = loader_({fmt::format("{}={}", dimension.key, text)});
        if (auto* job = std::get_if<job::Job>(&loaded)) {
          at->second = job->memory.recompute;
        }
      }
      if (!at->second) {
        return kInfinity;
      }
      c.recompute = *at->second;
    }
  }
  const int model_ranks = c.tensor * c.pipeline * context;
  const int ranks = base_.cluster.ranks();
  if (model_ranks <= 0 || (data > 0 ? model_ranks * data != ranks : ranks % model_ranks != 0)) {
    return kInfinity;
  }
  c.data = ranks / model_ranks;
  Family& family = family_of(genome);
  if (!family.bounds) {
    return kInfinity;
  }
  // Experts are sharded like the dense layers, unless the job says otherwise.
  const job::Parallelism& given = family.job.parallelism;
  const bool follows = given.expert_tensor == given.tensor && job::divides_experts(family.job);
  c.expert_tensor = follows ? 0 : given.expert_tensor;
  c.context = context;
  const bound::Result least = family.bounds->of.evaluate(c);
  if (!least.feasible || least.memory > family.bounds->capacity || !runs(family.job, c)) {
    return kInfinity;
  }
  return to_seconds(least.step) * search::per_second(request_.objective, family.job.cluster);
}

}  // namespace stepcast::automatic
