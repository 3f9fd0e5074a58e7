// Finds the job nearest to a strategy of the graph. A job splits all stages alike and uses each
// axis for one purpose.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "plans.h"
#include "stepcast/terms/parallelism.h"

namespace stepcast::automatic {
namespace {

// The purpose of an axis of a stage's mesh: how most of its work is split.
enum class Use { none, data, tensor, context };

Use use_of(Split s) {
  switch (s) {
    case Split::batch:
    case Split::dispatch_batch:
    case Split::combine_batch:
      return Use::data;
    case Split::sequence:
    case Split::dispatch_sequence:
    case Split::combine_sequence:
      return Use::context;
    case Split::column:
    case Split::column_gather:
    case Split::row:
    case Split::row_scatter:
    case Split::feature:
      return Use::tensor;
    case Split::replicate:
    case Split::expert:
      return Use::none;
  }
  return Use::none;
}

// The degrees for which a stage votes, weighted by its share of the model's work.
struct VotedDegrees {
  int tensor = 1, context = 1, expert = 1;
  bool sequence_parallel = false;
  auto operator<=>(const VotedDegrees&) const = default;
};

struct Votes {
  std::map<VotedDegrees, double> degrees;
  std::map<job::Sharding, double> shardings;
  double unlike = 0;  // share of the products that are not split according to their stage's degrees
  double all = 0;
};

void count(const GraphStage& stage, Votes& votes) {
  std::array<std::map<Use, double>, 2> uses;
  double scattered = 0, tensor = 0;
  std::array<double, 2> experts{}, expert_work{};
  double work = 0;
  for (std::size_t i = 0; i < stage.meanings.size(); ++i) {
    const Meaning& m = stage.meanings[i];
    const Option& o = m.options[static_cast<std::size_t>(stage.choice[i])];
    votes.shardings[o.sharding] += m.parameters;
    if (m.flops <= 0) {
      continue;
    }
    work += m.flops;
    for (std::size_t a = 0; a < 2; ++a) {
      if (m.kind == model::OpKind::grouped_gemm) {
        expert_work[a] += m.flops;
        experts[a] += o.splits[a] == Split::expert ? m.flops : 0;
        continue;  // the layer's other operators decide the purpose of the axis
      }
      uses[a][use_of(o.splits[a])] += m.flops;
      tensor += use_of(o.splits[a]) == Use::tensor ? m.flops : 0;
      scattered +=
          o.splits[a] == Split::column_gather || o.splits[a] == Split::row_scatter ? m.flops : 0;
    }
  }
  VotedDegrees d;
  for (std::size_t a = 0; a < 2; ++a) {
    const int ranks = stage.view.ranks[a];
    if (ranks == 1 || uses[a].empty()) {
      continue;
    }
    const auto most = std::max_element(uses[a].begin(), uses[a].end(),
                                       [](auto& x, auto& y) { return x.second < y.second; });
    d.tensor *= most->first == Use::tensor ? ranks : 1;
    d.context *= most->first == Use::context ? ranks : 1;
    d.expert *= 2 * experts[a] > expert_work[a] ? ranks : 1;
    for (const auto& [use, amount] : uses[a]) {
      votes.unlike += use == most->first ? 0 : amount;
      votes.all += amount;
    }
  }
  d.sequence_parallel = d.tensor > 1 && 2 * scattered > tensor;
  votes.degrees[d] += work;
}

template <class K>
K most(const std::map<K, double>& votes) {
  K out{};
  double largest = -1;
  for (const auto& [of, amount] : votes) {
    if (amount > largest) {
      out = of;
      largest = amount;
    }
  }
  return out;
}

}  // namespace

Represented represent(const job::Job& job, const GraphPlan& plan) {
  Represented out;
  Votes votes;
  for (const GraphStage& s : plan.stages) {
    count(s, votes);
  }
  const VotedDegrees d = most(votes.degrees);
  if (votes.degrees.size() > 1) {
    out.losses.push_back(fmt::format("stages are cut in {} different ways", votes.degrees.size()));
  }
  if (votes.unlike > 0.01 * votes.all) {
    out.losses.push_back(fmt::format("{:.0f} % of the products are cut differently",
                                     100 * votes.unlike / votes.all));
  }
  const int ranks = job.cluster.ranks();
  int pipeline = static_cast<int>(plan.stages.size());
  while (ranks % (d.tensor * d.context * pipeline) != 0) {
    --pipeline;
  }
  if (pipeline != static_cast<int>(plan.stages.size())) {
    out.losses.push_back(fmt::format("{} stages become {}", plan.stages.size(), pipeline));
  }
  const int data = ranks / (d.tensor * d.context * pipeline);
  const std::int64_t at_once = job.workload.global_batch / plan.micro_batches;
  const std::int64_t micro_batch = std::max<std::int64_t>(1, at_once / data);
  if (micro_batch * data != at_once) {
    out.losses.push_back(fmt::format("micro-batches of {} samples over {} ranks become {}", at_once,
                                     data, micro_batch));
  }
  const auto set = [&](const char* key, const std::string& value) {
    out.overrides.push_back(fmt::format("{}={}", key, value));
  };
  set("parallelism.tensor", std::to_string(d.tensor));
  set("parallelism.pipeline", std::to_string(pipeline));
  set("parallelism.virtual_pipeline", "1");
  set("parallelism.context", std::to_string(d.context));
  set("parallelism.sequence_parallel", d.sequence_parallel ? "true" : "false");
  if (job.model.moe) {
    set("parallelism.expert", std::to_string(d.expert));
    set("parallelism.expert_tensor", "1");
  }
  set("parallelism.sharding", to_string(most(votes.shardings)));
  set("workload.micro_batch", std::to_string(micro_batch));
  constexpr const char* kRedo[] = {"none", "selective", "full"};
  set("memory.recompute", kRedo[static_cast<int>(plan.redo)]);
  // Layers of uneven stages, if all stages have the same number of devices.
  std::string layers;
  bool even = true;
  for (const GraphStage& s : plan.stages) {
    layers += fmt::format("{}{}", layers.empty() ? "" : ", ", s.layers);
    even = even && s.layers == plan.stages.front().layers;
  }
  const bool alike = std::all_of(plan.stages.begin(), plan.stages.end(), [&](const GraphStage& s) {
    return s.view.devices() == plan.stages.front().view.devices();
  });
  if (!alike) {
    out.losses.push_back("stages of different sizes become equal");
  } else if (!even && pipeline == static_cast<int>(plan.stages.size())) {
    set("parallelism.layers_per_stage", "[" + layers + "]");
  }
  return out;
}

}  // namespace stepcast::automatic
