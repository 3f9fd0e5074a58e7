#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "infeasible.h"
#include "layout.h"
#include "rules.h"
#include "stage_split.h"
#include "stepcast/hardware/hardware.h"
#include "stepcast/model/count.h"
#include "stepcast/strategy/plan.h"

namespace stepcast::strategy {
namespace {

using Contents = std::vector<StageContent>;
using Made = std::variant<Contents, Infeasible>;

Contents with_ends(const std::vector<int>& layers) {
  Contents out;
  for (const int n : layers) {
    out.push_back({n, 0, false, false});
  }
  out.front().embedding = true;
  out.back().head = true;
  return out;
}

Made from_layout(const job::Job& job, int stages) {
  auto parsed = parse_layout(job.parallelism.layout);
  if (std::holds_alternative<Infeasible>(parsed)) {
    return parsed;
  }
  auto& contents = std::get<Contents>(parsed);
  const char* key = "parallelism.layers_per_stage";
  if (static_cast<int>(contents.size()) != stages) {
    return infeasible(
        key, fmt::format("the layout has {} stages; expected {}", contents.size(), stages));
  }
  int layers = 0;
  int predictions = 0;
  for (const StageContent& c : contents) {
    if (predictions > 0 && c.layers > 0) {
      return infeasible(key, "the layout has a layer after m, a multi-token prediction layer");
    }
    layers += c.layers;
    predictions += c.predictions;
  }
  if (layers != job.model.layers) {
    return infeasible(
        key, fmt::format("the layout has {} layers; the model has {}", layers, job.model.layers));
  }
  if (predictions != job.model.mtp_layers) {
    return infeasible(
        key, fmt::format("the layout has {} multi-token prediction layers; the model has {}",
                         predictions, job.model.mtp_layers));
  }
  for (StageContent& c : contents) {
    c.layers += c.predictions;  // they are numbered behind the model's layers
  }
  return contents;
}

// Per virtual stage, or per pipeline rank and then divided evenly over its chunks.
Made from_list(const job::Job& job, schedule::Placement placement, int p, int chunks, int stages) {
  const char* key = "parallelism.layers_per_stage";
  const auto& given = job.parallelism.layers_per_stage;
  std::vector<int> out;
  if (static_cast<int>(given.size()) == stages) {
    out = given;
  } else if (static_cast<int>(given.size()) == p &&
             placement != schedule::Placement::bidirectional) {
    out.assign(static_cast<std::size_t>(stages), 0);
    for (int r = 0; r < p; ++r) {
      if (given[r] % chunks != 0) {
        return infeasible(key, fmt::format("{} layers of stage {} do not divide into {} chunks",
                                           given[r], r, chunks));
      }
      for (int c = 0; c < chunks; ++c) {
        out[schedule::stage_of(placement, p, r, c)] = given[r] / chunks;
      }
    }
  } else {
    return infeasible(key, fmt::format("{} entries for {} stages", given.size(), stages));
  }
  if (std::any_of(out.begin(), out.end(), [](int n) { return n < 0; })) {
    return infeasible(key, "a stage has a negative number of layers");
  }
  const int sum = std::accumulate(out.begin(), out.end(), 0);
  // Multi-token prediction layers sit on the last stage, whether the list counts them or not.
  if (sum == job.model.layers) {
    out.back() += job.model.mtp_layers;
  } else if (sum != model::layer_count(job.model)) {
    return infeasible(key,
                      fmt::format("adds up to {} layers; the model has {}", sum, job.model.layers));
  }
  return with_ends(out);
}

// Peak rate of each virtual stage's slowest device; empty where all are alike.
std::vector<double> rates_of(const job::Job& job, schedule::Placement placement, int chunks) {
  if (job.cluster.overrides.empty() || !data_ranks(job)) {
    return {};
  }
  const cluster::Grid grid = grid_of(job);
  std::vector<double> of_rank(static_cast<std::size_t>(grid.pipeline),
                              std::numeric_limits<double>::infinity());
  for (int r = 0; r < grid.ranks(); ++r) {
    double& rate = of_rank[static_cast<std::size_t>(cluster::coordinates(grid, r).pipeline)];
    rate = std::min(rate,
                    hardware::peak_of(hardware::device_at(job.cluster, r / job.cluster.node.gpus),
                                      job.workload.precision)
                        .count());
  }
  const auto [least, most] = std::minmax_element(of_rank.begin(), of_rank.end());
  if (!(*least > 0) || *least == *most) {
    return {};
  }
  std::vector<double> out(of_rank.size() * static_cast<std::size_t>(chunks));
  for (int r = 0; r < grid.pipeline; ++r) {
    for (int c = 0; c < chunks; ++c) {
      out[static_cast<std::size_t>(schedule::stage_of(placement, grid.pipeline, r, c))] =
          of_rank[static_cast<std::size_t>(r)];
    }
  }
  return out;
}

Made from_split(const job::Job& job, schedule::Placement placement, int chunks, int stages) {
  // Each stage of the other copy of the model stands on another rank, so rates say nothing of it.
  const bool two_copies = placement == schedule::Placement::bidirectional;
  auto split = split_layers(job, chunks, stages,
                            two_copies ? std::vector<double>() : rates_of(job, placement, chunks));
  if (auto* why = std::get_if<Infeasible>(&split)) {
    return *why;
  }
  return with_ends(std::get<std::vector<int>>(split));
}

}  // namespace

std::variant<std::vector<std::vector<Chunk>>, Infeasible> place_layers(
    const job::Job& job, schedule::Placement placement, int chunks) {
  const int p = job.parallelism.pipeline;
  const bool two_copies = placement == schedule::Placement::bidirectional;
  const int stages = two_copies ? p : p * chunks;
  auto made = !job.parallelism.layout.empty() ? from_layout(job, stages)
              : !job.parallelism.layers_per_stage.empty()
                  ? from_list(job, placement, p, chunks, stages)
                  : from_split(job, placement, two_copies ? 1 : chunks, stages);
  if (auto* why = std::get_if<Infeasible>(&made)) {
    return *why;
  }
  const auto& contents = std::get<Contents>(made);
  for (int s = 0; s < stages; ++s) {  // it would hand on what it gets: no framework places one
    if (contents[s].layers == 0 && !contents[s].embedding && !contents[s].head) {
      return infeasible(
          "parallelism.layers_per_stage",
          fmt::format("leaves stage {} of {} empty; expected a layer, the embedding or the output "
                      "layer on each",
                      s, stages));
    }
  }
  std::vector<Chunk> by_stage;
  int first = 0;
  for (int s = 0; s < stages; ++s) {
    const int end = first + contents[s].layers;
    if (job.model.mtp_repeated && first <= job.model.layers && job.model.layers < end &&
        end < model::layer_count(job.model)) {
      return infeasible("parallelism.layers_per_stage",
                        "the prediction layer, which is repeated, is on two stages; expected all "
                        "its runs on one");
    }
    by_stage.push_back({first, contents[s].layers, contents[s].embedding, contents[s].head, s});
    first += contents[s].layers;
  }
  std::vector<std::vector<Chunk>> out(static_cast<std::size_t>(p));
  for (int r = 0; r < p; ++r) {
    int ahead = 0;
    for (int c = 0; c < chunks; ++c) {
      out[r].push_back(by_stage[schedule::stage_of(placement, p, r, c)]);
      out[r].back().ahead = ahead;
      ahead += out[r].back().layers;
    }
  }
  return out;
}

}  // namespace stepcast::strategy
