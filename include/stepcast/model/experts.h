// Dispatch of tokens to experts and back: the rows that one rank of an MoE layer sends, receives and computes on.
#pragma once

#include <cstdint>

#include "stepcast/job/job.h"
#include "stepcast/model/operators.h"

namespace stepcast::model {

// Elements of a token as it is dispatched to experts.
std::int64_t routed_width(const job::Model& model);

// A job's dispatcher and load (Style::routing).
Routing routing_of(const job::Job& job);

// Load of the most loaded of `ranks` expert-parallel ranks over the mean, if no token is dropped. `copies`: tokens times
// top-k of one expert-parallel group. LAW: balanced: 1; forced (random routing): the expected maximum 1 + sqrt(2 ln n (n -
// 1) / copies) of n normal loads; spread s: one expert gets s times the mean, the others get equal parts of the rest;
// shares: the largest sum over a rank's experts.
double expert_load(const job::ExpertBalance& balance, int experts, int ranks, double copies);

// What a token chooses among: `topk` of `experts`, all in `group_topk` of `groups` equal groups.
struct Routes {
  int experts = 1;
  int topk = 1;
  int groups = 1;  // 1: no limit
  int group_topk = 1;
  bool operator==(const Routes&) const = default;
};
Routes routes_of(const job::Moe& moe);

// Rows of one rank in one micro-batch; a row is one copy of a token. The sizes are those of the most loaded rank, which the
// others wait for.
struct ExpertRows {
  std::int64_t tokens = 0;    // before they are copied
  std::int64_t sent = 0;      // copies of this rank's tokens: tokens x top-k, less those dropped
  std::int64_t received = 0;  // copies that come from its expert-parallel group
  std::int64_t computed = 0;  // rows of its experts' GEMMs, from all its expert-tensor ranks
  std::int64_t gathered = 0;  // tokens that the all-gather dispatcher brings together
  std::int64_t distinct = 0;  // tokens that come from the group when each token is sent to a rank only once
  // For dispatchers that send a token to a rank only once, however many of its experts the token goes to: expected number of
  // copies of one token over the group's ranks, and over `domains` equal sets of ranks (nodes).
  double copies_by_rank = 0;
  double copies_by_domain(int domains) const;

  Routes routes;
};
ExpertRows expert_rows(const job::Model& model, const Shard& shard, const Routing& routing);

// The experts are divided into `groups` equal groups: expected number of groups that hold at least one of a token's `topk`
// distinct experts.
double expected_groups(int experts, int topk, int groups);

// The same for `sets` equal sets of experts (ranks or nodes, in order) where routing is limited to groups, of which each
// token has its own, drawn at random. Unlimited where sets and groups do not divide each other.
double expected_sets(const Routes& routes, int sets);

}  // namespace stepcast::model
