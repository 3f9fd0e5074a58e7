// `simulate calibrate nccl` as a process, with the effects of its file, and the pictures of
// `collective --svg`.
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "catch.hpp"
#include "support/folder.h"
#include "support/slurp.h"
#include "unit/cli/run.h"

using stepcast::test::Folder;
using stepcast::test::slurp;
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using stepcast::test::check_refused;
using stepcast::test::Result;
using stepcast::test::run;

const std::string kOwnLogs = "tests/unit/calibrate/logs/";
const std::string kTables = "tests/unit/interop/nccl_logs/";

// A machine of two DGX A100 whose network is slower than the calibration expects: 300 GB/s inside a
// node, 110 GB/s bus bandwidth between nodes, 60 us to start.
std::string slow_log() {
  std::string text = "collective,size_bytes,time_us\n";
  for (std::int64_t bytes = 1 << 10; bytes <= std::int64_t{1} << 32; bytes *= 2) {
    const double seconds = 60e-6 + static_cast<double>(bytes) * (2.0 * 15 / 16) / 110e9;
    text += "all_reduce," + std::to_string(bytes) + "," + std::to_string(seconds * 1e6) + "\n";
  }
  return text;
}

double predicted(const std::string& arguments) {
  const Result r = run(
      "collective --cluster dgx-a100 --nodes 2 --op all_reduce -b 1G -e 1G --json - " + arguments);
  INFO(r.err);
  REQUIRE(r.status == 0);
  return json::parse(r.out).at("rows").at(0).at("predicted").get<double>();
}

}  // namespace

TEST_CASE("calibrate nccl: a report, a file, and the same file again") {
  const Folder folder;
  const std::string out = folder.file("polaris.yaml");
  const std::string arguments = "calibrate nccl " + kOwnLogs + "polaris-plugin.csv " + kOwnLogs +
                                "polaris-default.csv --cluster polaris --name lab --output ";
  const Result r = run(arguments + "'" + out + "'");
  INFO(r.err);
  REQUIRE(r.status == 0);
  for (const char* word :
       {"Logs", "of model", "healthy", "degraded", "polaris-default.csv alltoall 2 x 4:", "Curves",
        "bus bandwidth", "2 domains", "polaris.yaml (network) is written"}) {
    CHECK_THAT(r.out, ContainsSubstring(word));
  }
  CHECK(r.err.empty());
  const std::string yaml = slurp(out);
  CHECK_THAT(yaml, ContainsSubstring("kind: nccl\nsystem: lab\nscope: network\n"));
  CHECK_THAT(yaml, ContainsSubstring("measured:"));
  CHECK_THAT(yaml, ContainsSubstring("left_out:"));
  CHECK_THAT(yaml, !ContainsSubstring(STEPCAST_SOURCE_DIR));
  CHECK(run(arguments + "-").out == yaml);
  const json report = json::parse(run(arguments + "'" + out + "' --json -").out);
  CHECK(report.at("logs").size() == 6);
  CHECK(report.at("logs")[0].at("health") == "healthy");
  CHECK(report.at("logs")[3].at("health") == "degraded");
  CHECK_FALSE(report.at("logs")[3].at("reasons").empty());
  CHECK(report.at("logs")[3].at("points")[0].at("fitted").is_null());
  CHECK(report.at("curves").size() == 3);
  CHECK(folder.files() == 1);
}

TEST_CASE("what was calibrated prices collectives and steps; other curves stay") {
  const Folder folder;
  const std::string log = folder.write("slow.csv", slow_log());
  const std::string out = folder.file("slow.yaml");
  const Result r = run("calibrate nccl '" + log +
                       "' --cluster dgx-a100 --nodes 2 --keep-degraded --output '" + out + "'");
  INFO(r.err);
  REQUIRE(r.status == 0);
  const double measured = 60e-6 + (1 << 30) * (2.0 * 15 / 16) / 110e9;
  CHECK(predicted("") < 0.75 * measured);
  CHECK(predicted("--calibration '" + out + "'") == Approx(measured).epsilon(0.05));

  // Gradients are averaged by the operation that was measured.
  const auto step = [&](const std::string& more) {
    const Result job =
        run("--config configs/llama8b-fsdp.yaml --set cluster=dgx-a100 --set "
            "cluster.nodes=2 --set workload.global_batch=32 --set workload.sequence_length=1024 "
            "--set parallelism.sharding=none --json - " +
            more);
    INFO(job.err);
    REQUIRE((job.status == 0 || job.status == 1));
    return json::parse(job.out);
  };
  const json before = step("");
  const json after = step("--set 'calibration=[" + out + "]'");
  CHECK(after.at("step_time").at("value") > before.at("step_time").at("value"));
  const auto uses = [](const json& report, const std::string& part) {
    for (const json& use : report.at("calibration")) {
      if (use.at("file").get<std::string>().find(part) != std::string::npos) {
        return true;
      }
    }
    return false;
  };
  CHECK(uses(after, "slow.yaml"));
  CHECK(uses(after, "gemm"));  // the calibration files of kernels stay in use
  CHECK_FALSE(uses(before, "slow.yaml"));
}

