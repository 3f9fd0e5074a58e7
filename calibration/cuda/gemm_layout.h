// How cuBLAS sees a GemmCase: a pure function of the case, without CUDA, so that it is tested
// against plain loops (tests/unit/harness/gemm_layout.cpp).
//
// A linear layer Y[t, o] = X[t, i] W[o, i]^T, everything row-major as PyTorch and Megatron store
// it. cuBLAS is column-major: a row-major matrix [r, c] is to it a column-major one of c rows and r
// columns with leading dimension c. So each pass is computed as the transpose of what it is called:
//
// clang-format off
//   pass         case (m, n, k)  D row-major  cuBLAS: D (M x N) =  op A          op B
//   forward      (t, o, i)       Y  [m, n]    Y^T  = W X^T         T: W  [n, k]  N: X  [m, k]
//   input_grad   (t, i, o)       dX [m, n]    dX^T = W^T dY^T      N: W  [k, n]  N: dY [m, k]
//   weight_grad  (i, o, t)       dW [n, m]    dW^T = X^T dY        N: X  [k, m]  T: dY [k, n]
// clang-format on
//
// (A and B in the last two columns: row-major, as stored.) M, N = n, m for the first two and m, n
// for the weight gradient. In every pass D = A B of the case's header, with A and B read as
// X or dY and W; for the weight gradient D[m, n] is stored transposed, as dW is.
//
// 8-bit tensor cores up to Hopper read both operands along k only (TN), so frameworks keep
// transposed copies of what a pass needs: with `k_innermost` all three passes run as TN, with
//   input_grad    T: W^T [n, k],  N: dY   [m, k]
//   weight_grad   T: X^T [m, k],  N: dY^T [n, k]
// Making those copies is no part of the product and not timed here.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "stepcast/interop/gpu_measurements.h"
#include "target.h"

namespace stepcast::harness::cuda {

struct MatrixView {  // column-major, as stored
  std::int64_t rows = 0, cols = 0;
  std::int64_t ld = 0;      // elements between the starts of columns
  bool transposed = false;  // cuBLAS's op
  std::int64_t elements() const { return ld * cols; }
  friend bool operator==(const MatrixView&, const MatrixView&) = default;
};

struct GemmView {
  std::int64_t m = 0, n = 0, k = 0;  // in cuBLAS's sense
  MatrixView a, b, d;
  std::int64_t batch = 1;  // number of contiguous matrices
};
GemmView gemm_view(const interop::GemmCase& what, bool k_innermost);

// True if this element type is multiplied only as TN.
bool needs_k_innermost(job::DType dtype, const GpuTarget& target);

// The types in which D and the operands are stored: tf32 is stored as fp32.
job::DType operand_type(job::DType dtype);
job::DType output_type(const interop::GemmCase& what);
std::int64_t storage_bytes(job::DType dtype, std::int64_t elements);

// Granularity of the operands' scale factors. cuBLAS manual, "Narrow precision data types usage".
enum class ScaleMode {
  none,
  tensor,  // one fp32
  vec16,   // one ue4m3 for 16 elements along k (nvfp4), in tiles of 128 rows by 4 factors
  vec32,   // one ue8m0 for 32 elements along k (mxfp8), in the same tiles
  vec128,  // one fp32 for 128 elements along k (activations and gradients of DeepSeek-V3's recipe)
  block128,  // one fp32 for a block of 128 x 128 (its weights)
};
struct Scales {
  ScaleMode a = ScaleMode::none, b = ScaleMode::none;
};
Scales scale_modes(const interop::GemmCase& what);
// Size of the scale factors, padded as the library reads them. `outer` is the operand's dimension
// other than k.
std::int64_t scale_bytes(ScaleMode mode, std::int64_t outer, std::int64_t k);

// Bytes of one set of operands and results with their scales, over all groups and matrices of the
// batch.
std::int64_t working_set(const interop::GemmCase& what, const GemmView& view);

// Why the product cannot run on such a device; nullopt: the library decides. Sizes that 8-bit
// kernels refuse are refused and not padded, since frameworks pad tokens themselves.
std::optional<std::string> refusal(const interop::GemmCase& what, const GpuTarget& target);

}  // namespace stepcast::harness::cuda
