#include "stepcast/cost/kernels.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "attention.h"
#include "calibration_file.h"
#include "clock.h"
#include "copy_fit.h"
#include "datasheet.h"
#include "gemm.h"
#include "memory.h"
#include "row_alignment.h"
#include "splash.h"

namespace stepcast::cost {
namespace {

constexpr int kDTypeCount = 10;
constexpr int kAttentionKernels = static_cast<int>(spellings(job::AttentionKernel{}).size());
constexpr int kMemoryOpCount = 11;
constexpr int kCopyDirections = 4;

// Deviation that is added where a job asks for a library that was not measured on its device, and
// the curve used in its place does not state how far libraries differ. In bf16 they differ by 4 to
// 5 % in the median on A100, H100, H200 and B200; this is that figure as a standard deviation
// (calibration/sources.yaml: libraries).
constexpr double kLibraryDeviation = 0.07;
// Deviation that is added where one 8-bit format is used in place of another: fp8 and fp8_block on
// H100 and H200 under TensorRT-LLM differ by 12 % in the median from 10 GFLOP
// (calibration/*/gemm-trtllm-points.csv).
constexpr double kFormatDeviation = 0.18;

// Deviation of one fused attention kernel's speed from another's on the same device (0.87 to 1.05,
// flash-attention issue 1310).
constexpr double kKernelDeviation = 0.1;

// Clocks a second of the data sheet's fp32 peak, a multiply-add a lane: V100 and A100 have 64 lanes
// a multiprocessor, others and AMD's compute units 128. 0: a device without either figure.
double clock_of(const job::Device& device) {
  const auto peak = device.peak.find(job::DType::fp32);
  if (peak == device.peak.end() || device.sms <= 0) {
    return 0;
  }
  const bool few = device.compute_capability == 7.0 || device.compute_capability == 8.0;
  return peak->second.count() / (2.0 * (few ? 64 : 128) * device.sms);
}

double together(double a, double b) { return std::sqrt(a * a + b * b); }

// Bytes of one operand element with its scales: nvfp4 carries an fp8 scale for every 16, mxfp4
// one byte for 32; mxfp8 and fp8_block one byte or less for 32 or more, which is left out.
double operand_bytes(job::DType t) {
  return t == job::DType::nvfp4   ? 0.5625
         : t == job::DType::mxfp4 ? 0.53125
                                  : job::bytes_per_element(t);
}

// Results of 8-bit and 4-bit products are written in bf16.
// Over the time with aligned rows. An alignment that was not measured is priced as the next wider.
double unaligned_factor(const GemmCurve& curve, int alignment) {
  const auto at = curve.unaligned.lower_bound(alignment);
  return alignment >= kRowAlignment || at == curve.unaligned.end() ? 1 : at->second;
}

double result_bytes(job::DType t) { return std::max(2.0, job::bytes_per_element(t)); }

// The dtypes whose measurements may be used for a dtype, nearest first.
std::vector<job::DType> stand_ins(job::DType t) {
  using job::DType;
  switch (t) {
    case DType::bf16:
      return {DType::bf16, DType::fp16};
    case DType::fp16:
      return {DType::fp16, DType::bf16};
    case DType::fp8:
      return {DType::fp8, DType::fp8_block};
    case DType::int8:
      return {DType::fp8};
    case DType::fp8_block:
      return {DType::fp8_block, DType::fp8};
    case DType::mxfp8:
      return {DType::mxfp8, DType::fp8};
    default:
      return {t};
  }
}

// Fused kernels of one generation differ little (H20: cuDNN 1.02 to 1.05 of FlashAttention-3,
// flash-attention issue 1310); before Hopper the newer names run FlashAttention-2's speed.
std::vector<job::AttentionKernel> stand_ins(job::AttentionKernel k) {
  using job::AttentionKernel;
  switch (k) {
    case AttentionKernel::flash3:
      return {AttentionKernel::flash3, AttentionKernel::cudnn, AttentionKernel::flash2};
    case AttentionKernel::cudnn:
      return {AttentionKernel::cudnn, AttentionKernel::flash3, AttentionKernel::flash2};
    case AttentionKernel::efficient:
      return {AttentionKernel::efficient, AttentionKernel::flash1};
    default:
      return {k};
  }
}

// Rates of arithmetic, not of memory.
// `peak`, `memory`: the job's peak and memory bandwidth over those that the curve was measured at.
void scale(GemmCurve& curve, double peak, double memory) {
  curve.law.rate *= peak;
  curve.cap *= peak;
  curve.training_cap *= peak;
  curve.law.bandwidth *= memory;
  if (curve.law.l2_bandwidth > 0) {  // the cache stays as it is, and never holds the memory back
    curve.law.l2_bandwidth = std::max(curve.law.l2_bandwidth, curve.law.bandwidth);
  }
}

void scale(AttentionCurve& curve, double factor) {
  for (auto& [head_dimension, rate] : curve.rate) {
    rate *= factor;
  }
  if (curve.backward_pass) {
    for (auto& [head_dimension, rate] : curve.backward_pass->rate) {
      rate *= factor;
    }
  }
  curve.training_cap *= factor;
}

// Leaves `left` of a cap. A curve without a level of long runs runs at `burst` (FLOP/s) under the
// board's own rating.
void limit_power(double left, double burst, double& cap) {
  cap = std::isfinite(cap) || left >= 1 ? cap * left : power_cap(burst, burst * left);
}

double large_product_rate(const GemmLaw& law) {
  constexpr double kSide = 16384;
  const GemmWork work{kSide, kSide, kSide, 1, gemm_bytes(kSide, kSide, kSide, 1, 2, 2)};
  return 2 * kSide * kSide * kSide / gemm_seconds(law, work);
}

double fastest(const AttentionCurve& curve) {
  double out = 0;
  for (const auto& [head_dimension, rate] : curve.rate) {
    out = std::max(out, rate);
  }
  return out;
}

struct PricedGemm {
  GemmCurve curve;
  CurveId id = 0;
  std::array<CurveId, 3> layout_ids{};
  double peak = 0;  // FLOP/s of the data sheet, which no product exceeds
  GroupedCurve grouped;
  GemmCurve grouped_over;  // the curve that it multiplies
  CurveId grouped_id = 0;
};

struct PricedAttention {
  AttentionCurve curve;
  double splash_of_peak = 0;  // of a TPU without measurements: its rate over the peak (splash.h)
  CurveId id = 0;
  CurveId backward_id = 0;
};

struct PricedMemory {
  MemoryCurve curve;
  CurveId id = 0;
  CurveId backward_id = 0;
};

struct PricedCopy {
  CopyCurve curve;
  CurveId id = 0;
};

}  // namespace

struct Kernels::State {
  job::Device device;
  std::array<PricedGemm, kDTypeCount> gemm;
  // By kernel, in 16 bits.
  std::array<PricedAttention, kAttentionKernels> attention;
  std::array<PricedMemory, kMemoryOpCount> memory;
  std::array<std::array<PricedCopy, 2>, kCopyDirections> copies;  // by direction; pinned second
  Overlap overlap;
  Launch launch;
  Software software;
  PowerCurve power;
  AttentionDevice attention_device;
  double memory_bandwidth = 0;
  double l2 = 0;
  std::filesystem::path calibration;

