#include "gemm_operands.h"

#include <algorithm>
#include <vector>

namespace stepcast::harness::cuda {
namespace {

using interop::GemmCase;
using job::DType;

constexpr std::size_t kAlignment = 256;  // bytes; the alignment that cublasLt assumes by default

std::size_t round_up(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

// Bytes of one matrix (of all matrices in the batch), rounded up so that the next one is aligned
// too.
std::size_t stride(DType type, const MatrixView& matrix, std::int64_t batch) {
  return round_up(static_cast<std::size_t>(storage_bytes(type, matrix.elements() * batch)));
}

Buffer random_matrices(Context& context, std::size_t bytes, DType type, std::uint64_t seed) {
  Buffer buffer(bytes);
  const std::size_t elements =
      type == DType::nvfp4 ? 2 * bytes : bytes / static_cast<std::size_t>(storage_bytes(type, 1));
  fill_random(context, buffer.data(), elements, type, seed);
  return buffer;
}

// Scale factors that are all one.
Buffer ones(Context& context, ScaleMode mode, std::int64_t outer, std::int64_t k) {
  const auto bytes = static_cast<std::size_t>(scale_bytes(mode, outer, k));
  if (bytes == 0) {
    return {};
  }
  Buffer buffer(bytes);
  if (mode == ScaleMode::vec16 || mode == ScaleMode::vec32) {
    // 1.0 as ue4m3 (bias 7, three bits of mantissa) and as ue8m0 (bias 127).
    const int one = mode == ScaleMode::vec16 ? 7 << 3 : 127;
    check(cudaMemsetAsync(buffer.data(), one, bytes, context.stream), "scale factors");
  } else {
    const std::vector<float> host(bytes / sizeof(float), 1.0F);
    check(
        cudaMemcpyAsync(buffer.data(), host.data(), bytes, cudaMemcpyHostToDevice, context.stream),
        "scale factors");
    check(cudaStreamSynchronize(context.stream), "scale factors");  // `host` is destroyed on return
  }
  return buffer;
}

}  // namespace

int rotated_copies(const Context& context, std::int64_t bytes_each, int most) {
  std::size_t free = 0;
  std::size_t total = 0;
  check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  const std::int64_t wanted = 2 * std::int64_t{context.properties.l2CacheSize} / bytes_each + 1;
  const std::int64_t affordable = static_cast<std::int64_t>(free / 3) / bytes_each;
  return static_cast<int>(
      std::clamp<std::int64_t>(std::min(wanted, affordable), 1, std::max(1, most)));
}

GemmOperands::GemmOperands(Context& context, const GemmCase& what, const GemmView& view, int copies,
                           std::uint64_t seed)
    : copies_(copies), groups_(static_cast<std::size_t>(what.groups)) {
  const DType in = operand_type(what.dtype);
  const DType out = output_type(what);
  a_stride_ = stride(in, view.a, view.batch);
  b_stride_ = stride(in, view.b, view.batch);
  d_stride_ = stride(out, view.d, view.batch);
  const std::size_t sets = static_cast<std::size_t>(copies) * groups_;
  a_ = random_matrices(context, sets * a_stride_, in, seed);
  b_ = random_matrices(context, sets * b_stride_, in, seed + 1);
  d_ = Buffer(sets * d_stride_);
  check(cudaMemsetAsync(d_.data(), 0, d_.size(), context.stream), "clearing D");
  const Scales modes = scale_modes(what);
  a_scales_ = ones(context, modes.a, view.m, view.k);
  b_scales_ = ones(context, modes.b, view.n, view.k);
  check(cudaStreamSynchronize(context.stream), "filling operands");
}

}  // namespace stepcast::harness::cuda
