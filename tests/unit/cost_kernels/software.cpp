// Constants of software, as their file says them.
#include "stepcast/cost/software.h"

#include <unistd.h>

#include <fstream>

#include "catch.hpp"
#include "stepcast/base/diagnostics.h"
#include "stepcast/text/document.h"

using namespace stepcast;

namespace {

struct Folder {
  std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("stepcast-software-" + std::to_string(::getpid()));
  explicit Folder(const std::string& text) {
    std::filesystem::create_directories(path);
    std::ofstream(path / "software.yaml") << text;
  }
  ~Folder() { std::filesystem::remove_all(path); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
};

std::string refusal(const std::string& text) {
  const Folder folder(text);
  try {
    cost::read_software(folder.path);
  } catch (const InputError& error) {
    return error.faults().front().message;
  }
  return "";
}

}  // namespace

TEST_CASE("constants of software have units, and are neutral where nothing states them") {
  const Folder folder(
      "column_cast_ps: {value: 10, source: rows}\n"
      "user_buffer_step_us: {value: 20, source: rows}\n");
  const cost::Software s = cost::read_software(folder.path);
  CHECK(s.column_cast == Approx(1e-11));
  CHECK(s.user_buffer_step == seconds(20e-6));
  CHECK(s.mxfp8_cast == 1);
  CHECK(s.collective_launches == 1);
  CHECK(cost::read_software("/nowhere").column_cast == 0);
}

TEST_CASE("a constant of software without a source, out of range or unknown is refused") {
  CHECK(refusal("mxfp8_cast: {value: 1.4}\n") == "mxfp8_cast: expected the keys value and source");
  CHECK(refusal("mxfp8_cast: 1.4\n") == "mxfp8_cast: expected the keys value and source");
  CHECK(refusal("mxfp8_cast: {value: 0.5, source: rows}\n") ==
        "mxfp8_cast is 0.5; expected 1 to 10");
  CHECK(refusal("warp: {value: 1, source: rows}\n").starts_with("unknown constant 'warp'"));
}