  // Over the peak at which the device's curves were measured.
  double over_measured(job::DType dtype) const {
    return over_catalogue(device, dtype, calibration);
  }
  double memory_over_measured() const { return memory_over_catalogue(device, calibration); }
  // Says on a measured curve that its rate is scaled, and how little is known of what scales with
  // a peak: measured shares of it differ between devices by `unsure`. Likewise of the memory.
  void say_scaled(job::DType dtype, double unsure, Curve& curve) const;
  void load_gemm(const std::vector<std::shared_ptr<const CalibrationFile>>& files,
                 const std::string& library, CurveTable& curves);
  // Seconds of a product by a curve, its burst stretched by `factor`. `peak`: the data sheet's
  // FLOP/s, which no product exceeds.
  double gemm_time(const GemmCurve& curve, double peak, const GemmQuery& query,
                   double factor) const;
  // Share of the cap that is left under a power limit below the rating, and the deviation that it
  // adds.
  std::pair<double, double> power_left(
      const std::vector<std::shared_ptr<const CalibrationFile>>& files) const;
  void load_grouped(const std::vector<std::shared_ptr<const CalibrationFile>>& files,
                    const std::string& library, CurveTable& curves);
  void load_attention(const std::vector<std::shared_ptr<const CalibrationFile>>& files,
                      CurveTable& curves);
  void load_memory(const std::vector<std::shared_ptr<const CalibrationFile>>& files,
                   CurveTable& curves);
  // Scales measured copies to the rate that the job states, and says so.
  void scale_copies(CopyDirection direction, double unsure, CopyCurve& copy, Curve& curve) const;
  void load_copies(const std::vector<std::shared_ptr<const CalibrationFile>>& files,
                   CurveTable& curves);
  void load_host(const std::vector<std::shared_ptr<const CalibrationFile>>& files,
                 CurveTable& curves);
};

void Kernels::State::say_scaled(job::DType dtype, double unsure, Curve& curve) const {
  const double ratio = over_measured(dtype);
  if (ratio != 1) {
    const double peak = peak_flops(device, dtype);
    curve.name += fmt::format(", peak {}", to_string(FlopRate(peak)));
    curve.residual = together(curve.residual, unsure);
    curve.scaled = fmt::format(
        "{}: kernels measured at a peak of {} in {}, their rates scaled to {}", device.name,
        to_string(FlopRate(peak / ratio)), to_string(dtype), to_string(FlopRate(peak)));
  }
  const double wider = memory_over_measured();
  if (wider != 1) {
    curve.name += fmt::format(", memory {}", to_string(device.memory_bandwidth));
    curve.residual = together(curve.residual, kDatasheetMemoryResidual);
    curve.scaled +=
        fmt::format("{}{}: kernels measured with a memory of {}, their traffic scaled to {}",
                    curve.scaled.empty() ? "" : "; ", device.name,
                    to_string(Bandwidth(device.memory_bandwidth.count() / wider)),
                    to_string(device.memory_bandwidth));
  }
}

std::pair<double, double> Kernels::State::power_left(
    const std::vector<std::shared_ptr<const CalibrationFile>>& files) const {
  const double limit = device.power.count();
  for (const auto& file : files) {
    if (file->power && limit > 0 && limit < file->power->rated) {
      const PowerCurve& p = *file->power;
      return {power_share(limit, p.rated, p.exponent), p.residual * std::log(p.rated / limit)};
    }
  }
  const double rated = rated_power(device, calibration);
  if (limit <= 0 || limit >= rated) {
    return {1, 0};
  }
  return {power_share(limit, rated, kPowerExponent),
          kPowerExponentResidual * std::log(rated / limit)};
}

void Kernels::State::load_gemm(const std::vector<std::shared_ptr<const CalibrationFile>>& files,
                               const std::string& library, CurveTable& curves) {
  const auto [left, unsure] = power_left(files);
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<job::DType>(i);
    PricedGemm& entry = gemm[i];
    entry.peak = peak_flops(device, dtype);
    const CalibrationFile* chosen = nullptr;
    job::DType measured = dtype;
    bool same_library = true;
    // The same format matters more than the same library: another library's kernels of the format
    // are nearer than this library's of another format. Of several libraries the first in order of
    // path is taken: cuBLAS, whose kernels TensorRT-LLM also calls, then TensorRT-LLM, then vLLM
    // with its gaps on the host.
    for (const job::DType candidate : stand_ins(dtype)) {
      for (const bool same : {true, false}) {
        for (const auto& file : files) {
          if (chosen == nullptr && file->kind == CalibrationFile::Kind::gemm &&
              (file->library == library) == same && file->gemm.contains(candidate)) {
            chosen = file.get();
            measured = candidate;
            same_library = same;
          }
        }
      }
    }
    Curve c;
    c.device = device.name;
    c.kind = CurveKind::gemm;
    if (chosen != nullptr) {
      entry.curve = chosen->gemm.at(measured);
      c.name = fmt::format("gemm {} {} {}", to_string(dtype), device.name, chosen->library);
      c.file = chosen->name;
      c.provenance = chosen->source;
      if (measured != dtype) {
        c.provenance += fmt::format(" ({} measured as {})", to_string(dtype), to_string(measured));
      }
      c.residual = together(together(entry.curve.residual, entry.curve.long_run_deviation), unsure);
      if (!same_library) {
        const double other = entry.curve.other_library;
        c.residual = together(c.residual, other > 0 ? other : kLibraryDeviation);
      }
      if (measured != dtype && job::bytes_per_element(dtype) < 2) {
        c.residual = together(c.residual, kFormatDeviation);
      }
    } else {
      entry.curve = datasheet_gemm(device, dtype);
      c.name = fmt::format("gemm {} {} datasheet", to_string(dtype), device.name);
      c.file = "datasheet";
      c.provenance = device.source;
      c.residual = together(entry.curve.residual, unsure);
    }
    limit_power(left, large_product_rate(entry.curve.law), entry.curve.cap);
    entry.curve.training_cap *= chosen != nullptr ? left : 1;  // a data sheet's knows the limit
    if (left < 1) {
      c.name += fmt::format(", {}", to_string(device.power));
    }
    if (chosen != nullptr) {
      scale(entry.curve, over_measured(dtype), memory_over_measured());
      say_scaled(dtype, kDatasheetGemmResidual, c);
    }
    c.common = Common::clock;
    entry.id = curves.add(c);
    // A layout that was measured has the residual of its own points.
    const double added = std::sqrt(
        std::max(0.0, c.residual * c.residual - entry.curve.residual * entry.curve.residual));
    const std::string forward = c.name;
    const auto layout_id = [&](const char* what, double residual) {
      if (residual <= 0) {
        return entry.id;
      }
      c.name = forward + what;
      c.residual = together(residual, added);
      return curves.add(c);
    };
    entry.layout_ids = {entry.id, layout_id(", input grad", entry.curve.input_grad_residual),
                        layout_id(", weight grad", entry.curve.weight_grad_residual)};
  }
}

