#include "gemm_layout.h"

#include <fmt/format.h>

#include <limits>

namespace stepcast::harness::cuda {
namespace {

using interop::GemmCase;
using interop::GemmLayout;
using job::DType;

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
std::int64_t round_up(std::int64_t a, std::int64_t b) { return ceil_div(a, b) * b; }

MatrixView packed(std::int64_t rows, std::int64_t cols, bool transposed) {
  return {rows, cols, rows, transposed};
}

bool narrow(DType t) {
  return t == DType::fp8 || t == DType::fp8_block || t == DType::mxfp8 || t == DType::nvfp4;
}

}  // namespace

GemmView gemm_view(const GemmCase& what, bool k_innermost) {
  const std::int64_t k = what.k;
  GemmView v;
  v.k = k;
  v.batch = what.batch;
  const bool weight_grad = what.layout == GemmLayout::weight_grad;
  v.m = weight_grad ? what.m : what.n;
  v.n = weight_grad ? what.n : what.m;
  v.d = packed(v.m, v.n, false);
  const bool a_transposed = k_innermost || what.layout == GemmLayout::forward;
  const bool b_transposed = !k_innermost && weight_grad;
  v.a = a_transposed ? packed(k, v.m, true) : packed(v.m, k, false);
  v.b = b_transposed ? packed(v.n, k, true) : packed(k, v.n, false);
  return v;
}

bool needs_k_innermost(DType dtype, const GpuTarget& target) {
  const double compute_capability = target.compute_capability;
  switch (dtype) {
    case DType::fp8:
    case DType::mxfp8:
      if (target.amd()) {
        // CDNA's matrix cores read 8-bit operands in either layout; scales of blocks run along k.
        return dtype == DType::mxfp8;
      }
      // Data-centre Blackwell (10.x) reads 8-bit operands in either layout; Ada (8.9), Hopper (9.0)
      // and GeForce Blackwell (12.x) do not (cuBLAS manual, FP8 data types usage).
      return !(compute_capability >= 10 && compute_capability < 12);
    case DType::fp8_block:
    case DType::nvfp4:
      return true;
    default:
      return false;
  }
}

DType operand_type(DType dtype) {
  switch (dtype) {
    case DType::tf32:
      return DType::fp32;
    case DType::fp8_block:
    case DType::mxfp8:
      return DType::fp8;
    default:
      return dtype;
  }
}

DType output_type(const GemmCase& what) {
  if (what.accumulate_fp32) {
    return DType::fp32;
  }
  return narrow(what.dtype) ? DType::bf16 : operand_type(what.dtype);
}

std::int64_t storage_bytes(DType dtype, std::int64_t elements) {
  switch (dtype) {
    case DType::fp32:
    case DType::tf32:
      return 4 * elements;
    case DType::bf16:
    case DType::fp16:
      return 2 * elements;
    case DType::nvfp4:
    case DType::mxfp4:
      return ceil_div(elements, 2);
    default:
      return elements;
  }
}

Scales scale_modes(const GemmCase& what) {
  switch (what.dtype) {
    case DType::fp8:
      return {ScaleMode::tensor, ScaleMode::tensor};
    case DType::mxfp8:
      return {ScaleMode::vec32, ScaleMode::vec32};
    case DType::nvfp4:
      return {ScaleMode::vec16, ScaleMode::vec16};
    case DType::fp8_block:
      // cuBLAS's A is the weight, except in the weight gradient, where it is the input.
      return {what.layout == GemmLayout::weight_grad ? ScaleMode::vec128 : ScaleMode::block128,
              ScaleMode::vec128};
    default:
      return {};
  }
}

std::int64_t scale_bytes(ScaleMode mode, std::int64_t outer, std::int64_t k) {
  const std::int64_t fp32 = 4;
  switch (mode) {
    case ScaleMode::none:
      return 0;
    case ScaleMode::tensor:
      return fp32;
    case ScaleMode::vec16:
      return round_up(outer, 128) * round_up(ceil_div(k, 16), 4);
    case ScaleMode::vec32:
      return round_up(outer, 128) * round_up(ceil_div(k, 32), 4);
    case ScaleMode::vec128:  // `outer` varies fastest
      return round_up(outer, 4) * ceil_div(k, 128) * fp32;
    case ScaleMode::block128:  // k varies fastest, and columns are at least 16 bytes apart
      return round_up(ceil_div(k, 128), 4) * ceil_div(outer, 128) * fp32;
  }
  return 0;
}

std::int64_t working_set(const GemmCase& what, const GemmView& v) {
  const DType in = operand_type(what.dtype);
  const Scales scales = scale_modes(what);
  const std::int64_t one = storage_bytes(in, v.a.elements()) + storage_bytes(in, v.b.elements()) +
                           storage_bytes(output_type(what), v.d.elements()) +
                           scale_bytes(scales.a, v.m, v.k) + scale_bytes(scales.b, v.n, v.k);
  return one * v.batch * what.groups;
}

namespace {

// What hipBLASLt 1.1 (ROCm 7.1) multiplies: hipblaslt.h calls the scales of nvfp4 and of fp8 in
// blocks "not supported yet".
std::optional<std::string> amd_refusal(DType dtype, const std::string& architecture) {
  const bool cdna3 = architecture.starts_with("gfx94");
  const bool cdna4 = architecture.starts_with("gfx95");
  const auto needs = [&](const char* what) {
    return fmt::format("{} needs {}, this is {}", job::to_string(dtype), what, architecture);
  };
  switch (dtype) {
    case DType::fp8:
      return cdna3 || cdna4 ? std::nullopt : std::optional(needs("CDNA 3 (gfx942) or later"));
    case DType::mxfp8:
      return cdna4 ? std::nullopt : std::optional(needs("CDNA 4 (gfx950)"));
    case DType::tf32:
      // MI300's matrix cores round fp32 to 19 bits; MI350 has no such instruction.
      return cdna3 ? std::nullopt : std::optional(needs("CDNA 3 (gfx942)"));
    case DType::fp8_block:
    case DType::nvfp4:
    case DType::mxfp4:
    case DType::int8:
      return fmt::format("{} products of hipBLASLt are not measured", job::to_string(dtype));
    case DType::fp32:
    case DType::bf16:
    case DType::fp16:
      break;
  }
  return std::nullopt;
}

std::optional<std::string> nvidia_refusal(DType dtype, double cc) {
  const auto needs = [&](const char* architecture) {
    return fmt::format("{} needs {}, this is compute capability {:.1f}", job::to_string(dtype),
                       architecture, cc);
  };
  switch (dtype) {
    case DType::fp32:
      break;
    case DType::fp16:
      return cc < 7.0 ? std::optional(needs("Volta (7.0) or later")) : std::nullopt;
    case DType::bf16:
    case DType::tf32:
      return cc < 8.0 ? std::optional(needs("Ampere (8.0) or later")) : std::nullopt;
    case DType::fp8:
      return cc < 8.9 ? std::optional(needs("Ada (8.9) or later")) : std::nullopt;
    case DType::fp8_block:
      // Only Hopper has fp32 block scales; Blackwell's block format is mxfp8.
      return cc < 9.0 || cc >= 10.0 ? std::optional(needs("Hopper (9.0)")) : std::nullopt;
    case DType::mxfp8:
    case DType::nvfp4:
      return cc < 10.0 ? std::optional(needs("Blackwell (10.0) or later")) : std::nullopt;
    case DType::int8:
      return "int8 products are not measured";
    case DType::mxfp4:
      return "cuBLAS multiplies no mxfp4";
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> refusal(const GemmCase& what, const GpuTarget& target) {
  // cublasLt takes most sizes as 32-bit integers.
  const std::int64_t largest = std::numeric_limits<std::int32_t>::max();
  for (const std::int64_t size : {what.m, what.n, what.k, what.batch}) {
    if (size < 1 || size > largest) {
      return fmt::format("a size of {} is outside cublasLt's range", size);
    }
  }
  if (what.groups < 1 || (what.groups > 1 && what.batch > 1)) {
    return "groups of batches are not measured";
  }
  if (auto why = target.amd() ? amd_refusal(what.dtype, target.architecture)
                              : nvidia_refusal(what.dtype, target.compute_capability)) {
    return why;
  }
  if (!narrow(what.dtype)) {
    return std::nullopt;
  }
  if (what.batch > 1 && what.dtype != DType::fp8) {
    return fmt::format("{} has no batched product", job::to_string(what.dtype));
  }
  const GemmView v = gemm_view(what, needs_k_innermost(what.dtype, target));
  // Each operand is a multiple of 16 bytes, so that D's columns (bf16 or fp32) are aligned too.
  const std::int64_t multiple = what.dtype == DType::nvfp4 ? 32 : 16;
  for (const std::int64_t ld : {v.a.ld, v.b.ld, v.d.ld}) {
    if (ld % multiple != 0) {
      return fmt::format("{} needs multiples of {} elements, not {}", job::to_string(what.dtype),
                         multiple, ld);
    }
  }
  if (what.dtype == DType::mxfp8 && what.k % 32 != 0) {
    return fmt::format("mxfp8 needs multiples of 32 along k, not {}", what.k);
  }
  if (what.dtype == DType::fp8_block && v.n % 4 != 0) {
    return fmt::format("columns of scales need 16 bytes: a multiple of 4, not {}", v.n);
  }
  return std::nullopt;
}

}  // namespace stepcast::harness::cuda
