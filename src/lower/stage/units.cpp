// The units of a stage: its layers, embedding and head, each kind priced once.
#include "units.h"

#include <algorithm>
#include <map>
#include <utility>

#include "../data/parameter_formats.h"
#include "../data/table_gradients.h"
#include "../pipeline/vocabulary.h"
#include "../tensors/first_time.h"
#include "feature.h"

namespace stepcast::lower {

using schedule::Pass;
using schedule::Slot;

void make_units(Stage& stage) {
  const bool split = stage.plan.order.barriers > 0;  // the vocabulary's rows are with all stages
  const auto& chunks = stage.plan.stages[stage.number];
  std::map<model::LayerKind, std::pair<const Passes*, const Passes*>> layers;  // and of whole ones
  const bool some_whole = stage.plan.recompute.whole_micro_batches > 0;
  stage.units.resize(chunks.size());
  stage.gradients.tables.resize(chunks.size());
  for (std::size_t c = 0; c < chunks.size(); ++c) {
    auto& units = stage.units[c];
    Passes* embedding = nullptr;
    if (chunks[c].embedding) {
      embedding = &add_passes(
          stage, split ? without_vocabulary(*stage.context.embedding) : *stage.context.embedding,
          {});
      units.push_back({Unit::Kind::embedding, static_cast<int>(c), -1, embedding, false, false});
    }
    for (int n = 0; n < chunks[c].layers; ++n) {
      const int layer = chunks[c].first_layer + n;
      const model::LayerKind kind = model::layer_kind(stage.plan.model, layer);
      auto& [passes, whole] = layers[kind];
      if (passes == nullptr) {
        const model::OperatorGraph& graph = stage.context.layers->at(kind);
        const Redone redone = redone_of(stage.plan, graph);
        Passes& of_layer = add_passes(stage, graph, redone);
        add_first_time(stage.context.passes, kind, redone, of_layer.memory);
        passes = whole = &of_layer;
        if (some_whole && !redone.empty()) {
          whole = &add_passes(stage, graph, {});
        }
      }
      units.push_back(
          {Unit::Kind::layer, static_cast<int>(c), layer, passes, false, false, {}, whole});
    }
    if (chunks[c].head) {
      const model::OperatorGraph graph =
          split ? without_vocabulary(*stage.context.head) : *stage.context.head;
      Passes& passes = add_passes(stage, graph, {});
      if (shares_table(stage)) {
        const std::int64_t table =
            stage.plan.vocab / stage.plan.grid.tensor * stage.plan.model.hidden;
        if (stage.plan.style.finetune.kind != FinetuneKind::none) {
          passes.parameters.frozen_bytes -= static_cast<std::int64_t>(
              static_cast<double>(table) * frozen_width(stage.plan, false));
          passes.parameters.gathered_frozen -= static_cast<std::int64_t>(
              static_cast<double>(table) * bytes_per_element(stage.plan.style.dtype));
        } else {
          passes.parameters.trained.dense -= table;
        }
        // The projection's module still reads the table (fetch_trace.cpp).
        for (auto* arrays : {&passes.arrays, &passes.modules.with_frozen}) {
          std::erase_if(*arrays, [&](const Array& a) { return a.elements == table; });
        }
        if (chunks[c].embedding) {
          stage.gradients.tables[c] = part_table_gradients(stage.plan, passes, *embedding);
        }
      }
      units.push_back({Unit::Kind::head, static_cast<int>(c), -1, &passes, false, false});
    }
  }
  each<&Feature::make_units>(stage);
  stage.passes.kept.resize(stage.units.size());
  for (std::size_t c = 0; c < stage.units.size(); ++c) {
    stage.passes.kept[c].assign(stage.units[c].size(), std::vector<Kept>(stage.plan.micro_batches));
    for (const Unit& u : stage.units[c]) {
      stage.parameters.trained += u.passes->parameters.trained;
      stage.parameters.frozen_bytes += u.passes->parameters.frozen_bytes;
      stage.parameters.frozen_experts += u.passes->parameters.frozen_experts;
      stage.parameters.gathered_frozen += u.passes->parameters.gathered_frozen;
      stage.parameters.gathered_frozen_experts += u.passes->parameters.gathered_frozen_experts;
      stage.parameters.whole_frozen += u.passes->parameters.whole_frozen;
      stage.parameters.replicated += u.passes->parameters.replicated;
    }
  }
}

void count_passes(Stage& stage) {
  const auto& slots = slots_of(stage);
  stage.passes.turns.assign(stage.units.size(), {});
  for (const Slot& slot : slots) {
    Turns& t = stage.passes.turns[slot.chunk];
    const bool weights = slot.pass == Pass::weight_grad || slot.pass == Pass::backward;
    t.backwards += weights ? 1 : 0;
    stage.passes.splits = stage.passes.splits || slot.pass == Pass::input_grad;
  }
}

}  // namespace stepcast::lower