namespace {

// Of a library whose fused layers of experts were not measured.
GroupedCurve grouped_curve(const GemmCurve& curve) {
  GroupedCurve out{"", 0, {curve.grouped}, curve.law.fixed, 1, 0};
  if (!curve.grouped_rows.empty()) {
    out.first = std::log2(curve.grouped_rows.begin()->first);
    out.factor.clear();
    for (const auto& [rows, factor] : curve.grouped_rows) {
      out.factor.push_back(factor);
    }
  }
  return out;
}

}  // namespace

void Kernels::State::load_grouped(const std::vector<std::shared_ptr<const CalibrationFile>>& files,
                                  const std::string& library, CurveTable& curves) {
  for (int i = 0; i < kDTypeCount; ++i) {
    PricedGemm& entry = gemm[i];
    const Curve one = curves.curves()[entry.id];
    Curve c = one;
    c.name = "grouped " + one.name;
    c.kind = CurveKind::grouped;
    entry.grouped_over = entry.curve;
    entry.grouped = grouped_curve(entry.curve);
    c.residual = together(one.residual, entry.curve.grouped_deviation);
    const CalibrationFile* chosen = nullptr;
    for (const job::DType candidate : stand_ins(static_cast<job::DType>(i))) {
      for (const auto& file : files) {
        if (chosen != nullptr || file->kind != CalibrationFile::Kind::grouped ||
            file->library != library || !file->grouped.contains(candidate)) {
          continue;
        }
        const GroupedCurve& grouped = file->grouped.at(candidate);
        for (const auto& over : files) {
          if (over->kind == CalibrationFile::Kind::gemm && over->library == grouped.over &&
              over->gemm.contains(candidate)) {
            chosen = file.get();
            entry.grouped = grouped;
            entry.grouped_over = over->gemm.at(candidate);
            const double left = power_left(files).first;
            limit_power(left, large_product_rate(entry.grouped_over.law), entry.grouped_over.cap);
            entry.grouped_over.training_cap *= left;
            scale(entry.grouped_over, over_measured(static_cast<job::DType>(i)),
                  memory_over_measured());
          }
        }
      }
    }
    if (chosen != nullptr) {
      c.name += fmt::format(", groups {}", library);
      c.file = chosen->name;
      c.provenance = chosen->source;
      c.residual = entry.grouped.residual;  // of whole layers, so it includes the products' errors
    }
    entry.grouped_id = curves.add(c);
  }
}

