// What an axis of a mesh is for, as jobs have it: one purpose for all operators.
#pragma once

#include <array>
#include <cstdint>

#include "splits.h"

namespace stepcast::automatic {

// A Role leaves an operator the splits that a job with that purpose runs (Megatron-LM's cuts).
struct Role {
  enum class Use {
    any,       // each operator by itself
    data,      // samples
    context,   // tokens of each sample; attention too
    ulysses,   // the same, but attention by heads (all-to-all around it)
    tensor,    // columns, rows, heads
    sequence,  // the same, with the other operators by tokens (sequence parallelism)
  };
  // How experts' products use the axis: cut as other products are, each rank its own experts, or
  // not at all.
  enum class Experts { alike, spread, whole };
  Use use = Use::any;
  Experts experts = Experts::alike;
  bool operator==(const Role&) const = default;
};
using Roles = std::array<Role, 2>;

bool agrees(const model::Operator& op, Split split, const Role& role);

// The set of roles that a split agrees with.
using RoleSet = std::uint32_t;
RoleSet roles_of(const model::Operator& op, Split split);
bool contains(RoleSet set, const Role& role);
// The roles that a cut of the stream between layers agrees with.
RoleSet roles_of_stream(Split split);

}  // namespace stepcast::automatic
