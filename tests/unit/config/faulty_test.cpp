// Every file of tests/faulty has a fault, and a second file has the exact lines that a user must
// see.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <variant>
#include <vector>

#include "catch.hpp"
#include "stepcast/config/config.h"
#include "stepcast/input/input.h"
#include "stepcast/strategy/plan.h"

using namespace stepcast;
namespace fs = std::filesystem;

namespace {

const fs::path kFolder = fs::path(STEPCAST_SOURCE_DIR) / "tests" / "faulty";

std::vector<fs::path> faulty_files() {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(kFolder)) {
    const auto extension = entry.path().extension();
    if (extension == ".yaml" || extension == ".json") {
      files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::vector<std::string> lines_of(fs::path file, const char* extension) {
  std::vector<std::string> lines;
  std::ifstream in(file.replace_extension(extension));
  for (std::string line; std::getline(in, line);) {
    lines.push_back(line);
  }
  return lines;
}

// The folder differs between machines; file names inside it do not.
std::string without_folder(std::string line) {
  const std::string prefix = kFolder.string() + "/";
  for (auto at = line.find(prefix); at != std::string::npos; at = line.find(prefix)) {
    line.erase(at, prefix.size());
  }
  return line;
}

std::vector<std::string> faults_of(const fs::path& file) {
  std::vector<std::string> lines;
  try {
    // Faults of the plan are found when the plan is made.
    const config::Loaded loaded = input::load(file.string(), lines_of(file, ".options"));
    const auto plan = strategy::resolve(loaded.job);
    if (const auto* why = std::get_if<Infeasible>(&plan)) {
      lines.push_back(without_folder(to_string(config::fault_of(loaded, *why))));
    }
  } catch (const InputError& error) {
    for (const Fault& fault : error.faults()) {
      lines.push_back(without_folder(to_string(fault)));
    }
  }
  return lines;
}

std::string joined(const std::vector<std::string>& lines) {
  std::string out;
  for (const auto& line : lines) {
    out += line + "\n";
  }
  return out;
}

}  // namespace

TEST_CASE("every faulty config gives exactly its expected lines") {
  const auto files = faulty_files();
  REQUIRE(files.size() >= 60);
  for (const auto& file : files) {
    const auto expected = lines_of(file, ".expected");
    INFO(file.filename().string());
    REQUIRE_FALSE(expected.empty());
    CHECK(joined(faults_of(file)) == joined(expected));
  }
}

TEST_CASE("every line has a place, an error and an expectation") {
  for (const auto& file : faulty_files()) {
    for (const auto& line : lines_of(file, ".expected")) {
      INFO(line);
      CHECK(line.find(": error: ") != std::string::npos);
      CHECK(line.find('\t') == std::string::npos);
    }
  }
}

TEST_CASE("a file of a job that does not exist is missed by its name") {
  try {
    input::load("nowhere-near.yaml");
    FAIL("loaded a file that does not exist");
  } catch (const InputError& error) {
    CHECK(to_string(error.faults().front()) ==
          "--config nowhere-near.yaml: error: there is no file 'nowhere-near.yaml'; expected the "
          "path of a job");
  }
}

TEST_CASE("a job that does not exist is a fault of the option, with a suggestion") {
  try {
    input::load("llama70c.yaml");
    FAIL("loaded a job that does not exist");
  } catch (const InputError& error) {
    REQUIRE(error.faults().size() == 1);
    CHECK(to_string(error.faults().front()) ==
          "--config llama70c.yaml: error: there is no job 'llama70c'; expected a name in configs "
          "or a path "
          "(did you mean 'llama70b'?)");
  }
}