void Kernels::State::load_attention(
    const std::vector<std::shared_ptr<const CalibrationFile>>& files, CurveTable& curves) {
  for (int i = 0; i < kAttentionKernels; ++i) {
    const auto kernel = static_cast<job::AttentionKernel>(i);
    PricedAttention& entry = attention[i];
    Curve c;
    c.device = device.name;
    c.kind = CurveKind::attention;
    const CalibrationFile* chosen = nullptr;
    job::AttentionKernel measured = kernel;
    for (const job::AttentionKernel candidate : stand_ins(kernel)) {
      for (const auto& file : files) {
        if (chosen == nullptr && file->kind == CalibrationFile::Kind::attention &&
            file->attention.contains(candidate)) {
          chosen = file.get();
          measured = candidate;
        }
      }
    }
    c.name = fmt::format("attention {} {}", to_string(kernel), device.name);
    if (chosen != nullptr) {
      entry.curve = chosen->attention.at(measured);
      c.file = chosen->name;
      c.provenance = chosen->source;
      if (measured != kernel) {
        c.provenance += fmt::format(" ({} measured as {})", to_string(kernel), to_string(measured));
        entry.curve.residual = together(entry.curve.residual, kKernelDeviation);
      }
    } else {
      entry.curve = datasheet_attention(device, kernel, job::DType::bf16);
      if (device.matrix_unit > 0) {
        c.name = fmt::format("attention splash {}", device.name);
        entry.splash_of_peak =
            entry.curve.rate.begin()->second / peak_flops(device, job::DType::bf16);
      }
      c.name += " datasheet";
      c.file = "datasheet";
      c.provenance = device.source;
    }
    const auto [left, unsure] = power_left(files);
    c.residual = together(entry.curve.residual, unsure);
    if (chosen != nullptr || !std::isfinite(entry.curve.training_cap)) {
      limit_power(left, fastest(entry.curve), entry.curve.training_cap);
    }
    if (chosen != nullptr) {
      scale(entry.curve, over_measured(job::DType::bf16));
      say_scaled(job::DType::bf16, kDatasheetAttentionResidual, c);
    }
    c.common = Common::clock;
    entry.id = entry.backward_id = curves.add(c);
    if (entry.curve.backward_pass) {
      c.name += ", backward";
      c.residual = together(entry.curve.backward_pass->residual,
                            chosen != nullptr && measured != kernel ? kKernelDeviation : 0);
      entry.backward_id = curves.add(c);
    }
  }
}

