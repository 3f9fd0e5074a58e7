// The arguments to cuBLAS must compute the product of the linear layer: plain loops over row-major
// tensors are compared with a plain column-major GEMM under the mapping.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "calibration/cuda/gemm_layout.h"
#include "catch.hpp"

using namespace stepcast;
using namespace stepcast::harness::cuda;
using interop::GemmCase;
using interop::GemmLayout;
using job::DType;

namespace {

struct RowMajor {
  std::int64_t rows = 0, cols = 0;
  std::vector<double> values;
  RowMajor(std::int64_t r, std::int64_t c)
      : rows(r), cols(c), values(static_cast<std::size_t>(r * c)) {}
  double& at(std::int64_t r, std::int64_t c) {
    return values[static_cast<std::size_t>(r * cols + c)];
  }
  double at(std::int64_t r, std::int64_t c) const {
    return values[static_cast<std::size_t>(r * cols + c)];
  }
  RowMajor transposed() const {
    RowMajor t(cols, rows);
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t c = 0; c < cols; ++c) {
        t.at(c, r) = at(r, c);
      }
    }
    return t;
  }
};

// Small integers: sums of products are exact, and neighbouring entries differ.
RowMajor numbers(std::int64_t rows, std::int64_t cols, int seed) {
  RowMajor x(rows, cols);
  for (std::size_t i = 0; i < x.values.size(); ++i) {
    x.values[i] = static_cast<double>((static_cast<int>(i) * 37 + seed * 101) % 199 - 99);
  }
  return x;
}

// BLAS's definition: D = op(A) op(B), column-major, element (r, c) at r + c * ld.
std::vector<double> column_major_gemm(const GemmView& v, const std::vector<double>& a,
                                      const std::vector<double>& b) {
  const auto read = [](const MatrixView& m, const std::vector<double>& x, std::int64_t r,
                       std::int64_t c) {
    const std::int64_t row = m.transposed ? c : r;
    const std::int64_t col = m.transposed ? r : c;
    REQUIRE(row < m.rows);
    REQUIRE(col < m.cols);
    return x.at(static_cast<std::size_t>(row + col * m.ld));
  };
  std::vector<double> d(static_cast<std::size_t>(v.d.elements()));
  for (std::int64_t c = 0; c < v.n; ++c) {
    for (std::int64_t r = 0; r < v.m; ++r) {
      double sum = 0;
      for (std::int64_t i = 0; i < v.k; ++i) {
        sum += read(v.a, a, r, i) * read(v.b, b, i, c);
      }
      d.at(static_cast<std::size_t>(r + c * v.d.ld)) = sum;
    }
  }
  return d;
}

GemmCase make(DType dtype, GemmLayout layout, std::int64_t m, std::int64_t n, std::int64_t k) {
  GemmCase c;
  c.dtype = dtype;
  c.layout = layout;
  c.m = m;
  c.n = n;
  c.k = k;
  return c;
}

constexpr std::int64_t kTokens = 5, kInputs = 7, kOutputs = 3;

}  // namespace

TEST_CASE("forward: Y = X W^T") {
  const RowMajor x = numbers(kTokens, kInputs, 1);
  const RowMajor w = numbers(kOutputs, kInputs, 2);  // in the layout of nn.Linear
  RowMajor y(kTokens, kOutputs);
  for (std::int64_t t = 0; t < kTokens; ++t) {
    for (std::int64_t o = 0; o < kOutputs; ++o) {
      for (std::int64_t i = 0; i < kInputs; ++i) {
        y.at(t, o) += x.at(t, i) * w.at(o, i);
      }
    }
  }
  for (const bool k_innermost : {false, true}) {
    const GemmView v =
        gemm_view(make(DType::bf16, GemmLayout::forward, kTokens, kOutputs, kInputs), k_innermost);
    CHECK(v.a.transposed);
    CHECK_FALSE(v.b.transposed);
    CHECK(column_major_gemm(v, w.values, x.values) == y.values);
  }
}

TEST_CASE("input gradient: dX = dY W") {
  const RowMajor dy = numbers(kTokens, kOutputs, 3);
  const RowMajor w = numbers(kOutputs, kInputs, 4);
  RowMajor dx(kTokens, kInputs);
  for (std::int64_t t = 0; t < kTokens; ++t) {
    for (std::int64_t i = 0; i < kInputs; ++i) {
      for (std::int64_t o = 0; o < kOutputs; ++o) {
        dx.at(t, i) += dy.at(t, o) * w.at(o, i);
      }
    }
  }
  const GemmCase c = make(DType::bf16, GemmLayout::input_grad, kTokens, kInputs, kOutputs);
  const GemmView nn = gemm_view(c, false);
  CHECK_FALSE(nn.a.transposed);
  CHECK_FALSE(nn.b.transposed);
  CHECK(column_major_gemm(nn, w.values, dy.values) == dx.values);
  const GemmView tn = gemm_view(c, true);
  CHECK(tn.a.transposed);
  CHECK_FALSE(tn.b.transposed);
  CHECK(column_major_gemm(tn, w.transposed().values, dy.values) == dx.values);
}

