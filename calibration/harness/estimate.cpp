#include "harness/estimate.h"

#include <algorithm>
#include <variant>

#include "stepcast/config/config.h"
#include "stepcast/model/count.h"

namespace stepcast::harness {
namespace {

using namespace interop;

// Shares of the data sheet's peaks that large kernels reach (Hopper, published tables in
// calibration/): an estimate of duration needs no better.
constexpr double kOfPeak = 0.65;
constexpr double kOfAttentionPeak = 0.5;
constexpr double kOfBandwidth = 0.85;
constexpr double kLaunch = 4e-6;              // s, shortest kernel with its gap
constexpr double kCollectiveLatency = 25e-6;  // s
constexpr double kNetwork = 40e9;             // bytes/s of a GPU's own NIC
constexpr double kPageable = 8e9;             // bytes/s: a copy by the driver's staging buffers
constexpr double kFill = 200e9;               // bytes/s, random numbers into fresh memory
constexpr double kBetween = 90e-6;            // s, scrubbing L2 and waiting between repetitions

double bytes_of(job::DType dtype) { return job::bytes_per_element(dtype); }

double gemm_flops(const GemmCase& c) {
  return 2.0 * static_cast<double>(c.m) * static_cast<double>(c.n) * static_cast<double>(c.k) *
         static_cast<double>(c.batch) * c.groups;
}

double gemm_bytes(const GemmCase& c) {
  const auto m = static_cast<double>(c.m);
  const auto n = static_cast<double>(c.n);
  const auto k = static_cast<double>(c.k);
  const double out = c.accumulate_fp32 ? 8 : std::max(bytes_of(c.dtype), 2.0);
  return (bytes_of(c.dtype) * (m * k + k * n) + out * m * n) * static_cast<double>(c.batch) *
         c.groups;
}

struct Once {
  const Abilities& on;

  double memory_time(double bytes) const { return bytes / (kOfBandwidth * on.memory_bandwidth); }