void Kernels::State::load_memory(const std::vector<std::shared_ptr<const CalibrationFile>>& files,
                                 CurveTable& curves) {
  for (int i = 0; i < kMemoryOpCount; ++i) {
    const auto op = static_cast<MemoryOp>(i);
    Curve c;
    c.device = device.name;
    c.kind = CurveKind::memory;
    c.name = fmt::format("memory {} {}", to_string(op), device.name);
    MemoryCurve curve = datasheet_memory(op);
    c.file = "datasheet";
    c.provenance = device.source;
    for (const auto& file : files) {
      if (file->kind == CalibrationFile::Kind::memory && file->memory.contains(op)) {
        curve = file->memory.at(op);
        c.file = file->name;
        c.provenance = file->source;
        break;
      }
    }
    c.residual = curve.residual;
    memory[i] = {curve, curves.add(c)};
    memory[i].backward_id = memory[i].id;
    if (curve.backward_pass) {
      c.name += ", backward";
      c.residual = curve.backward_pass->residual;
      memory[i].backward_id = curves.add(c);
    }
  }
}

void Kernels::State::scale_copies(CopyDirection direction, double unsure, CopyCurve& copy,
                                  Curve& curve) const {
  const bool within = direction == CopyDirection::device_to_device;
  const double ratio = within ? memory_over_catalogue(device, calibration)
                              : host_link_over_catalogue(device, calibration);
  if (ratio == 1) {
    return;
  }
  const double rate = (within ? device.memory_bandwidth : device.pcie).count();
  copy.bandwidth *= ratio;
  curve.name += fmt::format(", link {}", to_string(Bandwidth(rate)));
  curve.residual = together(curve.residual, unsure);
  curve.scaled = fmt::format("{}: copies measured with {} of {}, their rates scaled to {}",
                             device.name, within ? "a memory" : "a host link",
                             to_string(Bandwidth(rate / ratio)), to_string(Bandwidth(rate)));
}

