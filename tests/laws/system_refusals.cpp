// An unsupported combination in a training system is an error at the key that requests it:
// tests/faulty/refused has the jobs and the exact line for each.
#include <filesystem>
#include <fstream>

#include "catch.hpp"
#include "stepcast/config/config.h"
#include "stepcast/strategy/plan.h"

using namespace stepcast;
namespace fs = std::filesystem;

namespace {

const fs::path kFolder = fs::path(STEPCAST_SOURCE_DIR) / "tests" / "faulty" / "refused";

std::string line_of(const fs::path& file) {
  const config::Loaded loaded = config::load(file.string());
  const auto plan = strategy::resolve(loaded.job);
  const auto* why = std::get_if<Infeasible>(&plan);
  if (why == nullptr) {
    return "no error";
  }
  std::string line = to_string(config::fault_of(loaded, *why));
  const std::string prefix = kFolder.string() + "/";
  return line.starts_with(prefix) ? line.substr(prefix.size()) : line;
}

}  // namespace

TEST_CASE("A system refuses what it cannot do, at the key that asks", "[laws][systems]") {
  int count = 0;
  for (const auto& entry : fs::directory_iterator(kFolder)) {
    if (entry.path().extension() != ".yaml") {
      continue;
    }
    fs::path expected = entry.path();
    std::ifstream in(expected.replace_extension(".expected"));
    std::string line;
    std::getline(in, line);
    INFO(entry.path().filename().string());
    CHECK(line_of(entry.path()) == line);
    ++count;
  }
  CHECK(count >= 16);
}

TEST_CASE("A job that names no system has Megatron-LM's behaviour and none of its limits",
          "[laws][systems]") {
  const std::string text =
      "model: {layers: 8, hidden: 512, heads: 8, ffn: 2048, vocab: 1024}\ncluster: {use: dgx-a100, "
      "nodes: 1}\n"
      "workload: {sequence_length: 512, global_batch: 64}\nparallelism: {pipeline: 4, schedule: "
      "zb_h1}\n";
  const config::Loaded unnamed = config::parse(text, "job");
  CHECK(unnamed.job.system.name == "megatron-lm");
  CHECK(std::holds_alternative<strategy::Plan>(strategy::resolve(unnamed.job)));
  const config::Loaded named = config::parse(text + "system: megatron-lm\n", "job");
  CHECK(std::holds_alternative<Infeasible>(strategy::resolve(named.job)));
}

TEST_CASE("Every limit of every system names a reason, every default of a value its source",
          "[laws][systems]") {
  for (const std::string& name : config::list("systems")) {
    INFO(name);
    const job::System system = config::system(name);
    CHECK_FALSE(system.generation.empty());
    for (const auto& [feature, reason] : system.cannot) {
      INFO(feature);
      CHECK(reason.size() > 10);
    }
    int sourced = 0, all = 0;
    for (const auto& d : config::system_defaults(name)) {
      ++all;
      sourced += d.source.empty() ? 0 : 1;
    }
    // A line without a comment is covered by the comment above its line or file.
    CHECK(2 * sourced > all);
  }
}