  double operator()(const GemmCase& c) const {
    return kLaunch * c.groups +
           std::max(gemm_flops(c) / (kOfPeak * on.peak_of(c.dtype)), memory_time(gemm_bytes(c)));
  }
  double operator()(const AttentionCase& c) const {
    const auto length = static_cast<double>(c.length);
    const double forward = 4.0 * static_cast<double>(c.sequences) * c.heads * length * length *
                           c.head_dim * (c.causal ? 0.5 : 1.0);
    return 3 * kLaunch +
           (c.backward ? 2.5 : 1.0) * forward / (kOfAttentionPeak * on.peak_of(c.dtype));
  }
  double operator()(const MemoryCase& c) const {
    return kLaunch + memory_time(static_cast<double>(c.bytes));
  }
  double operator()(const CopyCase& c) const {
    const auto bytes = static_cast<double>(c.bytes);
    if (c.direction == "d2d") {
      return kLaunch + memory_time(2 * bytes);
    }
    return 2 * kLaunch + bytes / (c.pinned ? on.host_bandwidth : kPageable);
  }
  double operator()(const LaunchCase&) const { return 1e-3; }  // a stream of many
  double operator()(const CollectiveCase& c) const {
    const double rate = c.nodes > 1 ? kNetwork : kOfBandwidth * on.peer_bandwidth;
    return kCollectiveLatency * (c.nodes > 1 ? 3 : 1) + 2 * static_cast<double>(c.bytes) / rate;
  }
  double operator()(const OverlapCase& c) const {
    const double kernel = c.kernel == "gemm"
                              ? (*this)(GemmCase{.m = c.m, .n = c.n, .k = c.k})
                              : (*this)(MemoryCase{.op = c.kernel, .bytes = c.bytes});
    const double rate = c.op.empty() ? on.host_bandwidth : kOfBandwidth * on.peer_bandwidth;
    return std::max(kernel, 2 * static_cast<double>(c.other_bytes) / rate);
  }
  double operator()(const LayerCase& c) const {
    const job::Model model = config::model(c.model);
    const Flops flops = model::forward_flops(model, c.length, true);
    const double layer = flops.count() * static_cast<double>(c.sequences) /
                         std::max(model.layers, 1) / c.tensor * (c.backward ? 2.0 : 1.0);
    return 20 * kLaunch + 1.5 * layer / (kOfPeak * on.peak_of(c.dtype));
  }
};

// Set-up beyond filling memory: heuristics, building graphs, compiling, making communicators.
struct SetUp {
  double operator()(const GemmCase& c) const { return 0.03 + 0.002 * c.groups; }
  double operator()(const AttentionCase&) const { return 0.35; }
  double operator()(const MemoryCase&) const { return 0.01; }
  double operator()(const CopyCase& c) const {
    return 0.01 + static_cast<double>(c.bytes) / 3e9;  // pinning pages
  }
  double operator()(const LaunchCase&) const { return 0.3; }
  double operator()(const CollectiveCase&) const { return 0.1; }
  double operator()(const OverlapCase& c) const { return c.op.empty() ? 1.0 : 2.0; }
  double operator()(const LayerCase&) const { return 2.0; }
};

struct Memory {
  std::int64_t operator()(const GemmCase& c) const {
    return static_cast<std::int64_t>(gemm_bytes(c));
  }
  std::int64_t operator()(const AttentionCase& c) const {
    // q, k, v, o and in the backward pass their gradients, one of them in fp32.
    const double width = bytes_of(c.dtype) * c.head_dim * (2.0 * c.heads + 2.0 * c.kv_heads);
    const double scores = static_cast<double>(c.sequences) * static_cast<double>(c.length);
    return static_cast<std::int64_t>(scores *
                                     (c.backward ? 2 * width + 4.0 * c.heads * c.head_dim : width));
  }
  std::int64_t operator()(const MemoryCase& c) const { return c.bytes; }
  std::int64_t operator()(const CopyCase& c) const { return 2 * c.bytes; }
  std::int64_t operator()(const LaunchCase&) const { return 0; }
  std::int64_t operator()(const CollectiveCase& c) const { return 2 * c.bytes; }
  std::int64_t operator()(const OverlapCase& c) const {
    const GemmCase gemm{.m = c.m, .n = c.n, .k = c.k};
    return c.bytes + 2 * c.other_bytes + static_cast<std::int64_t>(gemm_bytes(gemm));
  }
  std::int64_t operator()(const LayerCase& c) const {
    const job::Model model = config::model(c.model);
    const auto tokens = static_cast<double>(c.sequences) * static_cast<double>(c.length);
    // Weights and gradients in 16 and 32 bits; some 40 hidden vectors a token, with gradients.
    const double weights =
        6.0 * static_cast<double>(model::layer_parameters(model, model.layers - 1)) / c.tensor;
    return static_cast<std::int64_t>(weights + 160.0 * tokens * static_cast<double>(model.hidden));
  }
};

}  // namespace

double seconds_once(const GpuCase& what, const Abilities& on) { return std::visit(Once{on}, what); }

std::int64_t memory_of(const GpuCase& what) { return std::visit(Memory{}, what); }

double estimate(const GpuCase& what, const Abilities& on, const Policy& policy) {
  const double once = seconds_once(what, on);
  double set_up = std::visit(SetUp{}, what) + static_cast<double>(memory_of(what)) / kFill;
  if (const auto* gemm = std::get_if<GemmCase>(&what); gemm != nullptr && gemm->sustained) {
    return set_up + (policy.warmups + 2) * once + policy.sustained_warmup + policy.sustained;
  }
  if (std::holds_alternative<LaunchCase>(what)) {
    return set_up + policy.samples * once;
  }
  // Alone and together, each of the two.
  const int loops = std::holds_alternative<OverlapCase>(what) ? 4 : 1;
  const double each = once + kBetween;
  const double repetitions =
      std::clamp(policy.budget / each, 5.0, std::max(5.0, static_cast<double>(policy.samples)));
  return set_up + loops * (policy.warmups * once + repetitions * each);
}

}  // namespace stepcast::harness