void Kernels::State::load_copies(const std::vector<std::shared_ptr<const CalibrationFile>>& files,
                                 CurveTable& curves) {
  for (int i = 0; i < kCopyDirections; ++i) {
    for (const bool pinned : {true, false}) {
      const auto direction = static_cast<CopyDirection>(i);
      Curve c;
      c.device = device.name;
      c.kind = CurveKind::copy;
      c.name = fmt::format("copy {} {}", copy_name(direction, pinned), device.name);
      c.file = "datasheet";
      c.provenance = device.source;
      PricedCopy& entry = copies[i][pinned ? 1 : 0];
      const CopyCurve by_data_sheet = datasheet_copy(device, direction, pinned);
      entry.curve = by_data_sheet;
      c.residual = entry.curve.residual;
      for (const auto& file : files) {
        const auto it =
            file->copy.find({direction, pinned || direction == CopyDirection::device_to_device});
        if (it != file->copy.end()) {
          entry.curve = it->second;
          c.residual = entry.curve.residual;
          c.file = file->name;
          c.provenance = file->source;
          scale_copies(direction, by_data_sheet.residual, entry.curve, c);
          break;
        }
      }
      entry.id = curves.add(c);
    }
  }
}

// Without measurements of this device, the curves of overlap are those of the collectives.
void Kernels::State::load_host(const std::vector<std::shared_ptr<const CalibrationFile>>& files,
                               CurveTable& curves) {
  for (const auto& file : files) {
    if (file->overlap && !overlap.measured) {
      const OverlapCurve& o = *file->overlap;
      Curve c;
      c.device = device.name;
      c.kind = CurveKind::overlap;
      c.file = file->name;
      c.provenance = file->source;
      c.name = fmt::format("compute slowed while NCCL holds SMs, {}", device.name);
      c.residual = o.arithmetic_residual;
      const CurveId arithmetic = curves.add(c);
      c.name = fmt::format("compute slowed while NCCL takes memory bandwidth, {}", device.name);
      c.residual = o.memory_residual;
      overlap = {o.arithmetic, o.memory, o.collective, true, arithmetic, curves.add(c)};
    }
    if (file->power && power.rated == 0) {
      power = *file->power;
    }
    if (file->launch && launch.host.count() == 0) {
      launch = {seconds(file->launch->host), seconds(file->launch->graph)};
    }
  }
}

Kernels::Kernels(const job::Device& device, const std::string& library,
                 const std::filesystem::path& calibration_dir, const std::vector<std::string>& only,
                 CurveTable& curves)
    : state_(std::make_unique<State>()) {
  STEPCAST_CHECK(!device.peak.empty() && device.memory_bandwidth.count() > 0,
                 "device '" + device.name + "' has no peak or no memory bandwidth");
  state_->device = device;
  state_->calibration = calibration_dir;
  state_->memory_bandwidth = device.memory_bandwidth.count();
  state_->l2 = static_cast<double>(device.l2.count());
  const auto files = find_calibration(calibration_dir, device.name, only);
  state_->load_gemm(files, library, curves);
  state_->load_attention(files, curves);
  state_->load_memory(files, curves);
  state_->load_grouped(files, library, curves);
  state_->load_copies(files, curves);
  state_->load_host(files, curves);
  state_->software = read_software(calibration_dir);
  const MemoryCurve& stream = state_->memory[static_cast<int>(MemoryOp::copy)].curve;
  state_->attention_device = {sms_of(device), stream.share * state_->memory_bandwidth};
}

void Kernels::scale_clock(double factor) {
  for (PricedGemm& p : state_->gemm) {
    scale(p.curve, factor, 1);
    scale(p.grouped_over, factor, 1);
  }
  for (PricedAttention& p : state_->attention) {
    scale(p.curve, factor);
  }
}

