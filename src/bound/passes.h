// What a micro-batch's passes through a chunk of layers take and hold.
#pragma once

#include <cstdint>

#include "stepcast/base/quantity.h"

namespace stepcast::bound {

// The cost of one micro-batch's passes through one chunk.
struct ChunkCost {
  // On the compute stream; of passes that run in pairs: kernels alone, all in `forward`.
  Time forward{0}, backward{0};
  Time weight_grad{0};      // part of `backward`
  Time host{0}, expert{0};  // of both passes
  std::int64_t parameters = 0, expert_parameters = 0;
  std::int64_t layer_parameters = 0;  // `parameters` without embedding and head
  // Of these and of the experts', what stays whole from the forward pass to the backward pass.
  std::int64_t staying = 0, expert_staying = 0;
  std::int64_t kept = 0;     // bytes of the layers' activations
  std::int64_t largest = 0;  // bytes of the layer that keeps most
  // Bytes at most beside what is kept, while the last unit's forward pass runs, and its backward
  // pass.
  std::int64_t last_forward = 0, last_backward = 0;
  // Parameters of the last layer and of the one before it, and what the last one keeps.
  std::int64_t last_layer = 0, layer_before = 0, last_kept = 0;
};

// What gathers of a chunk's units, or reductions of their gradients, take one by one
// (lower::DataTimes::OnCompute), and the part of `lost` that one unit has at most.
struct OneByOne {
  Time copied{0}, lost{0}, moved{0}, lost_to_one{0};
};

// The same as a played schedule reads it.
struct Pass : ChunkCost {
  Time copies{0};  // of its saved activations, out to the host and back, at least
  // Of `kept`, what the last layer's backward pass and those of the units behind it give up.
  std::int64_t given_up = 0;
  // Of layers: gathers ahead of the forward pass and, without what stays, ahead of the backward.
  OneByOne gathered, gathered_again, reduced;
  bool last_is_layer = true;  // no unit comes behind the last layer
};

}  // namespace stepcast::bound
