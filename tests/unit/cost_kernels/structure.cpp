// Errors of what forecasts leave out, and of what jobs leave open, as in their files.
#include "stepcast/cost/structure.h"

#include <unistd.h>

#include <fstream>

#include "catch.hpp"
#include "stepcast/base/diagnostics.h"
#include "stepcast/cost/open_facts.h"
#include "stepcast/text/document.h"

using namespace stepcast;
using cost::Part;

namespace {

struct Folder {
  std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("stepcast-structure-" + std::to_string(::getpid()));
  explicit Folder(const std::string& text, const char* file = "structure.yaml") {
    std::filesystem::create_directories(path);
    std::ofstream(path / file) << text;
  }
  ~Folder() { std::filesystem::remove_all(path); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
};

std::string structure_refusal(const std::string& text) {
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
      "  - {systems: [composer, torchtitan], compute: 0.05, host: 0.2, runs: 12, source: a.jsonl}\n"
      "  - {systems: [others], compute: 0.07, run: 0.01, runs: 30, source: all}\n");
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
  CHECK(cost::structure_of(all, "composer")->runs == 12);
  CHECK(cost::structure_of(all, "alpa")->source == "all");
}

TEST_CASE("without a file nothing is left out") {
  CHECK(cost::read_structures("/nowhere").empty());
  CHECK(cost::structure_of({}, "composer") == nullptr);
}

TEST_CASE("what is wrong with a structure is told with its place") {
  CHECK_THAT(structure_refusal("- 1\n"), ContainsSubstring("expected a list under 'structures'"));
  CHECK_THAT(
      structure_refusal("structures:\n  - {systems: [a], source: b, runs: 1, compute: 1.5}\n"),
      ContainsSubstring("structure.yaml:2:") &&
          ContainsSubstring("compute is 1.5; expected 0 to 1"));
  CHECK_THAT(structure_refusal("structures:\n  - {systems: [a], source: b, kernels: 1}\n"),
             ContainsSubstring("unknown key 'kernels'"));
  CHECK_THAT(structure_refusal("structures:\n  - {compute: 0.1, source: b}\n"),
             ContainsSubstring("key 'systems' is missing"));
  CHECK_THAT(structure_refusal("structures:\n  - {systems: [a], compute: 0.1, source: b}\n"),
             ContainsSubstring("key 'runs' is missing"));
  CHECK_THAT(
      structure_refusal("structures:\n  - {systems: [a], compute: 0.1, runs: 0, source: b}\n"),
      ContainsSubstring("structure.yaml:2:") &&
          ContainsSubstring("runs is 0; expected at least 1"));
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

TEST_CASE("memory has deviations of its parts") {
  const Folder folder(
      "structures: []\nmemory: {activations: 0.02, outside: 0.1, readings: 7, source: some}\n");
  const auto memory = cost::read_memory_structures(folder.path).any;
  const auto of = [&](cost::MemoryPart part) {
    return memory.deviation[static_cast<std::size_t>(part)];
  };
  CHECK(of(cost::MemoryPart::activations) == 0.02);
  CHECK(of(cost::MemoryPart::outside) == 0.1);
  CHECK(of(cost::MemoryPart::states) == 0);
  CHECK(memory.readings == 7);
  CHECK(memory.source == "some");
  CHECK(cost::read_memory_structures("/nowhere").any.source.empty());
}

TEST_CASE(
    "memory of a job that states all has deviations of its own, under systems that are named") {
  const Folder folder(
      "structures: []\nmemory: {activations: 0.04, readings: 7, source: all}\n"
      "memory_stated: {systems: [a, b], activations: 0.01, readings: 3, source: stated}\n");
  const auto all = cost::read_memory_structures(folder.path);
  CHECK(cost::memory_structure_of(all, "b", false).source == "stated");
  CHECK(cost::memory_structure_of(all, "b", true).source == "all");
  CHECK(cost::memory_structure_of(all, "c", false).source == "all");
  auto without = all;
  without.stated.reset();
  CHECK(cost::memory_structure_of(without, "b", false).source == "all");
}

TEST_CASE("an open key has the deviations of the longest name that it lies below") {
  const Folder folder(
      "open:\n"
      "  - {key: memory, memory: {allocated: 0.1}, source: a}\n"
      "  - {key: memory.recompute, time: {compute: 0.05}, source: b}\n"
      "  - {key: others, time: {step: 0.02}, source: c}\n",
      "open.yaml");
  const auto all = cost::read_open_facts(folder.path);
  CHECK(cost::open_fact_of(all, "memory.recompute")->source == "b");
  CHECK(cost::open_fact_of(all, "memory.recompute.every")->source == "b");
  CHECK(cost::open_fact_of(all, "memory.recomputed")->source == "a");
  CHECK(cost::open_fact_of(all, "memories")->source == "c");
  CHECK(all[1].time[static_cast<std::size_t>(cost::TimeReach::compute)] == 0.05);
  CHECK(all[0].memory[static_cast<std::size_t>(cost::MemoryReach::allocated)] == 0.1);
  CHECK(cost::open_fact_of({}, "memory") == nullptr);
  CHECK(cost::read_open_facts("/nowhere").empty());
}

TEST_CASE("what is wrong with an open key is told with its place") {
  const Folder folder("open:\n  - {key: a, source: b, time: {attention: 1}}\n", "open.yaml");
  try {
    cost::read_open_facts(folder.path);
    FAIL("the file was read");
  } catch (const InputError& error) {
    CHECK_THAT(to_string(error.faults().front()),
               ContainsSubstring("open.yaml:2:") && ContainsSubstring("unknown key 'attention'"));
  }
}
