// `simulate memory` as a process: exit status, streams, files.
#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "catch.hpp"
#include "unit/cli/run.h"

namespace {

using nlohmann::json;
using stepcast::test::check_refused;
using stepcast::test::Result;
using stepcast::test::run;

const std::string kJob = "memory --config llama8b-fsdp";

}  // namespace

TEST_CASE("memory prints a chart, the figures and what stands at the peak") {
  const Result r = run(kJob);
  REQUIRE(r.status == 0);
  CHECK_THAT(r.out, ContainsSubstring("Stage 0") && ContainsSubstring("fits") &&
                        ContainsSubstring("reserved") && ContainsSubstring("optimizer states") &&
                        ContainsSubstring("Live tensors at the peak of stage 0"));
  CHECK(r.out.find('\x1b') == std::string::npos);  // no terminal, no colour
  CHECK(run(kJob).out == r.out);
}

TEST_CASE("memory's JSON adds up") {
  const json memory = json::parse(run(kJob + " --json -").out);
  CHECK(memory.at("schema") == 2);
  CHECK(memory.at("job").at("workload").at("micro_batch") == 2);
  REQUIRE(memory.at("stages").size() == 1);
  const json& s = memory.at("stages")[0];
  std::int64_t at_peak = 0;
  for (const json& t : s.at("at_peak")) {
    CHECK(t.at("total") == t.at("bytes").get<std::int64_t>() * t.at("count").get<std::int64_t>());
    at_peak += t.at("total").get<std::int64_t>();
  }
  CHECK(at_peak == s.at("peak").at("allocated"));
  const json& line = s.at("timeline");
  for (const json& column : line) {
    CHECK(column.size() == line.at("time").size());
  }
  const auto& allocated = line.at("allocated");
  CHECK(*std::max_element(allocated.begin(), allocated.end()) == s.at("peak").at("allocated"));
  std::int64_t outside = 0;
  for (const json& part : s.at("outside")) {
    outside += part.at("bytes").get<std::int64_t>();
  }
  CHECK(outside == s.at("peak").at("process").get<std::int64_t>() -
                       s.at("peak").at("reserved").get<std::int64_t>());
}

TEST_CASE("memory shows one stage when asked") {
  const Result r = run("memory --config llama70b --stage 2 --json -");
  REQUIRE(r.status == 0);
  const json memory = json::parse(r.out);
  REQUIRE(memory.at("stages").size() == 1);
  CHECK(memory.at("stages")[0].at("stage") == 2);
}

TEST_CASE("memory ends with status 1 and the report where the job does not fit") {
  const Result r = run(kJob + " --set workload.micro_batch=2 --set workload.sequence_length=65536");
  CHECK(r.status == 1);
  CHECK_THAT(r.out, ContainsSubstring("it does not fit: "));
}

TEST_CASE("memory writes a picture and a snapshot, whole or not at all") {
  const auto folder =
      std::filesystem::temp_directory_path() / ("stepcast-memory-" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  const Result r = run(kJob + " --svg '" + (folder / "m.svg").string() + "' --snapshot '" +
                       (folder / "m.pickle").string() + "'");
  CHECK(r.status == 0);
  const auto read = [&](const char* name) {
    std::ostringstream text;
    text << std::ifstream(folder / name, std::ios::binary).rdbuf();
    return text.str();
  };
  const std::string svg = read("m.svg");
  CHECK_THAT(svg, ContainsSubstring("<svg") && ContainsSubstring("activations") &&
                      ContainsSubstring("</svg>"));
  const std::string pickle = read("m.pickle");
  REQUIRE(pickle.size() > 1000);
  CHECK(pickle.substr(0, 2) == "\x80\x04");
  CHECK(pickle.back() == '.');
  std::filesystem::remove_all(folder);
}

TEST_CASE("memory refuses what it cannot do, in one line") {
  check_refused("memory", "--config: error: missing");
  check_refused(kJob + " --stage 1",
                "--stage: error: there is no stage 1; expected one from 0 to 0");
  check_refused(kJob + " --stage x", "--stage: error: 'x' is not valid");
  check_refused(kJob + " --snapshot -", "--snapshot: error: a snapshot is binary");
  check_refused(kJob + " --svg - --json -", "--svg: error: standard output is --json's");
  check_refused(kJob + " --snapshto f", "--snapshto: error: unknown option");
  check_refused(kJob + " --set parallelism.tensr=2", "--set");
}
