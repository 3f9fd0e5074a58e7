// Words of the ways in which a model is spread over devices.
#pragma once

#include "stepcast/base/spelling.h"

namespace stepcast {

// What is sharded over data-parallel ranks: optimizer states (zero1), gradients too (zero2), parameters too (zero3).
enum class Sharding { none, zero1, zero2, zero3 };

constexpr auto spellings(Sharding) {
  return std::to_array<Spelling<Sharding>>(
      {{Sharding::none, "none"}, {Sharding::zero1, "zero1"}, {Sharding::zero2, "zero2"}, {Sharding::zero3, "zero3"}});
}

// Which tensor-parallel collectives overlap matrix products.
enum class TensorOverlap {
  none,
  bulk,   // collectives overlap a product that does not need them (Transformer Engine's bulk_dgrad, bulk_wgrad)
  ring,   // and products cut into chunks that travel round a ring of the tensor ranks (its user buffers)
  async,  // async tensor parallelism of PyTorch: the same by symmetric memory and copy engines
};

constexpr auto spellings(TensorOverlap) {
  return std::to_array<Spelling<TensorOverlap>>({{TensorOverlap::none, "none"},
                                                 {TensorOverlap::bulk, "bulk"},
                                                 {TensorOverlap::ring, "ring"},
                                                 {TensorOverlap::async, "async"}});
}

// How tensor parallelism cuts a linear layer: 1D by columns and rows (Megatron), or over a grid of ranks (SUMMA 2D, 2.5D
// with a depth of layers of q x q, 3D with a cube), as Colossal-AI offers.
enum class TensorKind { one_d, two_d, two_half_d, three_d };

constexpr auto spellings(TensorKind) {
  return std::to_array<Spelling<TensorKind>>(
      {{TensorKind::one_d, "1d"}, {TensorKind::two_d, "2d"}, {TensorKind::two_half_d, "2.5d"}, {TensorKind::three_d, "3d"}});
}

// How layers are cut into pipeline stages where no list places them. remainder_*: as evenly as whole layers go, what remains
// on the first, last or middle stages; balanced*: consecutive blocks by DeepSpeed's dynamic program, of layers or of
// parameters; cumulative: a block stays on a stage until the cost up to it passes the stage's share (nanotron);
// redistribute: equal times, the output layer's included (2411.05288).
enum class StageSplit {
  even,  // the stages divide the layers, or the job is refused
  remainder_first,
  remainder_last,
  remainder_middle,
  balanced,
  balanced_parameters,
  cumulative,
  redistribute
};

constexpr auto spellings(StageSplit) {
  return std::to_array<Spelling<StageSplit>>({{StageSplit::even, "even"},
                                              {StageSplit::remainder_first, "remainder_first"},
                                              {StageSplit::remainder_last, "remainder_last"},
                                              {StageSplit::remainder_middle, "remainder_middle"},
                                              {StageSplit::balanced, "balanced"},
                                              {StageSplit::balanced_parameters, "balanced_parameters"},
                                              {StageSplit::cumulative, "cumulative"},
                                              {StageSplit::redistribute, "redistribute"}});
}

// How context-parallel ranks exchange keys and values: a ring (p2p), an all-gather, all-to-all over heads
// (Ulysses), or all-to-all within groups and a ring between them (hierarchical).
enum class ContextKind { p2p, all_gather, a2a, hierarchical };

constexpr auto spellings(ContextKind) {
  return std::to_array<Spelling<ContextKind>>({{ContextKind::p2p, "p2p"},
                                               {ContextKind::all_gather, "all_gather"},
                                               {ContextKind::a2a, "a2a"},
                                               {ContextKind::hierarchical, "hierarchical"}});
}

// How tokens reach their experts.
enum class Dispatcher { allgather, alltoall, deepep, hybridep };

constexpr auto spellings(Dispatcher) {
  return std::to_array<Spelling<Dispatcher>>({{Dispatcher::allgather, "allgather"},
                                              {Dispatcher::alltoall, "alltoall"},
                                              {Dispatcher::deepep, "deepep"},
                                              {Dispatcher::hybridep, "hybridep"}});
}

// How the load of the experts is stated: the same for all by a trained router (balanced) or by a forced one, the largest
// over the mean (spread), or a share for each expert.
enum class ExpertLoad { balanced, forced, spread, shares };

constexpr auto spellings(ExpertLoad) {
  return std::to_array<Spelling<ExpertLoad>>({{ExpertLoad::balanced, "balanced"},
                                              {ExpertLoad::forced, "forced"},
                                              {ExpertLoad::spread, "spread"},
                                              {ExpertLoad::shares, "shares"}});
}

// Whether FSDP2 gathers the weights of 8-bit products in 8 bits, cast shard by shard (torchao's
// enable_fsdp_float8_all_gather), and when their scales are found: of each weight ahead of each gather (dynamic), or of all
// of them behind the optimizer (precomputed: its precompute_float8_dynamic_scale_for_fsdp).
enum class Float8Gather { none, dynamic, precomputed };

constexpr auto spellings(Float8Gather) {
  return std::to_array<Spelling<Float8Gather>>(
      {{Float8Gather::none, "none"}, {Float8Gather::dynamic, "dynamic"}, {Float8Gather::precomputed, "precomputed"}});
}

// What becomes of the tensors that a stage receives: given up behind the passes that read them; on the last stage held by
// losses until the end of the schedule; or a buffer for each micro-batch, of activations and of gradients, from step to
// step.
enum class StageReceives { transient, held_by_losses, standing };

constexpr auto spellings(StageReceives) {
  return std::to_array<Spelling<StageReceives>>({{StageReceives::transient, "transient"},
                                                 {StageReceives::held_by_losses, "held_by_losses"},
                                                 {StageReceives::standing, "standing"}});
}

// When the gather of the next unit's parameters is issued: none (when that unit is about to run), implicit (as soon as the
// host reaches it, on a stream of its own), explicit (before this unit computes). FSDP1's BACKWARD_PRE is explicit,
// BACKWARD_POST implicit.
enum class Prefetch { none, implicit_, explicit_ };

constexpr auto spellings(Prefetch) {
  return std::to_array<Spelling<Prefetch>>(
      {{Prefetch::none, "none"}, {Prefetch::implicit_, "implicit"}, {Prefetch::explicit_, "explicit"}});
}

}  // namespace stepcast
