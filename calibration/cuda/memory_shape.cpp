#include "memory_shape.h"

#include <algorithm>
#include <array>
#include <span>

#include "../harness/device.h"

namespace stepcast::harness::cuda {
namespace {

// Norms of a 70B and a 7B model, fused gate and up projections of 8B and 7B models, and
// vocabularies.
constexpr std::array<int, 2> kNormWidths = {8192, 4096};
constexpr std::array<int, 2> kSwigluWidths = {14336, 4096};
constexpr std::array<int, 2> kVocabularies = {131072, 32768};

// Bytes for each element of the rows, for each row and for each column.
struct Traffic {
  std::int64_t element = 0, row = 0, column = 0;
};

std::int64_t rows_of(std::int64_t bytes, Traffic traffic, std::int64_t width) {
  const std::int64_t each = width * traffic.element + traffic.row;
  return (bytes - width * traffic.column + each / 2) / each;
}

// The widest of `widths` that gives at least 512 rows; otherwise the first of 512, 64 and 16 rows
// that gives at least 256 columns.
RowShape choose_rows(std::int64_t bytes, Traffic traffic, std::span<const int> widths, int pack) {
  constexpr std::int64_t kEnoughRows = 512;
  for (const int width : widths) {
    const std::int64_t rows = rows_of(bytes, traffic, width);
    if (rows >= kEnoughRows) {
      return {static_cast<std::size_t>(rows), width};
    }
  }
  std::int64_t width = pack;
  for (const std::int64_t rows : {kEnoughRows, std::int64_t{64}, std::int64_t{16}}) {
    const std::int64_t each = rows * traffic.element + traffic.column;
    width = (bytes - rows * traffic.row) / each / pack * pack;
    width = std::clamp<std::int64_t>(width, pack, widths.back());
    if (width >= 256) {
      break;
    }
  }
  return {static_cast<std::size_t>(std::max<std::int64_t>(1, rows_of(bytes, traffic, width))),
          static_cast<int>(width)};
}

MemoryShape of_rows(std::int64_t bytes, Traffic traffic, std::span<const int> widths, int pack) {
  MemoryShape shape;
  shape.rows = choose_rows(bytes, traffic, widths, pack);
  shape.elements = shape.rows.rows * static_cast<std::size_t>(shape.rows.width);
  shape.moved = static_cast<std::int64_t>(shape.elements) * traffic.element +
                static_cast<std::int64_t>(shape.rows.rows) * traffic.row +
                shape.rows.width * traffic.column;
  return shape;
}

MemoryShape flat(std::int64_t bytes, std::int64_t each, int multiple) {
  const std::int64_t elements = bytes / each / multiple * multiple;
  return {static_cast<std::size_t>(elements), {}, elements * each};
}

}  // namespace

MemoryShape memory_shape(const interop::MemoryCase& what) {
  if (what.dtype != job::DType::bf16 && what.dtype != job::DType::fp16 &&
      what.dtype != job::DType::fp32) {
    throw Unsupported("memory-bound kernels run in bf16, fp16 and fp32");
  }
  if (what.bytes < kSmallestMemoryCase) {
    throw Unsupported("memory-bound kernels of less than 1 KiB");
  }
  const auto e = static_cast<std::int64_t>(job::bytes_per_element(what.dtype));
  const int pack = static_cast<int>(16 / e);
  if (what.op == "norm") {
    return of_rows(what.bytes, what.backward ? Traffic{3 * e, 4, 2 * e} : Traffic{2 * e, 4, e},
                   kNormWidths, pack);
  }
  if (what.op == "activation") {
    return of_rows(what.bytes, {(what.backward ? 5 : 3) * e, 0, 0}, kSwigluWidths, pack);
  }
  if (what.op == "cross_entropy") {
    return of_rows(what.bytes, what.backward ? Traffic{2 * e, 12, 0} : Traffic{e, 16, 0},
                   kVocabularies, pack);
  }
  if (!what.backward) {
    if (what.op == "copy") {
      return flat(what.bytes, 2 * e, pack);
    }
    if (what.op == "add") {
      return flat(what.bytes, 3 * e, pack);
    }
    if (what.op == "optimizer") {
      return flat(what.bytes, what.dtype == job::DType::fp32 ? 28 : 28 + e, 8);
    }
  }
  throw Unsupported("no memory-bound kernel \"" + what.op + "\"" +
                    (what.backward ? " with a backward pass" : ""));
}

}  // namespace stepcast::harness::cuda
