// Damaged jobs: any text either loads as a job or has faults that are reported, one line each.
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "catch.hpp"
#include "stepcast/config/config.h"
#include "stepcast/input/input.h"

using namespace stepcast;

namespace {

std::string read(const std::filesystem::path& file) {
  std::ostringstream out;
  out << std::ifstream(file).rdbuf();
  return out.str();
}

// Applies one to four edits: a byte changed, deleted or doubled, a line moved, a number enlarged.
std::string damaged(std::string text, std::mt19937_64& random) {
  const int edits = 1 + static_cast<int>(random() % 4);
  for (int i = 0; i < edits && !text.empty(); ++i) {
    const std::size_t at = random() % text.size();
    switch (random() % 6) {
      case 0:
        text[at] = static_cast<char>(random() % 256);
        break;
      case 1:
        text.erase(at, 1 + random() % 3);
        break;
      case 2:
        text.insert(at, text.substr(random() % text.size(), random() % 40));
        break;
      case 3:
        text.insert(at, "9999999999");
        break;
      case 4:
        text.insert(at, "{[\"':,-&*!|>%@`#}]"[random() % 18] + std::string(1, ' '));
        break;
      default:
        text.resize(at);
    }
  }
  return text;
}

}  // namespace

TEST_CASE("a damaged job loads or throws InputError, never anything else") {
  std::mt19937_64 random(20);
  int faulty = 0;
  for (const auto& name : config::list("jobs")) {
    const std::string text =
        read(std::filesystem::path(STEPCAST_SOURCE_DIR) / "configs" / (name + ".yaml"));
    for (int i = 0; i < 400; ++i) {
      const std::string bad = damaged(text, random);
      INFO(bad);
      try {
        input::parse(bad, "damaged.yaml");
      } catch (const InputError& error) {
        ++faulty;
        REQUIRE_FALSE(error.faults().empty());
        for (const Fault& fault : error.faults()) {
          const std::string line = to_string(fault);
          CHECK(line.find('\n') == std::string::npos);
          CHECK(line.size() < 1000);
        }
      }
    }
  }
  CHECK(faulty > 500);
}

TEST_CASE("a huge value is a short fault") {
  const std::string huge(1 << 20, 'x');
  for (const std::string& job :
       {"model: " + huge + "\n", huge + ": 1\n", "workload: {precision: " + huge + "}\n",
        "parallelism: {tensor: " + huge + "}\n"}) {
    try {
      input::parse(job, "huge.yaml");
      FAIL("loaded nonsense");
    } catch (const InputError& error) {
      for (const Fault& fault : error.faults()) {
        CHECK(to_string(fault).size() < 500);
      }
    }
  }
}
