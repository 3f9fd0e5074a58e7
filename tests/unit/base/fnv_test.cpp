#include "stepcast/base/fnv.h"

#include <set>

#include "catch.hpp"

using namespace stepcast;

// The vectors of draft-eastlake-fnv, appendix C.
TEST_CASE("FNV-1a gives the published hashes, whole or continued") {
  CHECK(fnv1a("") == 0xcbf29ce484222325U);
  CHECK(fnv1a("a") == 0xaf63dc4c8601ec8cU);
  CHECK(fnv1a("foobar") == 0x85944171f73967e8U);
  CHECK(fnv1a("bar", fnv1a("foo")) == fnv1a("foobar"));
}

TEST_CASE("A digest of numbers tells them and their order apart, in its low bits too") {
  std::set<std::uint64_t> whole, low;
  for (std::uint64_t i = 0; i < 64; ++i) {
    whole.insert(fnv_mix(kFnvOffset, std::uint64_t{1} << i));
    low.insert(fnv_mix(kFnvOffset, std::uint64_t{1} << i) & 0xffffffffU);
  }
  CHECK(whole.size() == 64);
  CHECK(low.size() > 33);  // 33 by the product alone, which carries differences upwards
  CHECK(fnv_mix(fnv_mix(kFnvOffset, 1), 2) != fnv_mix(fnv_mix(kFnvOffset, 2), 1));
}
