#include "stepcast/base/id.h"

#include <fmt/format.h>

#include "catch.hpp"

using namespace stepcast;

TEST_CASE("An id prints as its integer, whichever version of fmt prints it") {
  using Place = Id<struct PlaceTag>;
  CHECK(fmt::format("{}", Place::at(7)) == "7");
  CHECK(fmt::format("{:>3}", Place::at(7)) == "  7");
  CHECK(format_as(Place::at(7)) == 7U);
}
