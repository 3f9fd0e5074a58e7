// Device memory of one product or one group of products: random operands, results, scale factors
// and the library's workspace.
#pragma once

#include <cstddef>
#include <cstdint>

#include "bench.h"
#include "gemm_layout.h"

namespace stepcast::harness::cuda {

// Number of operand sets through which repetitions rotate, so that none finds its operands in L2.
// Together they exceed twice the size of L2; at most a third of the free memory and at most `most`
// sets are used.
int rotated_copies(const Context& context, std::int64_t bytes_each, int most);

class GemmOperands {
 public:
  // Allocates `copies` operand sets of all groups. They hold random numbers and never zeros: power,
  // and with it the clock, depends on the bits that flip. D starts at zero, and scale factors are
  // one.
  GemmOperands(Context& context, const interop::GemmCase& what, const GemmView& view, int copies,
               std::uint64_t seed);

  const void* a(int copy, int group) const { return at(a_, a_stride_, copy, group); }
  const void* b(int copy, int group) const { return at(b_, b_stride_, copy, group); }
  void* d(int copy, int group) const { return at(d_, d_stride_, copy, group); }
  // Shared by all sets; null if there are none.
  const void* a_scales() const { return a_scales_.data(); }
  const void* b_scales() const { return b_scales_.data(); }
  int copies() const { return copies_; }

 private:
  std::byte* at(const Buffer& buffer, std::size_t stride, int copy, int group) const {
    return buffer.as<std::byte>() + (static_cast<std::size_t>(copy) * groups_ + group) * stride;
  }

  int copies_ = 1;
  std::size_t groups_ = 1;
  std::size_t a_stride_ = 0, b_stride_ = 0, d_stride_ = 0;  // bytes between the starts of groups
  Buffer a_, b_, d_, a_scales_, b_scales_;
};

}  // namespace stepcast::harness::cuda
