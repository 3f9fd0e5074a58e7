// simulate trace as a process.
#include "catch.hpp"
#include "run.h"
#include "support/folder.h"
#include "unit/trace/made_trace.h"

using stepcast::test::Folder;
using stepcast::test::Result;
using stepcast::test::run;

namespace {

const std::string kExcerpts = "tests/unit/trace/excerpts/";

}  // namespace

TEST_CASE("a profile is printed, or written as JSON with a schema number") {
  const Result text = run("trace " + kExcerpts + "a100-2ranks.json");
  if (text.err.find("libsimdjson") != std::string::npos) {
    return;
  }
  CHECK(text.status == 0);
  CHECK(text.err.empty());
  for (const char* word :
       {"Rank 0 of 2", "Critical path", "By kind", "all_reduce", "0 default_pg", "aten::"}) {
    CHECK_THAT(text.out, ContainsSubstring(word));
  }
  const Result json = run("trace " + kExcerpts + "a100-2ranks.json --json -");
  CHECK(json.status == 0);
  CHECK(json.out.rfind("{\n  \"schema\": 1", 0) == 0);
  CHECK_THAT(json.out, ContainsSubstring("\"critical_path\": ["));
  const Result page = run("trace " + kExcerpts + "a100-2ranks.json --html -");
  CHECK(page.status == 0);
  for (const char* part : {"<!doctype html>", "ProfilerStep#",
                           "critical path: ", "<rect class=\"k-tensor\"", "id=\"data\""}) {
    CHECK_THAT(page.out, ContainsSubstring(part));
  }
  CHECK(json.out == run("trace " + kExcerpts + "a100-2ranks.json --json -").out);
}

TEST_CASE("a profile stands beside a forecast") {
  const Result r =
      run("trace " + kExcerpts + "a100-16ranks.json --config llama8b-fsdp --device a100-sxm-80");
  if (r.err.find("libsimdjson") != std::string::npos) {
    return;
  }
  CHECK(r.status == 0);
  CHECK_THAT(r.out, ContainsSubstring("Forecast of stage 0 beside the profile"));
  CHECK_THAT(r.out, ContainsSubstring("the profile is of 16 ranks, the job has 8 GPUs"));
  CHECK(run("trace " + kExcerpts + "a100-16ranks.json --config llama8b-fsdp --stage 1").status ==
        2);
}

TEST_CASE("what the engine runs goes round: exported, explained, calibrated") {
  const Folder folder;
  const std::string job =
      " --config llama8b-fsdp --set cluster.nodes=2 --set "
      "workload.global_batch=32";
  const std::string out = folder.file("out");
  REQUIRE(run("export --to kineto" + job + " --output " + out).status == 0);
  REQUIRE(run("export --to chakra" + job + " --output " + out).status == 0);
  const std::string profile = out + "/rank-0.json";
  const Result explained = run("explain" + job + " --trace " + profile);
  if (explained.err.find("libsimdjson") != std::string::npos) {
    return;
  }
  CHECK(explained.status == 0);
  for (const char* word : {"Profile of rank 0", "backward", "reduce_scatter of 16", "optimizer",
                           "inside the 90 % interval"}) {
    CHECK_THAT(explained.out, ContainsSubstring(word));
  }
  CHECK_THAT(run("explain" + job + " --trace " + profile + " --json -").out,
             ContainsSubstring("\"differences\""));
  CHECK_THAT(run("trace " + profile + job).out,
             ContainsSubstring("Collectives against NCCL's curves"));
  CHECK(run("trace " + out + "/rank-0.et").status == 0);

  const std::string site = folder.file("site.yaml");
  const Result fitted = run("calibrate trace " + profile + job + " --output " + site);
  // Keys to override may follow each other.
  CHECK(run("calibrate trace " + profile +
            " --config llama8b-fsdp --set cluster.nodes=2 workload.global_batch=32 --json - "
            "--output " +
            folder.file("same.yaml"))
            .status == 0);
  CHECK(fitted.status == 0);
  CHECK_THAT(fitted.out, ContainsSubstring("rank 0: products alone"));
  CHECK(run("--config llama8b-fsdp --set cluster.nodes=16 --set workload.global_batch=256 --set "
            "calibration=[auto," +
            site + "]")
            .status == 0);
  CHECK(run("calibrate trace " + profile + " --config llama8b-fsdp --output " + site).status == 2);
}

TEST_CASE("a profile of other work than the job's is refused, or said where it is only shown") {
  if (run("trace " + kExcerpts + "a100-2ranks.json").err.find("libsimdjson") != std::string::npos) {
    return;
  }
  stepcast::test::MadeTrace made;
  for (int i = 0; i < 3; ++i) {
    made.step(i, 100 * i, 100);
    made.op("aten::mm", 100 * i + 10, 10, "[[4096, 1024], [1024, 512]]",
            R"(["c10::BFloat16", "c10::BFloat16"])");
    made.kernel("gemm", 100 * i + 20, 50, 7, 100 * i + 15);
  }
  const Folder folder;
  const std::string file = folder.write("other.json", made.text());
  for (const char* command : {"explain --trace ", "calibrate trace "}) {
    stepcast::test::check_refused(command + file + " --config llama8b-fsdp",
                                  file + ": error: a step's products are ");
  }
  const Result shown = run("trace " + file + " --config llama8b-fsdp");
  CHECK(shown.status == 0);
  CHECK_THAT(shown.out, ContainsSubstring("times those of the job"));
}

TEST_CASE("bad input of simulate trace exits 2 with one line") {
  stepcast::test::check_refused("trace", "trace: error: no file given");
  stepcast::test::check_refused("trace /no/such.json", "/no/such.json: error: ");
  stepcast::test::check_refused("trace " + kExcerpts + "a100-2ranks.json --device nothing",
                                "--device: error: ");
  stepcast::test::check_refused("trace " + kExcerpts + "a100-2ranks.json --stage 1",
                                "--config: error: ");
  stepcast::test::check_refused("calibrate trace", "calibrate trace: error: no file given");
  stepcast::test::check_refused("export --config llama8b-fsdp --to chakra", "--output: error: ");
  const Folder folder;
  const std::string file = folder.write("t.json", "{\"workload_graph\": []}");
  stepcast::test::check_refused("trace " + file, file + ": error: ");
}