TEST_CASE("nothing but degraded logs: reported, exit 1, no file") {
  const Folder folder;
  const Result r =
      run("calibrate nccl " + kOwnLogs + "polaris-collnet.csv --cluster polaris --output '" +
          folder.file("x.yaml") + "'");
  CHECK(r.status == 1);
  CHECK_THAT(r.out, ContainsSubstring("degraded"));
  CHECK_THAT(r.err, ContainsSubstring("nothing is left to fit"));
  CHECK(folder.files() == 0);
}

TEST_CASE("logs of both scopes: a file each") {
  const Folder folder;
  const std::string both = "calibrate nccl " + kTables + "no-redop-no-root.txt " + "'" +
                           folder.write("two.csv", slow_log()) +
                           "' --cluster dgx-a100 --nodes 2 --keep-degraded --output ";
  const Result r = run(both + "'" + folder.file("lab.yaml") + "'");
  INFO(r.err);
  REQUIRE(r.status == 0);
  CHECK_THAT(slurp(folder.file("lab.yaml")), ContainsSubstring("scope: network"));
  CHECK_THAT(slurp(folder.file("lab-domain.yaml")), ContainsSubstring("scope: domain"));
  check_refused(both + "-", "--output: error: the logs are from inside domains and across them");
  CHECK(run(both + "- --scope domain").status == 0);
}

TEST_CASE("bad input: a line per fault, exit 2, nothing written") {
  const Folder folder;
  const std::string bad = folder.write("bad.csv",
                                       "collective,size_bytes,time_us\nall_reduce,x,1\n"
                                       "all_reduce,8,-1\n");
  const std::string good = kOwnLogs + "polaris-plugin.csv";
  const std::string output = " --output '" + folder.file("x.yaml") + "'";
  const Result r =
      run("calibrate nccl '" + bad + "' " + good + " /bin/true --cluster polaris" + output);
  CHECK(r.status == 2);
  CHECK(r.out.empty());
  CHECK(r.err == bad + ":2:1: error: 'x' is not a size in bytes; expected a whole number\n" + bad +
                     ":3:1: error: '-1' is not a time; expected microseconds\n/bin/true:1:5: "
                     "error: the byte 0x02 is not text; expected nccl-tests output or CSV\n");
  CHECK(folder.files() == 1);
  check_refused("calibrate nccl --cluster polaris", "calibrate nccl: error: missing logs");
  check_refused("calibrate nccl " + good, "--cluster: error: missing");
  check_refused("calibrate nccl " + good + " --cluster polari",
                "--cluster polari: error: there is no cluster 'polari'");
  check_refused("calibrate nccl " + good + " --cluster polaris --scope node",
                "--scope: error: unknown value 'node'; expected auto, domain, network");
  check_refused("calibrate nccl " + good + " --cluster polaris --name '../x'",
                "--name: error: '../x' is not a name");
  check_refused("calibrate nccl " + good + " --cluster polaris --output /no/such/folder/x.yaml",
                "--output");
  check_refused("calibrate nccl " + kOwnLogs + "alps-wrong-results.txt --cluster alps",
                kOwnLogs + "alps-wrong-results.txt:1:1: error: the log does not list its devices");
  check_refused("collective --cluster dgx-a100 --nodes 2 --op all_reduce --calibration " + good,
                good);
  check_refused("collective --cluster dgx-a100 --nodes 2 --op all_reduce --calibration none.yaml",
                "--calibration: error: there is no file 'none.yaml'");
}

