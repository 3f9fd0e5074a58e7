// The purposes of a mesh axis in jobs, where all operators use an axis for the same purpose.
#pragma once

#include <array>
#include <cstdint>

#include "splits.h"

namespace stepcast::automatic {

// A Role allows an operator only the splits that a job with that purpose runs (Megatron-LM's
// splits).
struct Role {
  enum class Use {
    any,       // each operator chooses by itself
    data,      // samples
    context,   // tokens of each sample; attention too
    ulysses,   // the same, but attention by heads (all-to-all around it)
    tensor,    // columns, rows, heads
    sequence,  // the same, with the other operators by tokens (sequence parallelism)
  };
  // How the matrix products of experts use the axis: split like other products, distributed so that
  // each rank has its own experts, or not split.
  enum class Experts { alike, spread, whole };
  Use use = Use::any;
  Experts experts = Experts::alike;
  bool operator==(const Role&) const = default;
};
using Roles = std::array<Role, 2>;

bool agrees(const model::Operator& op, Split split, const Role& role);

// The roles with which a split is compatible, as a bit set.
using RoleSet = std::uint32_t;
RoleSet roles_of(const model::Operator& op, Split split);
bool contains(RoleSet set, const Role& role);
// The roles with which a cut of the stream between layers is compatible.
RoleSet roles_of_stream(Split split);

}  // namespace stepcast::automatic
