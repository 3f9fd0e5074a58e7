#include "stage_split.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>

#include "infeasible.h"
#include "stepcast/model/count.h"

namespace stepcast::strategy {
namespace {

using Layers = std::vector<int>;
using Split = std::variant<Layers, Infeasible>;

constexpr const char* kKey = "parallelism.layers_per_stage";

Infeasible does_not_divide(const job::Parallelism& p, int layers, int stages) {
  return infeasible(
      p.virtual_pipeline > 1 ? "parallelism.virtual_pipeline" : "parallelism.pipeline",
      fmt::format("{} layers do not divide into {} stages; give layers_per_stage or another size",
                  layers, stages));
}

// Numbers of layers that differ by one at most; `from`: the first of the stages that have one more.
Layers nearly_equal(int layers, int stages, int from) {
  Layers out(static_cast<std::size_t>(stages), layers / stages);
  for (int s = from; s < from + layers % stages; ++s) {
    ++out[s];
  }
  return out;
}

// Frameworks that count layers: Megatron-LM (core 0.16.1, transformer/transformer_block.py:140)
// refuses a remainder, torchtitan (0.1.0 distributed/pipeline.py:27, 0.3.0
// distributed/pipeline_parallel.py) and DeepSpeed's "uniform" (0.19.8 runtime/utils.py:606) give it
// to the first stages, Colossal-AI to the middle (0.5.0 pipeline/stage_manager.py:212).
Split by_number(const job::Job& job, int stages) {
  const job::Parallelism& p = job.parallelism;
  const int first = p.embedding_as_layer ? 1 : 0;
  const int last = p.loss_as_layer ? 1 : 0;
  const int layers = job.model.layers + first + last;
  const int rest = layers % stages;
  if (p.split == StageSplit::even && rest != 0) {
    return does_not_divide(p, layers, stages);
  }
  if (layers < stages) {
    return infeasible(kKey, fmt::format("{} layers are fewer than {} stages", layers, stages));
  }
  const int from = p.split == StageSplit::remainder_last     ? stages - rest
                   : p.split == StageSplit::remainder_middle ? stages / 2 - rest / 2
                                                             : 0;
  Layers out = nearly_equal(layers, stages, from);
  out.front() -= first;
  out.back() -= last;
  return out;
}

// InternEvo (0.4.9, solver/pipeline_utils.py:9): each chunk's share of the layers over the ranks by
// itself.
Split chunk_by_chunk(const job::Job& job, int chunks, int stages) {
  const int ranks = stages / chunks;
  if (job.parallelism.embedding_as_layer || job.parallelism.loss_as_layer || chunks == 1) {
    return by_number(job, stages);
  }
  const int share = job.model.layers / chunks;
  if (job.model.layers % chunks != 0) {
    return does_not_divide(job.parallelism, job.model.layers, chunks);
  }
  if (share < ranks) {
    return infeasible(kKey, fmt::format("{} layers are fewer than {} stages", share, ranks));
  }
  const Layers one = nearly_equal(share, ranks, ranks - share % ranks);
  Layers out;
  for (int c = 0; c < chunks; ++c) {
    out.insert(out.end(), one.begin(), one.end());
  }
  return out;
}

// DeepSpeed's partition_method (0.19.8, runtime/pipe/module.py:391): "type:transformer" counts
// layers ("type:transformer|embedding" the two ends as well), "parameters" what is trained.
Split balanced(const job::Job& job, int stages) {
  const job::Parallelism& p = job.parallelism;
  const int layers = job.model.layers;
  constexpr double kMostSteps = 2e9;  // of the dynamic program: some seconds
  if (static_cast<double>(layers) * layers * stages > kMostSteps) {
    return infeasible(kKey, fmt::format("{} layers on {} stages take too long to balance; give a "
                                        "list of layer counts",
                                        layers, stages));
  }
  std::vector<double> weights(static_cast<std::size_t>(layers) + 2, 1.0);
  if (p.split == StageSplit::balanced_parameters) {
    const double table =
        static_cast<double>(job.model.vocab) * static_cast<double>(job.model.hidden);
    for (int n = 0; n < layers; ++n) {
      weights[n + 1] = static_cast<double>(model::layer_parameters(job.model, n));
    }
    weights.front() = weights.back() = table;  // a tied table is a layer at both ends
  } else {
    weights.front() = p.embedding_as_layer ? 1 : 0;
    weights.back() = p.loss_as_layer ? 1 : 0;
  }
  const std::vector<int> begins = partition_balanced(weights, stages);
  Layers out;
  for (int s = 0; s < stages; ++s) {
    out.push_back(begins[s + 1] - begins[s]);
  }
  --out.front();
  --out.back();
  if (out.front() < 0 || out.back() < 0 || begins[stages - 1] == static_cast<int>(weights.size())) {
    return infeasible(kKey, "balancing leaves a stage empty; expected fewer stages");
  }
  return out;
}

// The output layer's work as a number of layers: by FLOPs with the whole square of attention, as
// the authors of 1F1B with redistributed layers count them (2411.05288, table 4: 6 V h a token over
// 72 h^2 + 12 s h for a layer of 12 h^2 parameters).
double head_in_layers(const job::Job& job) {
  const job::Model& m = job.model;
  const model::Parameters count = model::count_parameters(m);
  const auto layers =
      static_cast<double>(count.total - count.embedding - count.head - count.final_norm);
  const double scores = 2 * static_cast<double>(job.workload.sequence_length) *
                        static_cast<double>(m.heads) * static_cast<double>(m.head_dim);
  const double layer = layers / model::layer_count(m) + scores;
  return layers > 0 ? static_cast<double>(m.vocab) * static_cast<double>(m.hidden) / layer : 0;
}

// The stage with the output layer takes what that leaves of an equal share of all work, rounded up:
// column layers_last of artifact/exp_one_host.csv (sail-sg/VocabularyParallelism @6191c3bf), 32
// layers on 8 stages with an output layer of 0.71 to 6.25 layers: 4, 4, 3, 2, 2, 0.
Layers redistributed(const job::Job& job, int stages) {
  const double head = head_in_layers(job) + job.model.mtp_layers;
  const int layers = job.model.layers;
  if (stages == 1) {
    return {layers};
  }
  const double left = std::ceil((layers + head) / stages - head);
  const int last = std::clamp(static_cast<int>(left), 0, std::max(0, layers - (stages - 1)));
  const int others = stages - 1;
  const int rest = layers - last;
  // Later stages take the larger shares, since the first ones hold most micro-batches in flight.
  Layers out = nearly_equal(rest, others, others - rest % others);
  out.push_back(last);
  return out;
}

// Where stages stand on unlike devices, each layer goes to the stage that it leaves
// shortest, which makes the longest as short as possible, since layers are alike; among equal ones
// to the later stage.
Layers redistributed_by_rate(const job::Job& job, const std::vector<double>& rates) {
  const std::size_t stages = rates.size();
  std::vector<double> work(stages, 0);  // in layers
  work.back() = head_in_layers(job) + job.model.mtp_layers;
  Layers out(stages, 0);
  for (int n = 0; n < job.model.layers; ++n) {
    std::size_t best = 0;
    for (std::size_t s = 1; s < stages; ++s) {
      best = (work[s] + 1) / rates[s] <= (work[best] + 1) / rates[best] ? s : best;
    }
    work[best] += 1;
    ++out[best];
  }
  return out;
}

// nanotron (0.4, models/base.py:181 and models/llama.py:775): each block goes to the stage that is
// open, and closes it when the products up to it are more than the stages' share so far. A layer
// has 4 heads x head_dim x hidden + 3 ffn x hidden of them, the output layer vocab x hidden.
Layers cumulative(const job::Job& job, int stages) {
  const job::Model& m = job.model;
  const auto hidden = static_cast<double>(m.hidden);
  const double layer = (4 * static_cast<double>(m.heads) * static_cast<double>(m.head_dim) +
                        3 * static_cast<double>(m.ffn)) *
                       hidden;
  const double all = m.layers * layer + static_cast<double>(m.vocab) * hidden;
  Layers out(static_cast<std::size_t>(stages), 0);
  int stage = 0;
  for (int n = 0; n < m.layers; ++n) {
    ++out[stage];
    if ((n + 1) * layer > all * (stage + 1.0) / stages) {
      ++stage;
    }
  }
  // An output layer that closes a stage before the last leaves the loss alone on the next, and
  // those behind it empty. Its units are not parted here: it shares the last stage with the loss.
  return stage == stages - 1 ? out : redistributed(job, stages);
}

}  // namespace

std::vector<int> partition_balanced(const std::vector<double>& weights, int parts) {
  const int n = static_cast<int>(weights.size());
  std::vector<int> out;
  if (n <= parts) {
    for (int p = 0; p <= parts; ++p) {
      out.push_back(std::min(p, n));
    }
    return out;
  }
  constexpr double kNone = std::numeric_limits<double>::infinity();
  struct Best {
    double largest = kNone;
    double smallest = kNone;
    double cost = kNone;
    int begin = 0;
  };
  std::vector<double> sum(static_cast<std::size_t>(n) + 1, 0);
  std::partial_sum(weights.begin(), weights.end(), sum.begin() + 1);
  std::vector<std::vector<Best>> best(static_cast<std::size_t>(n) + 1,
                                      std::vector<Best>(static_cast<std::size_t>(parts) + 1));
  best[0][0].largest = best[0][0].cost = 0;
  for (int i = 1; i <= n; ++i) {
    for (int j = 1; j <= std::min(i, parts); ++j) {
      Best& mine = best[i][j];
      for (int k = 0; k < i; ++k) {
        const double largest = std::max(best[k][j - 1].largest, sum[i] - sum[k]);
        const double smallest = std::min(best[k][j - 1].smallest, sum[i] - sum[k]);
        // Where no such parts exist, both are infinite and the difference is not a number.
        if (const double cost = largest - smallest; mine.cost >= cost) {
          mine = {largest, smallest, cost, k};
        }
      }
    }
  }
  out.assign(static_cast<std::size_t>(parts) + 1, n);
  for (int j = parts; j >= 1; --j) {
    out[j - 1] = best[out[j]][j].begin;
  }
  return out;
}

Split split_layers(const job::Job& job, int chunks, int stages, const std::vector<double>& rates) {
  const int predictions = job.model.mtp_layers;
  Split out = [&]() -> Split {
    switch (job.parallelism.split) {
      case StageSplit::redistribute:
        return rates.empty() ? redistributed(job, stages) : redistributed_by_rate(job, rates);
      case StageSplit::cumulative:
        return cumulative(job, stages);
      case StageSplit::balanced:
      case StageSplit::balanced_parameters:
        return balanced(job, stages);
      case StageSplit::remainder_last:
        return chunk_by_chunk(job, chunks, stages);
      default:
        return by_number(job, stages);
    }
  }();
  if (auto* layers = std::get_if<Layers>(&out)) {
    layers->back() += predictions;
  }
  return out;
}

}  // namespace stepcast::strategy