TEST_CASE("collective --svg: lines, bands and rings, text escaped, nothing from outside") {
  const Folder folder;
  const std::string file = folder.file("a.svg");
  const Result r = run("collective --cluster dgx-2 --compare " + kTables +
                       "five-collectives.txt --svg '" + file + "'");
  INFO(r.err);
  REQUIRE(r.status == 0);
  for (const char* column : {"predicted", "measured", "90 % interval", "error", "ring simple"}) {
    CHECK_THAT(r.out, ContainsSubstring(column));
  }
  const std::string svg = slurp(file);
  CHECK(svg.rfind("<svg xmlns=", 0) == 0);
  CHECK(svg.substr(svg.size() - 7) == "</svg>\n");
  const auto count = [&](const std::string& what) {
    std::size_t n = 0;
    for (std::size_t at = 0; (at = svg.find(what, at)) != std::string::npos; ++at) {
      ++n;
    }
    return n;
  };
  CHECK(count("<polyline") == 5);
  CHECK(count("<polygon") == 5);
  CHECK(count("<circle class=\"dot\"") > 20);
  CHECK(count("http") == 1);  // only in the namespace
  CHECK(count("nan") == 0);
  CHECK(count("inf") == 0);
  CHECK_THAT(svg, ContainsSubstring("dgx-2: collectives among 12 ranks (1 x 12)"));
  CHECK_THAT(svg, ContainsSubstring("prefers-color-scheme: dark"));
  CHECK(run("collective --cluster dgx-h100 --nodes 2 --op alltoall --svg -").out.rfind("<svg", 0) ==
        0);
  const std::string named = folder.write("a&b.yaml", "use: dgx-a100\nname: \"<b>&\"\n");
  const Result escaped =
      run("collective --cluster '" + named + "' --nodes 1 --op all_reduce --svg -");
  INFO(escaped.err);
  REQUIRE(escaped.status == 0);
  CHECK_THAT(escaped.out, ContainsSubstring("&lt;b&gt;&amp;: all_reduce among 8 ranks (1 x 8)"));
}

TEST_CASE("calibrate runs: a site file from two runs, used by a job") {
  const Folder folder;
  const std::string job = folder.write(
      "job.yaml",
      "model: {layers: 4, hidden: 4096, heads: 32, ffn: 16384, vocab: 32000}\n"
      "cluster: {use: dgx-h100, nodes: 1}\n"
      "workload: {sequence_length: 2048, global_batch: 64, micro_batch: 1, precision: bf16}\n");
  const auto step = [&](const std::string& more) {
    const Result r = run("--config " + job + " --json - " + more);
    INFO(r.err);
    REQUIRE(r.status == 0);
    return json::parse(r.out).at("step_time").at("value").get<double>();
  };
  const double one = step("");
  const double two = step("--set workload.micro_batch=2");
  std::ostringstream rows;
  rows << "{\"config\": \"job.yaml\", \"measured\": {\"step_time\": " << one / 0.88 << "}}\n"
       << "{\"config\": \"job.yaml\", \"set\": [\"workload.micro_batch=2\"], \"measured\": "
       << "{\"step_time\": " << two / 0.88 << "}}\n";
  const std::string file = folder.write("rows.jsonl", rows.str());
  const std::string site = folder.file("site.yaml");
  const Result r = run("calibrate runs " + file + " --output " + site + " --json " +
                       folder.file("r.json") + " --check " + file);
  INFO(r.out << r.err);
  REQUIRE(r.status == 0);
  CHECK(r.out.find("sustained clock") != std::string::npos);
  CHECK(r.out.find("network bandwidth is not determined: every row is of a single node") !=
        std::string::npos);
  CHECK(r.out.find("use it with calibration: [auto, " + site + "]") != std::string::npos);
  const json report = json::parse(slurp(folder.file("r.json")));
  CHECK(report.at("checks").size() == 2);
  CHECK(report.at("after").at("median").get<double>() < 0.05);
  // The job's step approaches the measured one, and the report names the file.
  const double sharp = step("--set 'calibration=[auto, " + site + "]'");
  CHECK(sharp > 1.08 * one);
  CHECK(sharp < 1.15 * one);
  const Result named =
      run("--config " + job + " --json - --set 'calibration=[auto, " + site + "]'");
  CHECK(named.out.find("2 measured steps on 8 GPUs") != std::string::npos);
  // The same rows give the same bytes.
  const Result again = run("calibrate runs " + file + " --output - --name rows");
  CHECK(again.out == slurp(site));

  SECTION("one row is refused") {
    const Result few =
        run("calibrate runs " +
            folder.write("few.jsonl",
                         "{\"config\": \"job.yaml\", \"measured\": {\"step_time\": 1}}\n") +
            " --output " + folder.file("none.yaml"));
    CHECK(few.status == 1);
    CHECK(few.err.find("1 usable row of different jobs; at least 2 are needed") !=
          std::string::npos);
    CHECK_FALSE(fs::exists(folder.file("none.yaml")));
  }
  SECTION("faults have lines") {
    const Result bad =
        run("calibrate runs " +
            folder.write("bad.jsonl",
                         "{\"config\": \"job.yaml\", \"measured\": {\"step_time\": -1}}\n"));
    CHECK(bad.status == 2);
    CHECK(bad.err.find("bad.jsonl:1:50: error: step_time is -1; expected a number above 0") !=
          std::string::npos);
    check_refused("calibrate runs", "calibrate runs: error: no file given");
  }
}
