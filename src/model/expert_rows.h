// Ways in which rows reach their experts other than by an order of their own: by products with
// masks, by a copy for every expert, and within the experts' kernels (moe.cpp has the others).
#pragma once

#include <cstdint>

#include "builder.h"
#include "stepcast/model/experts.h"

namespace stepcast::model {

// Products with masks (MaxText 0.2.5, layers/moe.py: dense_matmul, generate_masks): of each
// sequence the token's row, its expert and its place in the expert's buffer.
struct OneHot {
  std::int64_t tokens = 0;  // of a sequence
  std::int64_t slots = 0;   // of all experts' buffers for a sequence
  std::int64_t sequences = 1;
};

OneHot one_hot_of(const Builder& b, const ExpertRows& rows);
Node add_one_hot_dispatch(Builder& b, const OneHot& h, Node from, Node routed, Tensor& weights);
Node add_one_hot_combine(Builder& b, const OneHot& h, Node from, Node routed,
                         const Tensor& weights);

// job::MoeRuntime::every_token: rows for the experts, and the sum of what these return.
Node add_every_token(Builder& b, const ExpertRows& rows, Node from, Node routed);
Node add_sum_of_experts(Builder& b, const ExpertRows& rows, Node from);

// Routing::fused_experts: both products and the sum for each token.
Node add_experts_in_kernels(Builder& b, const ExpertRows& rows, const Stream& read, Node routed);

}  // namespace stepcast::model
