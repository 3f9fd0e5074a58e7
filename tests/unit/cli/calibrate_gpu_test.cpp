// `simulate calibrate gpu` as a process: what it writes, and that it leaves no partly written
// files.
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
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

const std::string kSession =
    R"({"record": "session", "schema": 1, "harness": "0.1.0", "date": "2026-11-20T21:43:15Z", )"
    R"("gpu": {"name": "NVIDIA H200", "count": 8, "compute_capability": 9, "sms": 132, )"
    R"("memory": 150754820096, "l2": 62914560, "sm_clock": 1980000000, "memory_clock": 3201000000, )"
    R"("power_limit": 700}, "driver": "580.95", "cuda": "13.0", "cublas": "13.1", "cudnn": "9.19", )"
    R"("nccl": "2.28.3"})"
    "\n";

std::string seconds(double t) {
  std::ostringstream text;
  text.precision(9);
  text << t;
  return R"("time": {"median": )" + text.str() + R"(, "p10": )" + text.str() + R"(, "p90": )" +
         text.str() + R"(, "samples": 9}})" + "\n";
}

// Products at 600 TFLOP/s with a start of 4 us: slower than any H200 in configs.
std::string products() {
  std::string text = kSession;
  for (int m = 256; m <= 16384; m *= 2) {
    for (int n = 1024; n <= 16384; n *= 2) {
      for (int k = 1024; k <= 8192; k *= 2) {
        const double t = 4e-6 + 2.0 * m * n * k / 600e12;
        text += R"({"record": "gemm", "dtype": "bf16", "layout": "forward", "m": )" +
                std::to_string(m) + R"(, "n": )" + std::to_string(n) + R"(, "k": )" +
                std::to_string(k) + ", " + seconds(t);
      }
    }
  }
  return text;
}

const std::string kCopy =
    R"({"record": "copy", "direction": "h2d", "pinned": true, "bytes": 4096, )" + seconds(1e-5);
const std::string kCollective =
    R"({"record": "collective", "op": "all_reduce", "dtype": "bf16", "bytes": 1048576, "ranks": 8, )"
    R"("nodes": 1, )" +
    seconds(4e-5);

}  // namespace

TEST_CASE("calibrate gpu: a report, the files, and the same files again") {
  const Folder folder;
  const std::string file = folder.write("h200.jsonl", products() + kCopy + kCollective);
  const std::string out = folder.file("fit");
  const std::string arguments = "calibrate gpu '" + file + "' --output '" + out + "'";
  const Result r = run(arguments);
  INFO(r.err);
  REQUIRE(r.status == 0);
  CHECK(r.err.empty());
  for (const char* word :
       {"Kernels of h200-sxm", "calibrate-gpu 0.1.0 on NVIDIA H200, driver 580.95, CUDA 13.0",
        "gemm bf16", "above 50 us", "Before and after", "h200-sxm/gemm-cublas.yaml", "Refused",
        "copy h2d", "simulate calibrate nccl", "calibration: [auto, "}) {
    CHECK_THAT(r.out, ContainsSubstring(word));
  }
  const std::string yaml = slurp(out + "/gemm-cublas.yaml");
  CHECK_THAT(yaml, ContainsSubstring("kind: gemm\n"));
  CHECK_THAT(yaml, ContainsSubstring("devices: [h200-sxm]"));
  CHECK_THAT(yaml, !ContainsSubstring(out));
  CHECK(std::distance(fs::directory_iterator(out), fs::directory_iterator()) == 1);

  // A second run over existing files writes the same bytes and no other files.
  std::ofstream(out + "/gemm-cublas.yaml") << "old\n";
  const Result again = run(arguments + " --json -");
  REQUIRE(again.status == 0);
  CHECK(slurp(out + "/gemm-cublas.yaml") == yaml);
  CHECK(std::distance(fs::directory_iterator(out), fs::directory_iterator()) == 1);
  const json report = json::parse(again.out);
  CHECK(report.at("files") == json::array({"gemm-cublas.yaml"}));
  CHECK(report.at("collectives") == json::array({"h200.jsonl"}));
  CHECK(report.at("comparisons")[0].at("after").at("median") < 0.05);
  CHECK(report.at("comparisons")[0].at("before").at("median") > 0.05);
  CHECK(run(arguments + " --json -").out == again.out);
}