Kernels::~Kernels() = default;
Kernels::Kernels(Kernels&&) noexcept = default;

Priced Kernels::gemm(const GemmQuery& query) const {
  const PricedGemm& p = state_->gemm[static_cast<int>(query.dtype)];
  return {seconds(state_->gemm_time(p.curve, p.peak, query, 1)),
          p.layout_ids[static_cast<int>(query.layout)]};
}

double Kernels::State::gemm_time(const GemmCurve& curve, double peak, const GemmQuery& query,
                                 double factor) const {
  const auto& [shape, dtype, layout, accumulate_fp32, operands_cast, pace, relief] = query;
  const bool sustained = pace != Pace::burst;
  const auto m = static_cast<double>(shape.m);
  const auto n = static_cast<double>(shape.n);
  const auto k = static_cast<double>(shape.k);
  const auto batch = static_cast<double>(shape.batch);
  if (m * n * k * batch <= 0) {
    return 0;
  }
  // Accumulation into the fp32 main gradient reads and writes 4 bytes for each element of the
  // result.
  const bool exposed = accumulate_fp32 && curve.accumulate > 0;
  const double out = accumulate_fp32 && !exposed ? 8 : result_bytes(dtype);
  const double bytes = gemm_bytes(m, n, k, batch, operand_bytes(dtype), out);
  const double flops = 2 * m * n * k * batch;
  const GemmWork work{m, n, k, batch, bytes, !sustained};
  double burst = gemm_seconds(curve.law, work);
  if (layout == Layout::weight_grad || operands_cast) {
    // Both operands of a weight gradient were cast for the forward and input-gradient products.
    burst -= quantise_seconds(curve.law, work);
  }
  if (operands_cast && curve.law.quantise > 0) {
    // The cast is a kernel of its own, so the product's fixed time is that of a 16-bit product.
    const GemmLaw& plain = gemm[static_cast<int>(job::DType::bf16)].curve.law;
    burst -= std::max(0.0, curve.law.fixed - plain.fixed);
  }
  burst *= factor;
  if (!curve.unaligned.empty()) {
    burst *= unaligned_factor(curve, row_alignment(shape, layout, operand_bytes(dtype)));
  }
  const double cap =
      pace == Pace::training ? relief * std::min(curve.cap, curve.training_cap) : curve.cap;
  double t = sustained ? sustained_seconds(burst, flops, cap) : burst;
  if (sustained && !operands_cast && layout != Layout::weight_grad) {
    // Curves of products without casts: the casts of a job's operands are added.
    t += curve.casts * m * k * batch / curve.law.bandwidth;
  }
  if (layout == Layout::input_grad) {
    t *= curve.input_grad;
  } else if (layout == Layout::weight_grad) {
    t *= curve.weight_grad;
  }
  if (exposed) {
    t += curve.accumulate * 8 * m * n * batch / curve.law.bandwidth;
  }
  return std::max({t, flops / peak, (bytes - l2) / memory_bandwidth});
}

Priced Kernels::grouped_gemm(const GemmQuery& each, int groups) const {
  const PricedGemm& p = state_->gemm[static_cast<int>(each.dtype)];
  const double rows =
      static_cast<double>(each.layout == Layout::weight_grad ? each.shape.k : each.shape.m);
  // All groups' tiles fill the SMs together, as those of a batch do.
  GemmQuery all = each;
  all.shape.batch = each.shape.batch * groups;
  return {seconds(state_->gemm_time(p.grouped_over, p.peak, all, p.grouped.at(rows))),
          p.grouped_id};
}

Priced Kernels::expert_layer(const ExpertLayer& layer, job::DType dtype) const {
  const PricedGemm& p = state_->gemm[static_cast<int>(dtype)];
  return {seconds(expert_layer_seconds(p.grouped, p.grouped_over.law, layer, operand_bytes(dtype),
                                       result_bytes(dtype))),
          p.grouped_id};
}