TEST_CASE("weight gradient: dW = dY^T X, stored as the weight is") {
  const RowMajor dy = numbers(kTokens, kOutputs, 5);
  const RowMajor x = numbers(kTokens, kInputs, 6);
  RowMajor dw(kOutputs, kInputs);
  for (std::int64_t o = 0; o < kOutputs; ++o) {
    for (std::int64_t i = 0; i < kInputs; ++i) {
      for (std::int64_t t = 0; t < kTokens; ++t) {
        dw.at(o, i) += dy.at(t, o) * x.at(t, i);
      }
    }
  }
  const GemmCase c = make(DType::bf16, GemmLayout::weight_grad, kInputs, kOutputs, kTokens);
  const GemmView nt = gemm_view(c, false);
  CHECK_FALSE(nt.a.transposed);
  CHECK(nt.b.transposed);
  CHECK(column_major_gemm(nt, x.values, dy.values) == dw.values);
  const GemmView tn = gemm_view(c, true);
  CHECK(tn.a.transposed);
  CHECK_FALSE(tn.b.transposed);
  CHECK(column_major_gemm(tn, x.transposed().values, dy.transposed().values) == dw.values);
}

TEST_CASE("matrices have no gaps and are as large as the case says, beyond 2^31 elements too") {
  const std::int64_t m = 1 << 20, n = 57344, k = 8192;  // D alone has 60e9 elements
  for (const GemmLayout layout :
       {GemmLayout::forward, GemmLayout::input_grad, GemmLayout::weight_grad}) {
    for (const bool k_innermost : {false, true}) {
      GemmCase c = make(DType::bf16, layout, m, n, k);
      const GemmView v = gemm_view(c, k_innermost);
      CHECK(v.a.elements() == (layout == GemmLayout::weight_grad ? m * k : n * k));
      CHECK(v.b.elements() == (layout == GemmLayout::weight_grad ? n * k : m * k));
      CHECK(v.d.elements() == m * n);
      CHECK(working_set(c, v) == 2 * (m * k + n * k + m * n));
      c.accumulate_fp32 = true;
      CHECK(working_set(c, v) == 2 * (m * k + n * k) + 4 * m * n);
      c.groups = 8;
      CHECK(working_set(c, v) == 8 * (2 * (m * k + n * k) + 4 * m * n));
    }
  }
}

TEST_CASE("operands and results of each type") {
  const auto out = [](DType t, bool accumulate) {
    GemmCase c = make(t, GemmLayout::weight_grad, 16, 16, 16);
    c.accumulate_fp32 = accumulate;
    return output_type(c);
  };
  CHECK(out(DType::bf16, false) == DType::bf16);
  CHECK(out(DType::fp16, false) == DType::fp16);
  CHECK(out(DType::tf32, false) == DType::fp32);
  for (const DType t : {DType::fp8, DType::fp8_block, DType::mxfp8, DType::nvfp4}) {
    CHECK(out(t, false) == DType::bf16);
    CHECK(out(t, true) == DType::fp32);
  }
  CHECK(operand_type(DType::tf32) == DType::fp32);
  CHECK(operand_type(DType::mxfp8) == DType::fp8);
  CHECK(storage_bytes(DType::nvfp4, 3) == 2);
}

TEST_CASE("scale factors: one for each block, padded to what the library reads") {
  // 300 x 1000: tiles of 128 x 4 factors, columns of four fp32 factors.
  CHECK(scale_bytes(ScaleMode::none, 300, 1000) == 0);
  CHECK(scale_bytes(ScaleMode::tensor, 300, 1000) == 4);
  CHECK(scale_bytes(ScaleMode::vec32, 300, 1000) == 384 * 32);
  CHECK(scale_bytes(ScaleMode::vec16, 300, 1000) == 384 * 64);
  CHECK(scale_bytes(ScaleMode::vec128, 300, 1000) == 4 * 300 * 8);
  CHECK(scale_bytes(ScaleMode::block128, 300, 1000) == 4 * 3 * 8);
  CHECK(scale_bytes(ScaleMode::block128, 128, 128) == 4 * 4);
  // DeepSeek-V3's recipe: blocks for weights, groups of 128 along rows for all other operands.
  CHECK(scale_modes(make(DType::fp8_block, GemmLayout::forward, 1, 1, 1)).a == ScaleMode::block128);
  CHECK(scale_modes(make(DType::fp8_block, GemmLayout::input_grad, 1, 1, 1)).a ==
        ScaleMode::block128);
  CHECK(scale_modes(make(DType::fp8_block, GemmLayout::weight_grad, 1, 1, 1)).a ==
        ScaleMode::vec128);
}

