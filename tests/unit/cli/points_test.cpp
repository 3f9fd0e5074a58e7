// `simulate collective` and `simulate kernels` as processes: exit status, streams, structure of the
// JSON.
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "catch.hpp"
#include "unit/cli/run.h"

namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using stepcast::test::check_refused;
using stepcast::test::Result;
using stepcast::test::run;

// The keys of a row of measured and predicted values, as in INTERFACE.
void check_rows(const json& report) {
  CHECK(report.at("schema") == 1);
  for (const json& row : report.at("rows")) {
    for (const char* key : {"id", "source", "file", "metric", "primary", "stage", "rank", "status",
                            "published", "predicted", "low", "high", "error", "reason"}) {
      CHECK(row.contains(key));
    }
  }
  for (const char* key : {"file", "metric", "rows", "simulated", "median", "mean", "bias", "p90",
                          "worst", "coverage", "half_width", "interval_score"}) {
    CHECK(report.at("summary").at(0).contains(key));
  }
}

const std::string kLogs = "tests/unit/interop/nccl_logs/";

}  // namespace

TEST_CASE("collective prints a table in nccl-tests' own format") {
  const Result r =
      run("collective --cluster dgx-h100 --nodes 8 --op all_reduce --ranks 64 --min-bytes 1M "
          "--max-bytes 4M");
  INFO(r.err);
  REQUIRE(r.status == 0);
  CHECK(r.err.empty());
  CHECK_THAT(r.out, ContainsSubstring("#       size         count      type   redop    root     "
                                      "time   algbw   busbw #wrong     time"));
  CHECK_THAT(r.out, ContainsSubstring("     1048576        262144     float     sum      -1  "));
  CHECK_THAT(r.out, ContainsSubstring("#  Rank 63 Group  0"));
  CHECK_THAT(r.out, ContainsSubstring("    N/A\n"));
  const Result twice = run(
      "collective --cluster dgx-h100 --nodes 8 --op AllReduce --ranks 64 -b 1048576 -e 4096K -f 2");
  CHECK(twice.out == r.out);
  const json report = json::parse(
      run("collective --cluster dgx-h100 --nodes 8 --op all_reduce -b 1M -e 4M --json -").out);
  CHECK(report.at("rows").size() == 3);
  CHECK(report.at("rows")[0].at("id") == "all_reduce 1048576");
  CHECK(report.at("rows")[0].at("low") < report.at("rows")[0].at("high"));
}

TEST_CASE("a forced algorithm and protocol are obeyed") {
  const auto choice = [](const std::string& forced) {
    const json report = json::parse(
        run("collective --cluster dgx-h100 --nodes 1 --op all_reduce -b 64M -e 64M --json - " +
            forced)
            .out);
    return report.at("rows")[0].at("algorithm").get<std::string>() + " " +
           report.at("rows")[0].at("protocol").get<std::string>();
  };
  CHECK(choice("--algo ring --proto ll") == "ring ll");
  CHECK(choice("--algo Ring --proto SIMPLE") == "ring simple");
  CHECK(choice("--set nccl.algo=ring --proto simple") == "ring simple");
}

TEST_CASE("collective --compare: measured, predicted, error and interval; JSON as validate's") {
  const Result r =
      run("collective --cluster dgx-a100 --nodes 1 --compare " + kLogs + "no-redop-no-root.txt");
  INFO(r.err);
  CHECK(r.status == 0);
  for (const char* word : {"measured", "predicted", "error", "90 % interval", "all_gather 4096",
                           "all_gather from 1 MiB"}) {
    CHECK_THAT(r.out, ContainsSubstring(word));
  }
  const Result dash =
      run("collective --cluster alps --compare " + kLogs + "markdown-indented.txt --json -");
  REQUIRE(dash.status == 0);
  const json report = json::parse(dash.out);
  check_rows(report);
  CHECK(report.at("rows").size() == 6);
  CHECK(report.at("rows")[0].at("id") == "all_reduce 8");
  CHECK(report.at("rows")[0].at("published").get<double>() == Approx(17.93e-6));
}

TEST_CASE("kernels --compare prints validate's JSON") {
  const fs::path file =
      fs::temp_directory_path() / ("stepcast-kernels-" + std::to_string(::getpid()) + ".csv");
  std::ofstream(file) << "gpu,dtype,m,n,k,batch,time_us\nh100-sxm,bf16,4096,4096,4096,1,220\n";
  const std::string arguments = "kernels --device h100-sxm --compare '" + file.string() + "'";
  const Result r = run(arguments);
  INFO(r.err);
  CHECK(r.status == 0);
  CHECK_THAT(r.out, ContainsSubstring("bf16 4096x4096x4096"));
  const json report = json::parse(run(arguments + " --json -").out);
  check_rows(report);
  CHECK(report.at("rows").size() == 1);
  fs::remove(file);
}

TEST_CASE("what is wrong is one line, and exits 2") {
  check_refused("collective --nodes 2 --op all_reduce", "--cluster: error: missing");
  check_refused("collective --cluster dgx-h100 --op all_reduce", "--nodes: error: missing");
  check_refused("collective --cluster dgx-h100 --nodes 2", "--op: error: missing");
  check_refused("collective --cluster dgx-h10 --nodes 2 --op all_reduce",
                "--cluster dgx-h10: error: there is no cluster 'dgx-h10'");
  check_refused("collective --cluster dgx-h100 --nodes 2 --op allreduc",
                "--op: error: unknown collective 'allreduc'");
  check_refused("collective --cluster dgx-h100 --nodes 2 --op hypercube",
                "--op: error: hypercube is not modelled");
  check_refused("collective --cluster dgx-h100 --nodes 2 --op all_reduce --ranks 17",
                "--ranks: error: 17 are more than 2 nodes of 8 GPUs hold");
  check_refused("collective --cluster dgx-h100 --nodes 2 --op all_reduce --ranks 1",
                "--ranks: error: one rank has no other to communicate with");
  check_refused("collective --cluster dgx-h100 --nodes 2 --op all_reduce -b 8X",
                "--min-bytes: error: '8X' is not a size");
  check_refused("collective --cluster dgx-h100 --nodes 2 --op all_reduce --algo rign",
                "--algo: error: unknown value 'rign'");
  check_refused("collective --cluster dgx-h100 --nodes 1 --compare " + kLogs + "no-root.txt",
                kLogs + "no-root.txt:10:1: error: 4 nodes ran it; the cluster has 1");
  check_refused("collective --cluster dgx-h100 --nodes 1 --compare " + kLogs + "README.md",
                kLogs + "README.md:1:1: error: there is no nccl-tests table");
  check_refused("collective --cluster dgx-h100 --nodes 1 --compare /bin/true",
                "/bin/true:1:5: error: the byte 0x02 is not text");
  check_refused("collective --cluster dgx-h100 --nodes 1 --compare /no/such/log",
                "/no/such/log:1:1: error: cannot be read");
  check_refused("kernels --compare x.csv", "--device: error: missing");
  check_refused("kernels --device h100-sxm", "--compare: error: missing");
  check_refused("kernels --device h10 --compare x.csv",
                "--device: error: there is no device 'h10'");
  check_refused("kernels --device h100-sxm --compare " + kLogs + "no-root.txt", kLogs);
}
