// The measured size is the requested one: the shapes of memory-bound cases.
#include <cmath>

#include "calibration/cuda/memory_shape.h"
#include "calibration/harness/device.h"
#include "catch.hpp"

using namespace stepcast;
using namespace stepcast::harness::cuda;
using interop::MemoryCase;
using job::DType;

namespace {

MemoryCase memory_case(const std::string& op, std::int64_t bytes, DType dtype = DType::bf16,
                       bool backward = false) {
  return {op, dtype, bytes, backward};
}

}  // namespace

TEST_CASE("Sizes are met within one row or 16 bytes a tensor, from 4 KiB to 8 GiB") {
  for (const DType dtype : {DType::bf16, DType::fp16, DType::fp32}) {
    const double e = job::bytes_per_element(dtype);
    for (const bool backward : {false, true}) {
      for (const char* op : {"copy", "add", "norm", "activation", "cross_entropy", "optimizer"}) {
        const bool flat =
            std::string(op) == "copy" || std::string(op) == "add" || std::string(op) == "optimizer";
        if (flat && backward) {
          continue;
        }
        for (double bytes = 4096; bytes <= 8.0 * (1ll << 30); bytes *= 1.7) {
          const auto wanted = static_cast<std::int64_t>(bytes);
          const MemoryShape shape = memory_shape(memory_case(op, wanted, dtype, backward));
          INFO(op << (backward ? " backward " : " ") << e << " " << wanted << " got " << shape.moved
                  << ": " << shape.rows.rows << " x " << shape.rows.width);
          const double off = std::abs(static_cast<double>(shape.moved - wanted));
          if (flat) {
            CHECK(off < 16 * 15);  // at most 8 parameters of 30 bytes
          } else {
            const double row =
                static_cast<double>(shape.moved) / static_cast<double>(shape.rows.rows);
            CHECK(off <= 0.5 * row + 1);
            CHECK(off <= bytes * 0.035);
            CHECK(shape.rows.width * e >= 16);
            CHECK(shape.elements == shape.rows.rows * static_cast<std::size_t>(shape.rows.width));
          }
          CHECK(std::fmod(static_cast<double>(shape.elements) * e, 16) == 0);
        }
      }
    }
  }
}

TEST_CASE("Large cases have the widths of models and as many rows as keep a GPU busy") {
  CHECK(memory_shape(memory_case("norm", 1 << 28)).rows.width == 8192);
  CHECK(memory_shape(memory_case("norm", 10 << 20)).rows.width == 4096);
  CHECK(memory_shape(memory_case("cross_entropy", 1 << 30)).rows.width == 131072);
  CHECK(memory_shape(memory_case("norm", 1 << 20)).rows.rows >= 512);
}

TEST_CASE("Bytes are those that the operation reads and writes") {
  // 2^26 bf16 elements: two tensors of 2^27 bytes.
  CHECK(memory_shape(memory_case("copy", 1 << 28)).elements == 1u << 26);
  // gate, up, dy, dgate, dup.
  const MemoryShape swiglu = memory_shape(memory_case("activation", 1 << 28, DType::fp32, true));
  CHECK(swiglu.moved == static_cast<std::int64_t>(swiglu.elements) * 5 * 4);
  // fp32 gradient; master, m and v read and written; bf16 parameter.
  const MemoryShape adam = memory_shape(memory_case("optimizer", 1 << 28));
  CHECK(adam.moved == static_cast<std::int64_t>(adam.elements) * (4 + 3 * 8 + 2));
  const MemoryShape norm = memory_shape(memory_case("norm", 1 << 24));
  CHECK(norm.moved == static_cast<std::int64_t>(norm.elements) * 4 +
                          static_cast<std::int64_t>(norm.rows.rows) * 4 + norm.rows.width * 2);
}

TEST_CASE("What is not measured is refused") {
  using harness::Unsupported;
  CHECK_THROWS_AS(memory_shape(memory_case("copy", 1 << 20, DType::fp8)), Unsupported);
  CHECK_THROWS_AS(memory_shape(memory_case("copy", 1000)), Unsupported);
  CHECK_THROWS_AS(memory_shape(memory_case("permute", 1 << 20)), Unsupported);
  CHECK_THROWS_AS(memory_shape(memory_case("optimizer", 1 << 20, DType::bf16, true)), Unsupported);
}
