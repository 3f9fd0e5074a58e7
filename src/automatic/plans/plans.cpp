#include "plans.h"

#include <algorithm>

#include "stepcast/model/operators.h"

namespace stepcast::automatic {

Setting setting_of(const Frame& frame, int micro_batches, Redo redo) {
  Setting out;
  out.micro_batches = micro_batches;
  out.redo = redo;
  out.shardings = frame.shardings;
  out.reserve = frame.reserve;
  out.all_in_flight = frame.all_in_flight;
  out.virtual_stages = frame.virtual_stages;
  return out;
}

Setting setting_of(const Frame& frame, const Form& form) {
  Setting out = setting_of(frame, form.micro_batches, form.redo);
  out.shardings = {form.sharding};
  out.layers_at = frame.layers_at;
  out.virtual_stages = form.virtual_stages;
  out.stages = form.stages;
  out.form = true;
  out.view = form.view;
  out.roles = form.roles;
  return out;
}

StageAsk stage_ask(const Setting& s, int first_layer, int layers, int all_layers, const View& view,
                   int later) {
  StageAsk ask;
  ask.first_layer = first_layer;
  ask.layers = layers;
  ask.embedding = first_layer == 0;
  ask.head = first_layer + layers == all_layers;
  ask.view = view;
  ask.micro_batches = s.micro_batches;
  int in_flight = later + 1;
  if (s.virtual_stages > 1 && s.stages > 1) {
    // Number of chunks whose forward pass runs before the first backward pass (Megatron-LM's
    // interleaved 1F1B), converted to whole stages.
    const int chunks = 2 * later + (s.virtual_stages - 1) * s.stages + 1;
    in_flight = (chunks + s.virtual_stages - 1) / s.virtual_stages;
  }
  ask.in_flight = s.all_in_flight ? s.micro_batches : std::min(in_flight, s.micro_batches);
  ask.redo = s.redo;
  ask.shardings = s.shardings;
  ask.roles = s.roles;
  ask.reserve = s.reserve;
  return ask;
}

std::string content_of(const job::Model& model, const StageAsk& ask) {
  std::string out = ask.embedding ? "e" : "";
  const auto kinds = model::layer_kinds(model);
  if (kinds.size() == 1) {
    out += std::to_string(ask.layers);
  } else {
    for (int l = 0; l < ask.layers; ++l) {
      const auto kind = model::layer_kind(model, ask.first_layer + l);
      out += static_cast<char>('0' + (std::find(kinds.begin(), kinds.end(), kind) - kinds.begin()));
    }
  }
  return out + (ask.head ? "h" : "");
}

bool holds(const Setting& s, const StageAsk& ask, int later) {
  const int end = ask.first_layer + ask.layers;
  return std::all_of(s.layers_at.begin(), s.layers_at.end(), [&](const LayersAt& at) {
    return s.stages - 1 - later == at.stage ? ask.first_layer <= at.first && at.last < end
                                            : at.last < ask.first_layer || at.first >= end;
  });
}

GraphStage stage_of(GraphModel& model, const StageAsk& ask, const std::vector<int>& choice) {
  StageGraph g = model.stage(ask);
  GraphStage out;
  out.first_layer = ask.first_layer;
  out.layers = ask.layers;
  out.view = ask.view;
  out.time = cost_of(g.problem, choice);
  out.memory = memory_of(g.problem, choice);
  for (std::size_t i = 0; i < choice.size(); ++i) {
    const Option& o = g.meanings[i].options[static_cast<std::size_t>(choice[i])];
    out.compute += o.compute;
    out.recompute += o.recompute;
  }
  out.meanings = std::move(g.meanings);
  out.choice = choice;
  return out;
}

int most_stages(const StageSearch& search, int micro_batches) {
  return search.most_bubble < 1
             ? 1 + static_cast<int>(search.most_bubble / (1 - search.most_bubble) * micro_batches)
             : std::numeric_limits<int>::max();
}

std::vector<View> views_of(const job::Job& job, int devices) {
  std::vector<View> out;
  const int node = std::min(job.cluster.node.gpus, devices);
  for (int columns = 1; columns <= node; columns *= 2) {
    if (devices % columns == 0) {
      out.push_back({{devices / columns, columns}});
    }
  }
  return out;
}

std::vector<int> counts_of_micro_batches(const job::Job& job, const Frame& frame) {
  std::vector<int> out;
  for (const std::int64_t each : frame.micro_batches) {
    for (int data = 1; data <= job.cluster.ranks(); ++data) {
      const std::int64_t at_once = each * data;
      if (job.cluster.ranks() % data == 0 && job.workload.global_batch % at_once == 0) {
        out.push_back(static_cast<int>(job.workload.global_batch / at_once));
      }
    }
  }
  std::sort(out.begin(), out.end(), std::greater<>());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  const auto& asked = frame.counts_of_micro_batches;
  if (!asked.empty()) {
    std::erase_if(out,
                  [&](int n) { return std::find(asked.begin(), asked.end(), n) == asked.end(); });
  }
  return out;
}

}  // namespace stepcast::automatic
