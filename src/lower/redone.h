// What of a unit's forward pass runs again inside its backward pass, operator by operator, and what
// is therefore not kept in between.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "stepcast/model/operators.h"
#include "stepcast/strategy/plan.h"

namespace stepcast::lower {

struct Redo {
  // again: what other operators keep of the result stays. dropped: the result is made again for
  // them as well (Megatron-LM's CheckpointWithoutOutput). kept: under a policy that chooses
  // operators whose results stay, one of those; it keeps its result and nothing else.
  enum class Kind : std::uint8_t { no, again, dropped, kept } kind = Kind::no;
  double share = 1;  // of the products that one operator stands for, those that run again
};

// By operator of the graph; empty: nothing runs again.
using Redone = std::vector<Redo>;

inline bool runs_again(const Redone& redone, std::size_t i) {
  return i < redone.size() &&
         (redone[i].kind == Redo::Kind::again || redone[i].kind == Redo::Kind::dropped);
}
// Chosen operator by operator: results of collectives stay as well.
bool by_policy(const Redone& redone);

// Whole units run again, all of them or some.
bool redoes_units(const strategy::Recompute& recompute);

// What a plan's recomputation redoes of a layer operator by operator; empty: nothing, or whole
// units.
Redone redone_of(const strategy::Plan& plan, const model::OperatorGraph& graph);

// The operator that makes a saved tensor; nothing where the unit reads it from outside.
std::optional<std::size_t> maker_of(const model::OperatorGraph& graph, std::uint32_t storage);

// Storages that are made again instead of kept.
std::set<std::uint32_t> made_again(const model::OperatorGraph& graph, const Redone& redone);

// Bytes that are kept so that operators can run again although no operator saves them: results
// that only they read, and those that a policy keeps.
std::int64_t kept_to_redo(const model::OperatorGraph& graph, const Redone& redone);

// What runs again together, in order, and the operator before whose backward it does: the first, in
// the order of the backward pass, that needs anything of it.
struct Replay {
  std::vector<std::size_t> operators;
  std::size_t before = 0;
};
std::vector<Replay> replays(const model::OperatorGraph& graph, const Redone& redone);

}  // namespace stepcast::lower
