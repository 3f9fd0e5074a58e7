#include "stepcast/base/shell_word.h"

#include "catch.hpp"

using namespace stepcast;

TEST_CASE("A word is quoted where a shell would change it") {
  CHECK(shell_word("parallelism.tensor=8") == "parallelism.tensor=8");
  CHECK(shell_word("memory.margin=5%") == "memory.margin=5%");
  CHECK(shell_word("calibration=[auto,site.yaml]") == "'calibration=[auto,site.yaml]'");
  CHECK(shell_word("name=a b") == "'name=a b'");
  CHECK(shell_word("it's") == "'it'\\''s'");
  CHECK(shell_word("") == "''");
}
