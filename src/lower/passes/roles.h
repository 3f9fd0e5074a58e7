// Roles of communicators, the same index in every program. A role that a job does not need has no
// groups.
#pragma once

#include <cstdint>

namespace stepcast::lower {

enum Role : std::uint32_t {
  kTensor,
  // A grid of tensor ranks, along each side. Depth: copies of 2.5D. 3D cuts X along the rows, W
  // along the columns and Y along the depth.
  kTensorRow,
  kTensorColumn,
  kTensorDepth,
  kData,       // dense gradients and parameters: data x context ranks, cut into shards
  kReplicas,   // the same shard of each copy
  kAllData,    // data x context ranks, where whole gradients are summed over more ranks than share
               // the states
  kEmbedding,  // first and last stage, tied tables
  kNorm,       // ranks whose gradients make one norm
  kContext,    // context-parallel ranks
  kContextInner,  // hierarchical context parallelism: the all-to-all inside a group; rings run over
                  // ranks at the same place of each group
  kExpert,        // ranks that hold different experts
  kExpertTensor,  // ranks that share an expert's products
  kTensorExpert,  // expert and expert-tensor ranks together: the all-gather dispatcher's group
  kExpertData,    // ranks that hold the same experts, cut into shards
  kExpertReplicas,
  kAllExpertData,  // the same for experts
  kPartition,  // ranks that hold a second copy for the backward gather (hpZ, FSDP2's reshard size)
  kPair,       // two stages with the same layers (bidirectional pipelines)
  // All stages of one pipeline, for vocabulary passes.
  kPipe,            // the last stage's output
  kPipeStatistics,  // of the softmax
  kPipeGradient,    // of the last stage's output
  kPipeInput,       // embedded tokens
  kPipeInputGrad,
  kNode,    // of a data-parallel group, the ranks in one node
  kAcross,  // of a data-parallel group, the ranks at one place of each node
  kRoles
};

}  // namespace stepcast::lower
