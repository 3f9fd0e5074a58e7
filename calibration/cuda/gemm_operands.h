// Device memory of one product or one group of products: random operands, results, scale factors
// and the library's workspace.
#pragma once

#include <cstddef>
#include <cstdint>

#include "bench.h"
#include "gemm_layout.h"

namespace stepcast::harness::cuda {

double compute_capability(const Context& context);

// Sets of operands through which repetitions rotate, so that none finds its own in L2: together
// they exceed twice its size, bounded by a third of the free memory and by `most`.
int rotated_copies(const Context& context, std::int64_t bytes_each, int most);

class GemmOperands {
 public:
  // `copies` sets of all groups. Random numbers, never zeros: power, and with it the clock, follows
  // the bits that flip. D starts at zero, scale factors at one.
  GemmOperands(Context& context, const interop::GemmCase& what, const GemmView& view, int copies,
               std::uint64_t seed);

  const void* a(int copy, int group) const { return at(a_, a_stride_, copy, group); }
  const void* b(int copy, int group) const { return at(b_, b_stride_, copy, group); }
  void* d(int copy, int group) const { return at(d_, d_stride_, copy, group); }
  const void* a_scales() const { return a_scales_.data(); }  // shared by all: null where none
  const void* b_scales() const { return b_scales_.data(); }
  int copies() const { return copies_; }

 private:
  std::byte* at(const Buffer& buffer, std::size_t stride, int copy, int group) const {
    return buffer.as<std::byte>() + (static_cast<std::size_t>(copy) * groups_ + group) * stride;
  }

  int copies_ = 1;
  std::size_t groups_ = 1;
  std::size_t a_stride_ = 0, b_stride_ = 0, d_stride_ = 0;  // bytes from one group to the next
  Buffer a_, b_, d_, a_scales_, b_scales_;
};

}  // namespace stepcast::harness::cuda
