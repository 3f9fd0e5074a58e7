// Buckets of Megatron-FSDP's units: tests/oracle/recorded/megatron-fsdp-0.16.json has them.
#include "lower/data/unit_rows.h"

#include "catch.hpp"

namespace stepcast::lower {
namespace {

Array matrix(std::int64_t rows, std::int64_t columns) {
  Array a;
  a.elements = rows * columns;
  a.rows = rows;
  a.columns = columns;
  return a;
}

Array vector(std::int64_t elements) {
  Array a;
  a.elements = elements;
  return a;
}

}  // namespace

TEST_CASE("Rows of one length fill a bucket but for its last chunks", "[lower]") {
  // 32000 rows and a norm over four ranks: one row more, then a multiple of four.
  CHECK(row_bucket({matrix(32000, 2048), vector(2048)}, false, 4) == 32004 * 2048);
  CHECK(row_bucket({matrix(32000, 2048)}, false, 4) == 32000 * 2048);
  CHECK(row_bucket({matrix(32000, 2048)}, true, 4) == 0);
}

TEST_CASE("Rows of several lengths share a chunk of their common multiple", "[lower]") {
  // A layer of 2048 with 32 heads of 80 and an MLP of 2816: chunks of lcm(2816, 2560, 2048)
  // elements.
  const std::vector<Array> layer = {vector(2048),       matrix(7680, 2048), vector(80),
                                    vector(80),         matrix(2048, 2560), vector(2048),
                                    matrix(2816, 2048), matrix(2048, 2816)};
  CHECK(row_bucket(layer, false, 4) == 32'890'880);
}

TEST_CASE("Each expert is a parameter", "[lower]") {
  Array experts = matrix(768, 1280);
  experts.elements *= 2;
  experts.expert = true;
  CHECK(row_bucket({experts}, true, 4) == 2 * 768 * 1280);
}

}  // namespace stepcast::lower
