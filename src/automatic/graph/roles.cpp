#include "roles.h"

#include <algorithm>
#include <vector>

namespace stepcast::automatic {
namespace {

using model::ExpertRole;
using model::Module;
using model::Operator;
using model::OpKind;
using model::TensorRole;
using Use = Role::Use;
using Experts = Role::Experts;

constexpr std::array kUses = {Use::data, Use::context, Use::ulysses, Use::tensor, Use::sequence};
constexpr std::array kExperts = {Experts::alike, Experts::spread, Experts::whole};

unsigned bit_of(const Role& role) {
  return 3U * static_cast<unsigned>(role.use) + static_cast<unsigned>(role.experts);
}

bool can(const Operator& op, Split split) {
  const auto ways = splits_of(op);
  return std::find(ways.begin(), ways.end(), split) != ways.end();
}

// Operators between dispatch and combine. Their matrix products distinguish them from operators
// that read tokens in the original order.
bool of_experts(const Operator& op) {
  return op.module == Module::moe && (can(op, Split::expert) || op.expert == ExpertRole::dispatch ||
                                      op.expert == ExpertRole::combine);
}

bool attends(const Operator& op) {
  return op.kind == OpKind::fused_attention || op.kind == OpKind::batched_gemm ||
         (op.module == Module::core_attention);
}

// True for a matrix product, or an operator split like one: a job that splits it never replicates
// it.
bool heavy(const Operator& op) {
  return op.kind == OpKind::gemm || op.kind == OpKind::grouped_gemm ||
         op.kind == OpKind::embedding || op.kind == OpKind::cross_entropy || attends(op);
}

bool agrees_spread(const Operator& op, Split s, bool by_batch) {
  switch (op.expert) {
    case ExpertRole::dispatch:
      return s == (by_batch ? Split::dispatch_batch : Split::dispatch_sequence);
    case ExpertRole::combine:
      return s == (by_batch ? Split::combine_batch : Split::combine_sequence);
    case ExpertRole::none:
    case ExpertRole::choose:
      // Elementwise operators occur on both sides of the dispatch.
      return s == Split::expert ||
             (op.kind != OpKind::grouped_gemm && s == (by_batch ? Split::batch : Split::sequence));
  }
  return false;
}

bool agrees_tensor(const Operator& op, Split s, const Role& role) {
  const bool scattered = role.use == Use::sequence;
  if (of_experts(op)) {
    if (role.experts == Experts::spread) {
      return agrees_spread(op, s, false);
    }
    const Split tokens = scattered ? Split::sequence : Split::replicate;
    if (role.experts == Experts::whole) {
      return s == tokens;
    }
    return op.kind == OpKind::grouped_gemm
               ? s == Split::column || s == Split::row
               : s == tokens || s == Split::replicate || s == Split::feature;
  }
  const Split alone = scattered ? Split::sequence : Split::replicate;
  switch (op.tensor) {
    case TensorRole::column:
    case TensorRole::vocab_head:
      return s == (scattered ? Split::column_gather : Split::column);
    case TensorRole::row:
    case TensorRole::vocab_embedding:
      return s == (scattered ? Split::row_scatter : Split::row);
    case TensorRole::none:
    case TensorRole::gathered:
    case TensorRole::joined:
      break;
  }
  if (op.kind == OpKind::gemm || op.kind == OpKind::embedding) {
    return s == alone || (!can(op, alone) && s == Split::replicate);
  }
  if (heavy(op)) {
    return s == Split::feature;
  }
  return s == alone || s == Split::feature;
}

}  // namespace

bool agrees(const Operator& op, Split s, const Role& role) {
  switch (role.use) {
    case Use::any:
      return true;
    case Use::data:
      return role.experts == Experts::spread && of_experts(op) ? agrees_spread(op, s, true)
                                                               : s == Split::batch;
    case Use::context:
    case Use::ulysses:
      if (role.experts == Experts::spread && of_experts(op)) {
        return agrees_spread(op, s, false);
      }
      return s == (role.use == Use::ulysses && attends(op) ? Split::feature : Split::sequence);
    case Use::tensor:
    case Use::sequence:
      return agrees_tensor(op, s, role);
  }
  return false;
}

RoleSet roles_of(const Operator& op, Split split) {
  RoleSet out = 0;
  for (const Use use : kUses) {
    for (const Experts experts : kExperts) {
      const Role role{use, experts};
      out |= agrees(op, split, role) ? 1U << bit_of(role) : 0U;
    }
  }
  return out;
}

bool contains(RoleSet set, const Role& role) {
  return role.use == Use::any || (set >> bit_of(role) & 1U) != 0;
}

RoleSet roles_of_stream(Split split) {
  RoleSet out = 0;
  for (const Use use : kUses) {
    const Split wanted = use == Use::data     ? Split::batch
                         : use == Use::tensor ? Split::replicate
                                              : Split::sequence;
    for (const Experts experts : kExperts) {
      out |= split == wanted ? 1U << bit_of({use, experts}) : 0U;
    }
  }
  return out;
}

}  // namespace stepcast::automatic
