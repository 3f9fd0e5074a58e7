// Constants of software, as in their file.
#include "stepcast/cost/software.h"

#include "../../support/folder.h"
#include "catch.hpp"
#include "stepcast/base/diagnostics.h"
#include "stepcast/text/document.h"

using namespace stepcast;

namespace {

std::string software_refusal(const std::string& text) {
  const test::Folder folder;
  folder.write("software.yaml", text);
  try {
    cost::read_software(folder.path());
  } catch (const InputError& error) {
    return error.faults().front().message;
  }
  return "";
}

}  // namespace

TEST_CASE("constants of software have units, and are neutral where nothing states them") {
  const test::Folder folder;
  folder.write("software.yaml",
               "column_cast_ps: {value: 10, source: rows}\n"
               "user_buffer_step_us: {value: 20, source: rows}\n");
  const cost::Software s = cost::read_software(folder.path());
  CHECK(s.column_cast == Approx(1e-11));
  CHECK(s.user_buffer_step == seconds(20e-6));
  CHECK(s.mxfp8_cast == 1);
  CHECK(s.block_cast == 1);
  CHECK(s.tokens_beside == 1);
  CHECK(s.single_elements == 0);
  CHECK(s.collective_launches == 1);
  CHECK(cost::read_software("/nowhere").column_cast == 0);
}

TEST_CASE("a constant of software without a source, out of range or unknown is refused") {
  CHECK(software_refusal("mxfp8_cast: {value: 1.4}\n") ==
        "mxfp8_cast: expected the keys value and source");
  CHECK(software_refusal("mxfp8_cast: 1.4\n") == "mxfp8_cast: expected the keys value and source");
  CHECK(software_refusal("mxfp8_cast: {value: 0.5, source: rows}\n") ==
        "mxfp8_cast is 0.5; expected 1 to 10");
  CHECK(
      software_refusal("warp: {value: 1, source: rows}\n").starts_with("unknown constant 'warp'"));
}