TEST_CASE("what a device cannot multiply is refused with the reason") {
  const auto why = [](DType t, double cc, std::int64_t m, std::int64_t n, std::int64_t k) {
    return refusal(make(t, GemmLayout::forward, m, n, k), cc).value_or("");
  };
  CHECK(why(DType::bf16, 8.0, 5, 7, 3).empty());
  CHECK(why(DType::bf16, 7.0, 16, 16, 16).find("Ampere") != std::string::npos);
  CHECK(why(DType::fp8, 8.0, 16, 16, 16).find("Ada") != std::string::npos);
  CHECK(why(DType::fp8, 9.0, 16, 16, 16).empty());
  // Any number of tokens is allowed in the forward product.
  CHECK(why(DType::fp8, 9.0, 5, 16, 16).empty());
  CHECK(why(DType::fp8, 9.0, 16, 24, 16).find("multiples of 16") != std::string::npos);
  CHECK(why(DType::fp8, 9.0, 16, 16, 24).find("multiples of 16") != std::string::npos);
  CHECK(why(DType::fp8_block, 9.0, 128, 128, 128).empty());
  CHECK(why(DType::fp8_block, 10.0, 128, 128, 128).find("Hopper") != std::string::npos);
  CHECK(why(DType::fp8_block, 9.0, 130, 128, 128).find("multiple of 4") != std::string::npos);
  CHECK(why(DType::mxfp8, 9.0, 128, 128, 128).find("Blackwell") != std::string::npos);
  CHECK(why(DType::mxfp8, 10.0, 128, 128, 128).empty());
  CHECK(why(DType::mxfp8, 10.0, 128, 128, 48).find("32") != std::string::npos);
  CHECK(why(DType::int8, 9.0, 16, 16, 16).find("int8") != std::string::npos);
  CHECK_FALSE(why(DType::bf16, 9.0, std::int64_t{1} << 31, 16, 16).empty());
  CHECK_FALSE(why(DType::bf16, 9.0, 0, 16, 16).empty());
  // Tokens are the k of the weight gradient, and before Blackwell 8-bit operands are read along k.
  CHECK(refusal(make(DType::fp8, GemmLayout::weight_grad, 64, 64, 24), 9.0).has_value());
  CHECK_FALSE(refusal(make(DType::fp8, GemmLayout::weight_grad, 64, 64, 24), 10.0).has_value());
  CHECK(needs_k_innermost(DType::fp8, 12.0));
}

TEST_CASE("what an AMD GPU cannot multiply by hipBLASLt is refused with the reason") {
  const GpuTarget mi200("gfx90a");
  const GpuTarget mi300("gfx942");
  const GpuTarget mi350("gfx950");
  const auto why = [](DType t, const GpuTarget& target, std::int64_t k = 128) {
    return refusal(make(t, GemmLayout::forward, 128, 128, k), target).value_or("");
  };
  for (const GpuTarget& target : {mi200, mi300, mi350}) {
    for (const DType t : {DType::fp32, DType::fp16, DType::bf16}) {
      CHECK(why(t, target).empty());
    }
    for (const DType t : {DType::fp8_block, DType::nvfp4, DType::mxfp4, DType::int8}) {
      CHECK(why(t, target).find("not measured") != std::string::npos);
    }
  }
  CHECK(why(DType::fp8, mi200).find("CDNA 3 (gfx942) or later, this is gfx90a") !=
        std::string::npos);
  CHECK(why(DType::fp8, mi300).empty());
  CHECK(why(DType::fp8, mi350).empty());
  CHECK(why(DType::fp8, mi300, 24).find("multiples of 16") != std::string::npos);
  CHECK(why(DType::mxfp8, mi300).find("CDNA 4") != std::string::npos);
  CHECK(why(DType::mxfp8, mi350).empty());
  CHECK(why(DType::tf32, mi300).empty());
  CHECK(why(DType::tf32, mi350).find("CDNA 3") != std::string::npos);
  CHECK_FALSE(needs_k_innermost(DType::fp8, mi300));
  CHECK(needs_k_innermost(DType::mxfp8, mi350));
}
