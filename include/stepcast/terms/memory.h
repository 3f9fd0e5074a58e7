// Words of what a step keeps in memory and where.
#pragma once

#include "stepcast/base/spelling.h"

namespace stepcast {

// Which activations are recomputed in the backward pass. every: each n-th layer; uniform: units of n layers; block:
// the first n layers of a chunk; modules: named modules of each layer; per_op: by a policy over operators; optimal: what
// a dynamic programme chooses within a budget of memory (Beaumont et al., rotor).
enum class RecomputeKind { none, selective, full, every, uniform, block, modules, per_op, optimal };

constexpr auto spellings(RecomputeKind) {
  return std::to_array<Spelling<RecomputeKind>>({{RecomputeKind::none, "none"},
                                                 {RecomputeKind::selective, "selective"},
                                                 {RecomputeKind::full, "full"},
                                                 {RecomputeKind::every, "every"},
                                                 {RecomputeKind::uniform, "uniform"},
                                                 {RecomputeKind::block, "block"},
                                                 {RecomputeKind::modules, "modules"},
                                                 {RecomputeKind::per_op, "per_op"},
                                                 {RecomputeKind::optimal, "optimal"}});
}

// adamw_8bit_paged: bitsandbytes' paged one, whose 8-bit states are in memory that the driver moves to the host on demand.
enum class Optimizer { adamw, sgd, adamw_8bit, adamw_8bit_paged, adamw_bf16, adafactor, lion, muon };

constexpr auto spellings(Optimizer) {
  return std::to_array<Spelling<Optimizer>>({{Optimizer::adamw, "adamw"},
                                             {Optimizer::sgd, "sgd"},
                                             {Optimizer::adamw_8bit, "adamw_8bit"},
                                             {Optimizer::adamw_8bit_paged, "adamw_8bit_paged"},
                                             {Optimizer::adamw_bf16, "adamw_bf16"},
                                             {Optimizer::adafactor, "adafactor"},
                                             {Optimizer::lion, "lion"},
                                             {Optimizer::muon, "muon"}});
}

// Where a part of the state is kept outside the GPU.
enum class OffloadTarget { none, cpu, nvme };

constexpr auto spellings(OffloadTarget) {
  return std::to_array<Spelling<OffloadTarget>>(
      {{OffloadTarget::none, "none"}, {OffloadTarget::cpu, "cpu"}, {OffloadTarget::nvme, "nvme"}});
}

// How offloaded activations are copied: out after each unit and back some units ahead (torch's saved-tensor hooks on
// streams: torchtune, torchtitan); those of the first layers, spread over all layers (Transformer Engine's cpu_offload); or
// a chunk while the next forward-backward pair computes (Yuan et al., USENIX ATC'24).
enum class ActivationOffload { units, spread, pairs };

constexpr auto spellings(ActivationOffload) {
  return std::to_array<Spelling<ActivationOffload>>(
      {{ActivationOffload::units, "units"}, {ActivationOffload::spread, "spread"}, {ActivationOffload::pairs, "pairs"}});
}

// PyTorch's memory allocator: its caching one, or with expandable segments (PYTORCH_CUDA_ALLOC_CONF). Or none: a compiler
// assigns every buffer its place when it builds the program (XLA on TPUs), so that nothing is cached.
enum class AllocatorKind { caching, expandable_segments, compiled };

constexpr auto spellings(AllocatorKind) {
  return std::to_array<Spelling<AllocatorKind>>({{AllocatorKind::caching, "default"},
                                                 {AllocatorKind::expandable_segments, "expandable_segments"},
                                                 {AllocatorKind::compiled, "compiled"}});
}

}  // namespace stepcast
