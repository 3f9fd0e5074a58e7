// What a rank of context parallelism computes and sends of one attention operator, by kind.
#pragma once

#include <cstdint>
#include <vector>

#include "stepcast/model/operators.h"
#include "stepcast/strategy/plan.h"

namespace stepcast::lower {

struct ContextShape {
  int inner = 1;  // ranks of the all-to-all that trades sequence for heads
  int outer = 1;  // ranks of the ring, or of the gather
  bool gathers = false;
  bool in_steps = false;  // a step for each rank's keys although they may be gathered
  bool balanced = true;   // causal attention: rank i has chunks i and 2 outer - 1 - i
  // After the all-to-all: queries of 1 / outer of the sequence, all keys.
  model::AttentionShape whole;
  // Of this rank's own tokens, before the all-to-all. Where key-value heads are fewer than inner
  // ranks, each rank's head has a copy of its own.
  std::int64_t query_bytes = 0;
  std::int64_t key_bytes = 0;
  std::int64_t value_bytes = 0;
  std::int64_t output_bytes = 0;
  std::int64_t ring_bytes = 0;  // keys and values of one ring rank, after the all-to-all
};

ContextShape context_shape(const strategy::Plan& plan, const model::AttentionShape& shape,
                           double width);

// One step of attention. Ranks compute as much as each other in different shapes: a step's time is
// the mean over `shapes`.
struct ContextStep {
  std::vector<model::AttentionShape> shapes;
  double queries = 1;  // share of the rank's queries whose results change
};

// The steps of the ring, the rank's own keys first, on a rank for which the others wait. Where keys
// are gathered: the kernels that are launched side by side.
std::vector<ContextStep> context_steps(const ContextShape& context,
                                       const std::vector<std::int64_t>& documents);

}  // namespace stepcast::lower
