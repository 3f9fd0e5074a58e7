#include "outside.h"

#include <algorithm>
#include <cmath>

#include "stepcast/lower/captured.h"
#include "stepcast/model/experts.h"

namespace stepcast::lower {
namespace {

constexpr double kGiB = 1024.0 * 1024 * 1024;

// DeepEP's buffers of the dispatch and combine kernels, NVLink's and RDMA's (csrc/config.hpp,
// get_nvl_buffer_size_hint; configurations of 20 SMs, two a channel, as deep_ep/buffer.py has
// them).
double deepep_bytes(const cluster::GroupShape& group, double token) {
  constexpr double kChannels = 10;
  constexpr double kNvlRanks = 8;
  constexpr double kNvlChunk = 256;   // tokens
  constexpr double kRdmaChunk = 128;  // tokens
  const double near = std::min<double>(group.ranks, kNvlRanks);
  const double nvl = kChannels * near * kNvlChunk * token;
  const double rdma = group.domains > 1 ? 2 * kChannels * group.domains * kRdmaChunk * token : 0;
  return nvl + rdma;
}

// HybridEP registers what could arrive at worst: all tokens of all ranks, on the way there and
// back.
double hybridep_bytes(const cluster::GroupShape& group, double tokens, double token) {
  return 2 * tokens * group.ranks * token;
}

}  // namespace

// What torch's fused gathers and reductions of tensor ranks share, which is no memory of the
// caching allocator: two chunks of a product's result on the way out, or the rank's shard of what
// is gathered (torch 2.8, distributed/_symmetric_memory/__init__.py:330, :163). It grows to the
// largest and is made of whole pages (cuMemGetAllocationGranularity: 2 MiB).
double symmetric_bytes(double tokens, double token) {
  constexpr double kPage = 2.0 * 1024 * 1024;
  constexpr double kChunks = 2;
  return std::ceil(kChunks * tokens * token / kPage) * kPage;
}

// Context and kernels under lazy loading (CUDA 11.8 on): B200 0.70 GiB (168.34 - 167.64 GiB of a
// process without NCCL, torch 2.9; ml-engineering, debug/pytorch.md); H100 and H200 0.733 GiB
// (training steps without NCCL, 0.80 under FSDP2, whose kernels are more; the bare context 0.51;
// torch 2.11 with CUDA 13.0, tests/oracle/gpu); smaller GPUs by their number of SMs, whose local
// memory and stacks the context reserves.
// A TPU's runtime has reserved its part before it states the memory of the chip.
double context_bytes(Bytes stated, const hardware::Device& device) {
  if (hardware::vendor_of(device) == hardware::Vendor::google) {
    return 0;
  }
  if (stated.count() > 0) {
    return static_cast<double>(stated.count());
  }
  const double capability = device.compute_capability;
  return (capability >= 10 ? 0.7 : capability >= 9 ? 0.733 : 0.5) * kGiB;
}

unsigned connected_for(const cluster::GroupShape& shape, cost::Algorithm algorithm, Bytes bytes) {
  constexpr std::int64_t kLarge = 1 << 20;
  const bool multicast = shape.nvls && shape.domains == 1 && shape.ranks > 2;
  return cost::bit(algorithm) |
         (multicast && bytes.count() >= kLarge ? cost::bit(cost::Algorithm::nvls) : 0U);
}

OutsideParts outside_parts(const strategy::Plan& plan, const hardware::Device& device,
                           const std::vector<UsedGroup>& groups) {
  OutsideParts out;
  const auto add = [&](const std::string& name, double bytes) {
    if (bytes >= 1) {
      out.emplace_back(name, Bytes(static_cast<std::int64_t>(bytes)));
    }
  };
  const bool amd = hardware::vendor_of(device) == hardware::Vendor::amd;
  add(amd ? "HIP context and kernels" : "CUDA context and kernels",
      context_bytes(plan.device_memory.context, device));
  const auto& shard = plan.shard;
  const auto tokens =
      static_cast<double>(shard.sequences * shard.sequence_length / std::max(1, shard.context)) /
      (shard.sequence_parallel ? shard.tensor : 1);
  const double element = bytes_per_element(plan.style.dtype);
  const double token = static_cast<double>(plan.model.hidden) * element;
  const double routed = static_cast<double>(model::routed_width(plan.model)) * element;
  if (plan.tensor_parallel.product_overlap == TensorOverlap::async && shard.tensor > 1) {
    add("symmetric memory", symmetric_bytes(tokens, token));
  }
  for (const UsedGroup& g : groups) {
    add((amd ? "RCCL: " : "NCCL: ") + g.name,
        static_cast<double>(cost::nccl_buffers(plan.nccl, g.shape, g.algorithms).count()));
    if (g.tokens) {
      const bool hybrid = plan.expert_dispatch.dispatcher == Dispatcher::hybridep;
      add(hybrid ? "HybridEP" : "DeepEP",
          hybrid ? hybridep_bytes(g.shape, tokens, routed) : deepep_bytes(g.shape, routed));
    }
  }
  return out;
}

Bytes least_outside(const strategy::Plan& plan, const hardware::Device& device) {
  Bytes out{0};
  for (const auto& [name, bytes] : outside_parts(plan, device, {})) {
    out = out + bytes;
  }
  return out;
}

}  // namespace stepcast::lower