TEST_CASE("calibrate gpu: a job uses the directory, and its collectives calibrate nccl") {
  const Folder folder;
  const std::string file = folder.write("h200.jsonl", products() + kCollective);
  const std::string out = folder.file("fit");
  REQUIRE(run("calibrate gpu '" + file + "' --output '" + out + "'").status == 0);
  const auto step = [&](const std::string& more) {
    const Result job =
        run("--config configs/llama8b-fsdp.yaml --set cluster=hgx-h200 --set cluster.nodes=2 "
            "--set workload.global_batch=64 --json - " +
            more);
    INFO(job.err);
    REQUIRE((job.status == 0 || job.status == 1));
    return json::parse(job.out).at("step_time").at("value").get<double>();
  };
  CHECK(step("--set 'calibration=[auto, " + out + "]'") > 1.02 * step(""));
  const Result nccl = run("calibrate nccl '" + file + "' --cluster hgx-h200 --output '" +
                          folder.file("nccl.yaml") + "'");
  INFO(nccl.err);
  INFO(nccl.out);
  CHECK(nccl.status != 2);
  CHECK_THAT(nccl.out, ContainsSubstring("all_reduce"));
}

TEST_CASE("calibrate gpu: nothing to fit is status 1 and leaves nothing behind") {
  const Folder folder;
  const std::string file = folder.write("few.jsonl", kSession + kCopy);
  const std::string out = folder.file("fit");
  const Result r = run("calibrate gpu '" + file + "' --output '" + out + "'");
  CHECK(r.status == 1);
  CHECK(r.err == "calibrate gpu: nothing could be fitted; no file is written\n");
  CHECK_THAT(r.out, ContainsSubstring("Refused"));
  CHECK_FALSE(fs::exists(out));
}

TEST_CASE("calibrate gpu: what is refused") {
  const Folder folder;
  const std::string good = "'" + folder.write("good.jsonl", products()) + "'";
  check_refused("calibrate gpu", "calibrate gpu: error: missing files; expected");
  check_refused("calibrate gpu no-such-file", "no-such-file");
  const std::string cut = folder.write("cut.jsonl", kSession + kCopy.substr(0, 40) + "\n" + kCopy);
  check_refused("calibrate gpu '" + cut + "'", cut + ":2:");
  const std::string nan =
      folder.write("nan.jsonl", kSession + R"({"record": "launch", "what": "gap", "time": )"
                                           R"({"median": NaN, "p10": 1, "p90": 1, "samples": 1}})"
                                           "\n");
  check_refused("calibrate gpu '" + nan + "'", nan + ":2:");
  check_refused("calibrate gpu " + good + " --device h100-sxm",
                folder.file("good.jsonl") +
                    ":1:1: error: measured on NVIDIA "
                    "H200; expected h100-sxm");
  check_refused("calibrate gpu " + good + " --device h1000", "");
  check_refused("calibrate gpu " + good + " --library ../x",
                "--library: error: '../x' is not a name");
  check_refused("calibrate gpu " + good + " --output " + good, "--output: error: '");
  check_refused("calibrate gpu " + good + " --output /proc/none/x", "--output: error: cannot make");
  check_refused("calibrate gpu " + good + " --outptu x",
                "--outptu: error: unknown option; expected one that simulate calibrate gpu --help "
                "lists (did you mean '--output'?)");
  // If the report cannot be written, the files are not written either.
  const std::string out = folder.file("fit");
  check_refused("calibrate gpu " + good + " --output '" + out + "' --json /no/such/folder/x.json",
                "--json: error: cannot write");
  CHECK_FALSE(fs::exists(out));
}

TEST_CASE("calibrate has kinds") {
  check_refused("calibrate", "calibrate: error: missing; expected nccl");
  check_refused("calibrate gpus x",
                "gpus: error: unknown command; expected one that simulate calibrate --help lists "
                "(did you mean 'gpu'?)");
  CHECK_THAT(run("calibrate gpu --help").out, ContainsSubstring("--device NAME"));
  CHECK_THAT(run("calibrate nccl --help").out, ContainsSubstring("--cluster NAME"));
  CHECK_THAT(run("calibrate --help").out, ContainsSubstring("nccl"));
}
