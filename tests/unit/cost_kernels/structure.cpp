// Errors of what forecasts leave out, as in their file.
#include "stepcast/cost/structure.h"

#include <unistd.h>

#include <fstream>

#include "catch.hpp"
#include "stepcast/base/diagnostics.h"
#include "stepcast/text/document.h"

using namespace stepcast;
using cost::Part;

namespace {

struct Folder {
  std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("stepcast-structure-" + std::to_string(::getpid()));
  explicit Folder(const std::string& text) {
    std::filesystem::create_directories(path);
    std::ofstream(path / "structure.yaml") << text;
  }
  ~Folder() { std::filesystem::remove_all(path); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
};

std::string refusal(const std::string& text) {
  const Folder folder(text);
  try {
    cost::read_structures(folder.path);
  } catch (const InputError& error) {
    return to_string(error.faults().front());
  }
  return "";
}

}  // namespace

TEST_CASE("a system has its own structure, else that of the others") {
  const Folder folder(
      "structures:\n"
      "  - {systems: [composer, torchtitan], compute: 0.05, host: 0.2, source: some rows}\n"
      "  - {systems: [others], compute: 0.07, run: 0.01, source: all rows}\n");
  const auto all = cost::read_structures(folder.path);
  REQUIRE(all.size() == 2);
  const auto of = [&](const char* system, Part part) {
    return cost::structure_of(all, system)->deviation[static_cast<std::size_t>(part)];
  };
  CHECK(of("torchtitan", Part::compute) == 0.05);
  CHECK(of("torchtitan", Part::host) == 0.2);
  CHECK(of("torchtitan", Part::communication) == 0);
  CHECK(of("alpa", Part::compute) == 0.07);
  CHECK(of("alpa", Part::run) == 0.01);
}

TEST_CASE("without a file nothing is left out") {
  CHECK(cost::read_structures("/nowhere").empty());
  CHECK(cost::structure_of({}, "composer") == nullptr);
}

TEST_CASE("what is wrong with a structure is told with its place") {
  CHECK_THAT(refusal("- 1\n"), ContainsSubstring("expected a list under 'structures'"));
  CHECK_THAT(refusal("structures:\n  - {systems: [a], source: b, compute: 1.5}\n"),
             ContainsSubstring("structure.yaml:2:") &&
                 ContainsSubstring("compute is 1.5; expected 0 to 1"));
  CHECK_THAT(refusal("structures:\n  - {systems: [a], source: b, kernels: 1}\n"),
             ContainsSubstring("unknown key 'kernels'"));
  CHECK_THAT(refusal("structures:\n  - {compute: 0.1, source: b}\n"),
             ContainsSubstring("key 'systems' is missing"));
}

TEST_CASE("the committed structures name every kind once, and the others") {
  const auto all = cost::read_structures(text::data_directory() / "calibration");
  REQUIRE(cost::structure_of(all, "a system that nobody names") != nullptr);
  std::vector<std::string> names;
  for (const auto& s : all) {
    for (const auto& name : s.systems) {
      CHECK(std::find(names.begin(), names.end(), name) == names.end());
      names.push_back(name);
    }
  }
}
