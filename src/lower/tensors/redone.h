// Which operators of a unit's forward pass run again inside its backward pass, and which tensors
// are therefore not kept in between.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "stepcast/lower/unit_memory.h"
#include "stepcast/model/operators.h"
#include "stepcast/strategy/plan.h"

namespace stepcast::lower {

struct Redo {
  // again: the operator runs again, but its result stays where another operator saves it. dropped:
  // it runs again and its result is made again for all readers (Megatron-LM's
  // CheckpointWithoutOutput). kept: a policy has chosen the operator's result to stay, which is all
  // that the operator keeps.
  enum class Kind : std::uint8_t { no, again, dropped, kept } kind = Kind::no;
  // An operator may stand for several products: the share that runs again. 0: nothing reads its
  // result, since what a collective made of it stays, or its function stops ahead of it.
  double share = 1;
  // Functions that run again apart from each other: what one of them makes for another stays.
  int region = 0;
};

// By operator of the graph; empty: nothing runs again.
using Redone = std::vector<Redo>;

inline bool runs_again(const Redone& redone, std::size_t i) {
  return i < redone.size() &&
         (redone[i].kind == Redo::Kind::again || redone[i].kind == Redo::Kind::dropped);
}
// A policy chose operator by operator; results of collectives stay as well.
bool by_policy(const Redone& redone);

// torch.compile's partitioner runs no collective again that nobody marked (torch 2.15,
// _functorch/partitioners.py:2343): what was gathered stays.
inline bool keeps_collectives(const strategy::Plan& plan) {
  return plan.recompute.kind == RecomputeKind::per_op && plan.recompute.policy == "products" &&
         plan.style.compiled;
}

// Tensor ranks each have a part of the sequence of this product's sum.
bool scatters_result(const model::Shard& shard, const model::Operator& op);

// Whole units run again, all of them or some.
bool redoes_units(const strategy::Recompute& recompute);

// Operators of a unit, from the first on, that run when it runs again as a whole. Torch's
// checkpoint without reentrance stops once every tensor that the backward pass needs is there
// again: before the last operator that saves any, a product, runs (torch/utils/checkpoint.py:
// early_stop).
std::size_t operators_again(const strategy::Recompute& recompute,
                            const model::OperatorGraph& graph);

// The operators of a layer that a plan's recomputation runs again, a prediction layer's where
// others do so as whole units; empty: none, or the whole unit.
Redone redone_of(const strategy::Plan& plan, const model::OperatorGraph& graph);

// The operator that makes a saved tensor; nothing where the unit reads it from outside.
std::optional<std::size_t> maker_of(const model::OperatorGraph& graph, std::uint32_t storage);

// Storages that are made again instead of kept.
std::set<std::uint32_t> made_again(const model::OperatorGraph& graph, const Redone& redone);

// Whether the backward pass reads an operator's result, or something that is made again of it.
bool read_backward(const model::OperatorGraph& graph, const Redone& redone, std::size_t i);

// What is kept so that operators can run again although no operator saves it: results that only
// they read, and those that a policy keeps.
std::vector<HeldTensor> kept_to_redo(const model::OperatorGraph& graph, const Redone& redone);

// Operators that run again together, in order, and the operator before whose backward pass they do:
// the first, in the order of the backward pass, that needs one of their results.
struct Replay {
  std::vector<std::size_t> operators;
  std::size_t before = 0;
};
std::vector<Replay> replays(const model::OperatorGraph& graph, const Redone& redone);

}  // namespace stepcast::lower
