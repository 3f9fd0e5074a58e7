// Parameters of a model by its operator graphs, beside the closed forms.
#pragma once

#include "catch.hpp"
#include "stepcast/model/count.h"
#include "stepcast/model/operators.h"
#include "stepcast/strategy/rules.h"

namespace stepcast {

inline std::int64_t parameters(const model::OperatorGraph& g) {
  if (g.kind.repeats) {
    return 0;
  }
  std::int64_t sum = 0;
  for (const auto& op : g.operators) {
    sum += op.parameters;
  }
  return sum;
}

inline std::int64_t parameters_of_graphs(const job::Model& m) {
  model::Shard one;
  one.sequence_length = 128;
  const model::Style style;
  REQUIRE_FALSE(strategy::shard_fault(m, one));
  std::int64_t sum = parameters(model::build_embedding(m, one, style)) +
                     parameters(model::build_head(m, one, style));
  for (int i = 0; i < model::layer_count(m); ++i) {
    sum += parameters(model::build_layer(m, model::layer_kind(m, i), one, style));
  }
  return m.tied_embeddings ? sum - m.vocab * m.hidden : sum;
}

}  // namespace stepcast
