// `simulate compare` and `simulate systems` as processes: exit status, streams, structure of the
// JSON.
#include <nlohmann/json.hpp>
#include <string>

#include "catch.hpp"
#include "unit/cli/run.h"

namespace {

using nlohmann::json;

using stepcast::test::Result;
using stepcast::test::run;

const std::string kTwo = "compare --config llama8b-fsdp --systems horovod,pytorch-fsdp2";

}  // namespace

TEST_CASE("compare prints a table, or JSON with the same systems, those that refuse too") {
  const Result text = run(kTwo);
  REQUIRE(text.status == 0);
  CHECK_THAT(text.out, ContainsSubstring("pytorch-fsdp2") && ContainsSubstring("Not run"));
  CHECK_THAT(text.err, ContainsSubstring("horovod does not run zero3"));
  const Result twice = run(kTwo + " --json -");
  const json report = json::parse(twice.out);
  REQUIRE(report.at("systems").size() == 2);
  const json& ran = report.at("systems")[0];
  CHECK(ran.at("name") == "pytorch-fsdp2");
  CHECK(ran.at("kind") == "single-strategy");
  CHECK(ran.at("step_time").at("low") <= ran.at("step_time").at("value"));
  for (const char* key : {"mfu", "peak", "exposed", "bubble_fraction", "capacity", "fits"}) {
    CHECK(ran.contains(key));
  }
  const json& refused = report.at("systems")[1];
  CHECK(refused.at("ran") == false);
  CHECK(refused.at("key") == "parallelism.sharding");
  CHECK(run(kTwo + " --json -").out == twice.out);
}

TEST_CASE("compare draws bars") {
  const Result r = run(kTwo + " --svg -");
  REQUIRE(r.status == 0);
  CHECK_THAT(r.out, ContainsSubstring("<svg") && ContainsSubstring("</svg>") &&
                        ContainsSubstring("pytorch-fsdp2") &&
                        ContainsSubstring("horovod: does not run zero3"));
}

TEST_CASE("compare ends with status 1 where no system can run the job, 2 on faulty options") {
  CHECK(run("compare --config llama8b-fsdp --systems horovod,gpipe").status == 1);
  const Result unknown = run("compare --config llama8b-fsdp --systems megatron");
  CHECK(unknown.status == 2);
  CHECK_THAT(unknown.err,
             ContainsSubstring("--systems: error: there is no training system 'megatron'"));
  CHECK(run("compare").status == 2);
  CHECK(run("compare --config llama8b-fsdp --set parallelism.tensr=2").status == 2);
}

TEST_CASE("systems prints the survey's table beside what is simulated, and one system in full") {
  const json all = json::parse(run("systems --json -").out);
  CHECK(all.at("systems").size() >= 28);
  for (const json& s : all.at("systems")) {
    CHECK(s.at("strategies").size() == 6);
  }
  const Result one = run("systems horovod");
  CHECK(one.status == 0);
  CHECK_THAT(one.out, ContainsSubstring("HOROVOD_CYCLE_TIME") && ContainsSubstring("Refused"));
  // Words choose from the table.
  const json some = json::parse(run("systems fsdp 2 --json -").out);
  CHECK(some.at("systems").size() > 1);
  CHECK(some.at("systems").size() < all.at("systems").size());
  for (const json& s : some.at("systems")) {
    CHECK_THAT(s.dump(), ContainsSubstring("fsdp") || ContainsSubstring("FSDP"));
  }
  CHECK(run("systems megatrom").status == 2);
  CHECK(run("systems megatron nosuch").status == 2);
}