Priced Kernels::attention(const AttentionQuery& query) const {
  const auto& [shape, kernel, dtype, backward, paged_cache, training, relief, splash] = query;
  STEPCAST_CHECK(kernel != job::AttentionKernel::unfused,
                 "unfused attention is priced as GEMMs and a softmax");
  const PricedAttention& p = state_->attention[static_cast<int>(kernel)];
  const double bytes = std::max(2.0, job::bytes_per_element(dtype));
  Priced out{Time{0}, p.id};
  if (attention_flops(shape, backward) > 0) {
    double t =
        p.splash_of_peak > 0
            ? splash_seconds(p.curve, p.splash_of_peak, shape, splash, state_->device.matrix_unit,
                             backward, state_->attention_device, bytes)
            : attention_seconds(p.curve, shape, backward, state_->attention_device, bytes);
    if (training) {
      t = sustained_seconds(t, attention_flops(shape, backward), relief * p.curve.training_cap);
    }
    if (dtype == job::DType::fp32) {
      // Fused kernels exist in 16 bits only; fp32 is slower by the ratio of the peaks.
      t *= std::max(
          1.0, peak_flops(state_->device, job::DType::bf16) / peak_flops(state_->device, dtype));
    }
    if (job::bytes_per_element(dtype) < 2) {
      t = narrow_attention_seconds(t, attention_flops(shape, backward),
                                   peak_flops(state_->device, job::DType::bf16),
                                   peak_flops(state_->device, job::DType::fp8));
    }
    out = {seconds(t), backward ? p.backward_id : p.id};
  }
  if (paged_cache && !backward) {
    out.time = out.time + seconds(cache_seconds(p.curve, shape, state_->attention_device, bytes));
  }
  return out;
}

Priced Kernels::memory(MemoryOp op, Bytes moved, bool backward, std::int64_t row) const {
  const PricedMemory& p = state_->memory[static_cast<int>(op)];
  const bool own = backward && p.curve.backward_pass;
  const CurveId id = own ? p.backward_id : p.id;
  if (moved.count() <= 0) {
    return {Time{0}, id};
  }
  const MemoryPass& pass = own ? *p.curve.backward_pass : p.curve;
  return {seconds(memory_seconds(pass, state_->memory_bandwidth, static_cast<double>(moved.count()),
                                 static_cast<double>(row))),
          id};
}

Priced Kernels::memory_operator(MemoryOp op, Bytes moved, int launches, bool backward,
                                std::int64_t row) const {
  const bool own = backward && state_->memory[static_cast<int>(op)].curve.backward_pass;
  if (launches <= 1 || own) {
    return memory(op, moved, backward, row);
  }
  const Priced one = memory(op, moved / launches, backward);
  return {one.time * launches, one.curve};
}

Time Kernels::single_elements(MemoryOp op, std::int64_t elements, Bytes moved,
                              bool backward) const {
  const double rate =
      state_->software.single_elements * state_->attention_device.sms * clock_of(state_->device);
  if (elements <= 0 || rate <= 0) {
    return Time{0};
  }
  const Time least = seconds(static_cast<double>(elements) / rate);
  return std::max(Time{0}, least - memory(op, moved, backward).time);
}

Priced Kernels::copy(CopyDirection direction, bool pinned, Bytes bytes) const {
  const PricedCopy& p = state_->copies[static_cast<int>(direction)][pinned ? 1 : 0];
  if (bytes.count() <= 0) {
    return {Time{0}, p.id};
  }
  STEPCAST_CHECK(p.curve.bandwidth > 0,
                 "device '" + state_->device.name + "' has no link to its host");
  return {seconds(copy_seconds(p.curve, static_cast<double>(bytes.count()))), p.id};
}

double Kernels::relief(Time products, Time others) const {
  const PowerCurve& power = state_->power;
  if (power.others <= 0 || products <= Time{0}) {
    return 1;
  }
  const double limit = state_->device.power.count();
  const double lowered = limit > 0 && limit < power.rated ? power.rated / limit : 1;
  return clock_relief(to_seconds(others) / to_seconds(products), power.others * lowered,
                      power.exponent);
}

bool Kernels::power_bound(job::AttentionKernel kernel) const {
  return std::isfinite(state_->attention[static_cast<int>(kernel)].curve.training_cap);
}

Overlap Kernels::overlap() const { return state_->overlap; }

const Software& Kernels::software() const { return state_->software; }

Launch Kernels::launch() const { return state_->launch; }

}  // namespace stepcast::cost
