#include "stepcast/base/fnv.h"

#include "catch.hpp"

using namespace stepcast;

// The vectors of draft-eastlake-fnv, appendix C.
TEST_CASE("FNV-1a gives the published hashes, whole or continued") {
  CHECK(fnv1a("") == 0xcbf29ce484222325U);
  CHECK(fnv1a("a") == 0xaf63dc4c8601ec8cU);
  CHECK(fnv1a("foobar") == 0x85944171f73967e8U);
  CHECK(fnv1a("bar", fnv1a("foo")) == fnv1a("foobar"));
}
