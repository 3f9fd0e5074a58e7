// Tokens on their way to experts and back: what one rank of an MoE layer sends, receives and computes on.
#pragma once

#include <cstdint>

#include "stepcast/job/job.h"
#include "stepcast/model/operators.h"

namespace stepcast::model {

// How a job routes: dispatcher and load (Style::routing).
Routing routing_of(const job::Job& job);

// Load of the most loaded of `ranks` expert-parallel ranks over the mean, all tokens kept. `copies`: tokens times top-k
// of one such group. LAW: balanced 1; forced: routing at random, the expected maximum 1 + sqrt(2 ln n (n - 1) / copies)
// of n normal loads; spread s: one expert takes s times the mean, the others share the rest alike; shares: the largest
// sum over a rank's experts.
double expert_load(const job::ExpertBalance& balance, int experts, int ranks, double copies);

// Rows of one rank in one micro-batch, a row being one copy of a token. Sizes of the most loaded rank, which the others
// wait for.
struct ExpertRows {
  std::int64_t tokens = 0;    // before they are copied
  std::int64_t sent = 0;      // copies that this rank's tokens make: tokens x top-k, less what is dropped
  std::int64_t received = 0;  // copies that come from its expert-parallel group
  std::int64_t computed = 0;  // rows of its experts' products, of all its expert-tensor ranks
  std::int64_t gathered = 0;  // tokens that the all-gather dispatcher brings together
  std::int64_t distinct = 0;  // tokens that come from the group when each is sent to a rank once
  // Tokens that are sent once to a rank whichever of its experts want them: expected copies of one token over the group's
  // ranks, and of one over `domains` equal sets of ranks (nodes).
  double copies_by_rank = 0;
  double copies_by_domain(int domains) const;

  int experts = 1;
  int topk = 1;
};
ExpertRows expert_rows(const job::Model& model, const Shard& shard, const Routing& routing);

// Expected number of `groups` equal parts of the experts that a token's `topk` distinct experts lie in.
double expected_groups(int experts, int topk, int groups);

}  // namespace stepcast::model
