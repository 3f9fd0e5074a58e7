#include "datasheet.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <mutex>
#include <string>
#include <system_error>

#include "stepcast/base/spelling.h"
#include "stepcast/text/document.h"

namespace stepcast::cost {
namespace {

// Shares of the peak that large GEMMs reach in long runs: MAMF search over 20 accelerators, 0.80
// (H100), 0.81 to 0.87 (A100), 0.73 to 0.79 (Blackwell) of the data sheet; MI300X 0.51
// (ml-engineering, compute/accelerator, Nov 2025).
constexpr double kGemmShare = 0.80;
constexpr double kGemmShareBlackwell = 0.75;
constexpr double kGemmShareAmd = 0.52;
// Volta's fp16 GEMMs: 83 to 90 of 112 to 125 TFLOP/s at most ("Dissecting the NVIDIA Volta GPU",
// arXiv 1804.06826).
constexpr double kGemmShareVolta = 0.72;
// Without tensor cores (fp32 on the measured P100 to A100: 0.77 to 0.93).
constexpr double kGemmShareFp32 = 0.85;
// Under which power limit products of training steps in bf16 run at which level (calibration/*:
// `training`): H100; Blackwell's chips for data centres, the geometric mean of B200, GB200 and B300
// at 1100 W. A chip of the same generation under another limit follows gemm.h's law.
struct TrainingLevel {
  double from = 0, below = 0;  // compute capability
  double watts = 0, flops = 0;
};
constexpr TrainingLevel kTrainingLevels[] = {{9, 10, 700, 6.6e14}, {10, 11, 1100, 1.28e15}};
// Share of HBM bandwidth that a streaming kernel reaches: 0.79 (A100), 0.87 (H100), 0.84 (H200),
// 0.82 (B200): Azure and SuperBench stream tests.
constexpr double kStreamShare = 0.82;

// Share of a host link's rate that pinned copies reach: 26.0 to 26.3 of 31.5 GB/s (A100), 51 to
// 55.4 of 63 (H100, H200), 12.4 of 15.75 (V100), 359 to 377 of 450 (NVLink-C2C): nvbandwidth in
// Azure's AI-benchmarking-guide, NVIDIA's README, ml-engineering and SuperBench's fixtures.
constexpr double kPinnedShare = 0.83;
constexpr double kPinnedResidual = 0.06;
// Rate of each direction when both copy at once, over that of one alone: 18.6 of 26.0 GB/s over
// PCIe (NVIDIA's README), 175 of 359 over NVLink-C2C (ml-engineering).
constexpr double kBothShare = 0.72;
constexpr double kBothShareC2c = 0.49;
constexpr double kBothResidual = 0.15;
// Pageable memory goes through a pinned buffer that the CPU fills first. This is not measured: it
// assumes two copies one after the other, of which the CPU's is no faster than the link.
constexpr double kPageableShare = 0.4;
constexpr double kPageableResidual = 0.4;
constexpr double kC2cRate = 2e11;  // bytes/s; no PCIe link of today is as fast

// Fused attention's rate over that of large GEMMs: 0.70 (FlashAttention-2 on A100), 0.82 (version 3
// on H100), 0.93 (cuDNN on B200), by the shares of the peak above and below. For devices of other
// vendors, whose fused kernels nobody has published in a table that could be read here.
constexpr double kAttentionOverGemm = 0.8;
constexpr double kOtherAttentionResidual = 0.35;

bool is_nvidia(const job::Device& d) { return hardware::vendor_of(d) == hardware::Vendor::nvidia; }
double other_gemm_share(const job::Device& d) {
  // The MAMF table's accelerators of neither vendor are Gaudi 2 (0.97) and Gaudi 3 (0.74); no TPU
  // is in it.
  return hardware::vendor_of(d) == hardware::Vendor::amd ? kGemmShareAmd : kGemmShare;
}

}  // namespace

int sms_of(const job::Device& device) { return device.sms > 0 ? device.sms : 128; }

double peak_flops(const job::Device& device, job::DType dtype) {
  using job::DType;
  static const std::map<DType, std::vector<DType>> wider = {
      {DType::fp32, {DType::fp32}},
      {DType::tf32, {DType::tf32, DType::fp32}},
      {DType::bf16, {DType::bf16, DType::fp16, DType::fp32}},
      {DType::fp16, {DType::fp16, DType::bf16, DType::fp32}},
      {DType::fp8, {DType::fp8, DType::bf16, DType::fp16}},
      {DType::fp8_block, {DType::fp8_block, DType::fp8, DType::bf16}},
      {DType::mxfp8, {DType::mxfp8, DType::fp8, DType::bf16}},
      {DType::nvfp4, {DType::nvfp4, DType::fp8, DType::bf16}},
      {DType::mxfp4, {DType::mxfp4, DType::fp8, DType::bf16}},
      {DType::int8, {DType::int8, DType::fp8, DType::bf16}}};
  for (const DType t : wider.at(dtype)) {
    const auto it = device.peak.find(t);
    if (it != device.peak.end() && it->second.count() > 0) {
      return it->second.count();
    }
  }
  return device.peak.empty() ? 0 : device.peak.begin()->second.count();
}

namespace {

// What a device's measured curves scale with, as its entry in configs/ states it.
struct Catalogued {
  std::map<job::DType, FlopRate> peak;
  double pcie = 0, memory_bandwidth = 0;  // bytes/s; 0: not stated
  double power = 0;                       // W; 0: not stated
};

Catalogued read_catalogued(const std::filesystem::path& file) {
  Catalogued out;
  std::error_code error;
  if (!std::filesystem::is_regular_file(file, error)) {
    return out;
  }
  const text::Value doc = text::read_yaml(file);
  if (const text::Value* peak = doc.find("peak")) {
    for (const auto& entry : peak->entries) {
      if (const auto type = parse<job::DType>(entry.key)) {
        out.peak[*type] = parse_flop_rate(entry.value.scalar);
      }
    }
  }
  const auto rate = [&](const char* key) {
    const text::Value* v = doc.find(key);
    return v != nullptr ? parse_bandwidth(v->scalar).count() : 0.0;
  };
  out.pcie = rate("pcie");
  out.memory_bandwidth = rate("memory_bandwidth");
  if (const text::Value* power = doc.find("power")) {
    out.power = parse_power(power->scalar).count();
  }
  return out;
}

// The entry of the device's name; empty where there is none.
Catalogued catalogued(const job::Device& device, const std::filesystem::path& calibration_dir) {
  static std::mutex mutex;
  static std::map<std::filesystem::path, Catalogued> known;
  if (device.name.find('/') != std::string::npos) {
    return {};
  }
  const auto file = calibration_dir.parent_path() / "configs" / "devices" / (device.name + ".yaml");
  const std::scoped_lock lock(mutex);
  auto at = known.find(file);
  if (at == known.end()) {
    at = known.emplace(file, read_catalogued(file)).first;
  }
  return at->second;
}

// Data sheets round: 989 and 989.4 TFLOP/s are the same peak.
double over(double now, double was) {
  constexpr double kRounding = 0.01;
  const double ratio = was > 0 && now > 0 ? now / was : 1;
  return std::abs(ratio - 1) < kRounding ? 1 : ratio;
}

}  // namespace

double over_catalogue(const job::Device& device, job::DType dtype,
                      const std::filesystem::path& calibration_dir) {
  job::Device measured = device;
  measured.peak = catalogued(device, calibration_dir).peak;
  return over(peak_flops(device, dtype), peak_flops(measured, dtype));
}

double memory_over_catalogue(const job::Device& device,
                             const std::filesystem::path& calibration_dir) {
  return over(device.memory_bandwidth.count(),
              catalogued(device, calibration_dir).memory_bandwidth);
}

double host_link_over_catalogue(const job::Device& device,
                                const std::filesystem::path& calibration_dir) {
  return over(device.pcie.count(), catalogued(device, calibration_dir).pcie);
}

double rated_power(const job::Device& device, const std::filesystem::path& calibration_dir) {
  return catalogued(device, calibration_dir).power;
}

namespace {

// The cap of kernels that run at `rate` where the power limit does not act. Formats differ as their
// peaks do.
double datasheet_training_cap(const job::Device& device, job::DType dtype, double rate) {
  const double cc = device.compute_capability;
  const double wide = peak_flops(device, job::DType::bf16);
  for (const TrainingLevel& level : kTrainingLevels) {
    if (cc >= level.from && cc < level.below && device.power.count() > 0 && wide > 0) {
      const double here = level.flops *
                          std::pow(device.power.count() / level.watts, kPowerExponent) *
                          peak_flops(device, dtype) / wide;
      return here < rate ? power_cap(rate, here) : std::numeric_limits<double>::infinity();
    }
  }
  return std::numeric_limits<double>::infinity();
}

}  // namespace

GemmCurve datasheet_gemm(const job::Device& device, job::DType dtype) {
  const double cc = device.compute_capability;
  const double share = dtype == job::DType::fp32 ? kGemmShareFp32
                       : !is_nvidia(device)      ? other_gemm_share(device)
                       : cc > 0 && cc < 8        ? kGemmShareVolta
                       : cc >= 10                ? kGemmShareBlackwell
                                                 : kGemmShare;
  GemmCurve c;
  c.law.sms = sms_of(device);
  c.law.fixed = 3e-6;
  c.law.prologue = 100;
  c.law.tile = 8;
  c.law.tail = 0.65;
  // The share is that of a large GEMM in tiles of 256 x 128.
  c.law.rate = peak_flops(device, dtype) * share * (1 + c.law.tile * (1.0 / 256 + 1.0 / 128));
  c.law.bandwidth = device.memory_bandwidth.count() * kStreamShare;
  c.training_cap = datasheet_training_cap(device, dtype, peak_flops(device, dtype) * share);
  c.residual = kDatasheetGemmResidual;
  return c;
}

AttentionCurve datasheet_attention(const job::Device& device, job::AttentionKernel kernel,
                                   job::DType dtype) {
  using job::AttentionKernel;
  const double peak = peak_flops(device, dtype);
  const double cc = device.compute_capability;
  AttentionCurve c;
  double share = 0;
  // Shares of the dense peak at infinite length and head dimension 128, of the measured devices:
  // FlashAttention-2 0.57 on A100, 0.35 on H100 (before warp-group instructions); FlashAttention-3
  // and cuDNN 0.66 on H100, 0.70 on B200; the first FlashAttention about half of the second (its
  // paper's abstract, arXiv 2307.08691). Before Hopper nothing is faster than FlashAttention-2.
  // CUTLASS's memory-efficient kernel is taken to be as fast as the first FlashAttention (assumed).
  switch (kernel) {
    case AttentionKernel::flash2:
    case AttentionKernel::unfused:
      share = cc >= 9 ? 0.35 : 0.57;
      break;
    case AttentionKernel::flash1:
    case AttentionKernel::efficient:
      share = cc >= 9 ? 0.18 : 0.29;
      break;
    case AttentionKernel::flash3:
    case AttentionKernel::cudnn:
      share = cc >= 10 ? 0.70 : cc >= 9 ? 0.66 : 0.57;
      break;
  }
  if (!is_nvidia(device)) {
    const bool first = kernel == AttentionKernel::flash1 || kernel == AttentionKernel::efficient;
    share = first ? share : kAttentionOverGemm * other_gemm_share(device);
  }
  c.fixed = 8e-6;
  c.prologue = 200;
  c.tail = 0.5;
  // Rate of the backward pass over the forward rate: FlashAttention-2 0.75 (512 tokens) to 0.96
  // (8k) of the forward rate (flash-attention PR 2688); Blackwell 0.85 to 0.89 (PR 2280).
  c.backward = cc >= 10 ? 0.87 : kernel == AttentionKernel::flash3 ? 0.75 : 0.88;
  // Head dimension 64 over 128: 0.78 (H100), 0.66 (B200).
  c.rate = {{32, 0.5 * share * peak},
            {64, 0.75 * share * peak},
            {128, share * peak},
            {256, 1.05 * share * peak}};
  if (device.matrix_unit > 0) {
    // How far a head's dimension fills the array is splash.h's part.
    c.rate = {{128, share * peak}};
  }
  c.training_cap = datasheet_training_cap(device, dtype, share * peak);
  c.residual = is_nvidia(device) ? kDatasheetAttentionResidual : kOtherAttentionResidual;
  return c;
}

MemoryCurve datasheet_memory(MemoryOp op) {
  MemoryCurve c;
  c.fixed = 2.5e-6;
  c.residual = kDatasheetMemoryResidual;
  // Relative to a stream copy; see memory-*.yaml for the devices where each was measured.
  switch (op) {
    case MemoryOp::copy:
    case MemoryOp::elementwise:
    case MemoryOp::activation:
    case MemoryOp::dropout:
    case MemoryOp::optimizer:
      c.share = kStreamShare;
      break;
    case MemoryOp::norm:
    case MemoryOp::softmax:
      c.share = 0.85 * kStreamShare;
      break;
    case MemoryOp::embedding:
      c.share = 0.75 * kStreamShare;
      break;
    case MemoryOp::cross_entropy:
    case MemoryOp::permute:
      c.share = 0.6 * kStreamShare;
      break;
    case MemoryOp::fused_permute:
      c.share = 0.87 * kStreamShare;  // H800: 0.755 of the data sheet, a copy 0.866
      break;
  }
  return c;
}

CopyCurve datasheet_copy(const job::Device& device, CopyDirection direction, bool pinned) {
  CopyCurve c;
  c.latency = kCopyLatency;
  if (direction == CopyDirection::device_to_device) {
    // A copy reads and writes its bytes: it is a stream copy of twice the bytes.
    c.bandwidth = device.memory_bandwidth.count() * kStreamShare / 2;
    c.residual = kDatasheetMemoryResidual;
    return c;
  }
  const double link = device.pcie.count();
  c.bandwidth = link * kPinnedShare;
  c.residual = kPinnedResidual;
  if (direction == CopyDirection::both) {
    c.bandwidth *= link > kC2cRate ? kBothShareC2c : kBothShare;
    c.residual = kBothResidual;
  }
  if (!pinned) {
    c.bandwidth *= kPageableShare;
    c.residual = kPageableResidual;
  }
  return c;
}

}  // namespace stepcast::cost
