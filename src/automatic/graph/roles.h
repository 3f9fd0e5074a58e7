// What an axis of a mesh is for, as jobs have it: one purpose for all operators.
#pragma once

#include <array>
#include <cstdint>

#include "splits.h"

namespace stepcast::automatic {

// A Role leaves an operator those splits that a job of that purpose runs (Megatron-LM's cuts).
struct Role {
  enum class Use {
    any,       // each operator by itself
    data,      // samples
    context,   // tokens of each sample; attention too
    ulysses,   // the same, but attention by heads (all-to-all around it)
    tensor,    // columns, rows, heads
    sequence,  // the same, with the other operators by tokens (sequence parallelism)
  };
  // Of experts' products: cut by the axis as others are; each rank its own; or left alone.
  enum class Experts { alike, spread, whole };
  Use use = Use::any;
  Experts experts = Experts::alike;
  bool operator==(const Role&) const = default;
};
using Roles = std::array<Role, 2>;

bool agrees(const model::Operator& op, Split split, const Role& role);

// A set of roles: those that a split agrees with.
using RoleSet = std::uint32_t;
RoleSet roles_of(const model::Operator& op, Split split);
bool contains(RoleSet set, const Role& role);
// Those of the stream between layers.
RoleSet roles_of_stream(Split split);

}  // namespace stepcast::automatic
