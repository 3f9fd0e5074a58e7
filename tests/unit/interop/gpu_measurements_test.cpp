// Records of calibrate-gpu: what is written reads back exactly, and faults are reported line by
// line.
#include "stepcast/interop/gpu_measurements.h"

#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <random>

#include "catch.hpp"
#include "stepcast/base/diagnostics.h"
#include "stepcast/interop/nccl_log.h"

namespace {

using namespace stepcast;
using namespace stepcast::interop;

GpuSession session() {
  GpuSession s;
  s.harness = "0.1.0";
  s.date = "2026-11-20T21:43:15Z";
  s.gpu = "NVIDIA H200";
  s.gpus = 8;
  s.compute_capability = 9;
  s.sms = 132;
  s.memory = 150'754'820'096;
  s.l2 = 62'914'560;
  s.sm_clock = 1.98e9;
  s.memory_clock = 3.201e9;
  s.power_limit = 700;
  s.driver = "580.95.05";
  s.cuda = "13.0";
  s.cublas = "13.1.0";
  s.cudnn = "9.19.0";
  s.nccl = "2.28.3";
  return s;
}

GpuMeasurement timed(GpuCase what, double median) {
  GpuMeasurement m;
  m.what = std::move(what);
  m.time = {median, median * 0.99, median * 1.02, 20};
  return m;
}

const std::string kSession = to_json_line(session());

const GpuCase kGemm = GemmCase{job::DType::bf16, GemmLayout::forward, 4096, 2048, 1024};

std::string gemm_line(double median) { return to_json_line(timed(kGemm, median)); }

GpuMeasurements parse(const std::string& text) { return parse_gpu_measurements(text, "run.jsonl"); }

// "LINE:COLUMN MESSAGE" of every fault.
std::vector<std::string> faults_of(const std::string& text) {
  std::vector<std::string> out;
  try {
    parse(text);
  } catch (const InputError& error) {
    for (const Fault& f : error.faults()) {
      CHECK(f.where.file == "run.jsonl");
      out.push_back(std::to_string(f.where.line) + ":" + std::to_string(f.where.column) + " " +
                    f.message);
    }
  }
  return out;
}

// The line of a GEMM with one part replaced.
std::string changed(const std::string& from, const std::string& to) {
  std::string line = gemm_line(1e-3);
  const auto at = line.find(from);
  REQUIRE(at != std::string::npos);
  return kSession + line.replace(at, from.size(), to);
}

std::string one_fault(const std::string& text) {
  const auto all = faults_of(text);
  REQUIRE(all.size() == 1);
  return all.front();
}

std::vector<GpuCase> one_of_each() {
  GemmCase grouped{job::DType::fp8_block, GemmLayout::weight_grad, 512, 2048, 7168, 1, 8};
  GemmCase busy{job::DType::tf32, GemmLayout::input_grad, 64, 64, 64, 12, 1, true, true};
  AttentionCase attention;
  attention.sequences = 2;
  attention.length = 8192;
  attention.heads = 32;
  attention.kv_heads = 8;
  attention.head_dim = 128;
  attention.backward = true;
  CollectiveCase ring{"all_reduce", job::DType::bf16, 1 << 20, 16, 2, "ring", "ll128"};
  OverlapCase beside_nccl;
  beside_nccl.kernel = "gemm";
  beside_nccl.m = beside_nccl.n = beside_nccl.k = 8192;
  beside_nccl.op = "all_gather";
  beside_nccl.other_bytes = 1 << 28;
  beside_nccl.ranks = 8;
  beside_nccl.channels = 16;
  OverlapCase beside_copy;
  beside_copy.kernel = "norm";
  beside_copy.bytes = 1 << 26;
  beside_copy.direction = "h2d";
  beside_copy.other_bytes = 1 << 28;
  LayerCase layer{"llama-3.1-8b", job::DType::bf16, 1, 8192, 2, true};
  return {kGemm,
          grouped,
          busy,
          attention,
          MemoryCase{"cross_entropy", job::DType::fp32, 4096, true},
          CopyCase{"both", false, std::int64_t{1} << 33},
          LaunchCase{"graph_kernel"},
          CollectiveCase{"sendrecv", job::DType::fp32, 8, 2, 1, "", ""},
          ring,
          beside_nccl,
          beside_copy,
          layer};
}

}  // namespace

TEST_CASE("What is written reads back exactly") {
  std::mt19937_64 random(7);
  std::uniform_real_distribution<double> exponent(-18, 3);
  std::string text = kSession;
  std::vector<GpuMeasurement> written;
  for (const GpuCase& what : one_of_each()) {
    GpuMeasurement m = timed(what, std::pow(10, exponent(random)));
    m.sm_clock = 1.755e9;
    m.power = 1.0 / 3;
    if (std::holds_alternative<OverlapCase>(what)) {
      m.alone = 0.1 + 0.2;
      m.other_alone = 1e-300;
      m.other_together = 5e-324;
    }
    text += to_json_line(m);
    written.push_back(m);
  }
  const GpuMeasurements read = parse(text);
  CHECK(read.warnings.empty());
  CHECK(read.file == "run.jsonl");
  REQUIRE(read.sessions.size() == 1);
  CHECK(to_json_line(read.sessions[0]) == kSession);
  REQUIRE(read.measurements.size() == written.size());
  std::string again = to_json_line(read.sessions[0]);
  for (std::size_t i = 0; i < written.size(); ++i) {
    const GpuMeasurement& a = written[i];
    const GpuMeasurement& b = read.measurements[i];
    CHECK(a.what == b.what);
    CHECK(a.time.median == b.time.median);
    CHECK(a.time.p10 == b.time.p10);
    CHECK(a.time.p90 == b.time.p90);
    CHECK(a.alone == b.alone);
    CHECK(a.other_together == b.other_together);
    CHECK(a.power == b.power);
    CHECK(b.temperature == 0);
    CHECK(b.line == static_cast<int>(i) + 2);
    CHECK(b.session == 0);
    again += to_json_line(b);
  }
  CHECK(again == text);
}

TEST_CASE("A record as it stands in a file") {
  CHECK(gemm_line(0.25) ==
        "{\"record\": \"gemm\", \"dtype\": \"bf16\", \"layout\": \"forward\", \"m\": 4096, \"n\": "
        "2048, \"k\": 1024, \"time\": {\"median\": 0.25, \"p10\": 0.2475, \"p90\": 0.255, "
        "\"samples\": 20}}\n");
  GpuMeasurement skipped;
  skipped.what = LaunchCase{"gap"};
  skipped.skipped = "the \"driver\" said no";
  CHECK(to_json_line(skipped) ==
        "{\"record\": \"launch\", \"what\": \"gap\", \"skipped\": \"the \\\"driver\\\" said "
        "no\"}\n");
  const auto read = parse(kSession + to_json_line(skipped));
  REQUIRE(read.measurements.size() == 1);
  CHECK(read.measurements[0].skipped == skipped.skipped);
  CHECK(read.measurements[0].time.median == 0);
}

TEST_CASE("Names of cases tell them apart") {
  CHECK(to_string(kGemm) == "gemm bf16 forward 4096x2048x1024");
  std::vector<std::string> names;
  for (const GpuCase& what : one_of_each()) {
    const std::string name = to_string(what);
    CHECK(std::find(names.begin(), names.end(), name) == names.end());
    names.push_back(name);
  }
  CHECK(names[3] == "attention cudnn bf16 backward 2x8192 32/8 heads of 128 causal");
  CHECK(names[8] == "collective all_reduce bf16 1048576 16 ranks 2 nodes algo ring proto ll128");
  CHECK(names[9] == "overlap gemm 8192x8192x8192 beside all_gather 268435456 8 ranks 16 channels");
}

TEST_CASE("A measurement belongs to the session above it") {
  GpuSession later = session();
  later.date = "2026-11-21T08:00:00Z";
  later.driver = "580.99";
  const auto read = parse(kSession + gemm_line(1e-3) + to_json_line(later) +
                          to_json_line(timed(LaunchCase{"gap"}, 1e-6)));
  REQUIRE(read.sessions.size() == 2);
  CHECK(read.measurements[0].session == 0);
  CHECK(read.measurements[1].session == 1);
  CHECK(read.warnings.empty());
}

TEST_CASE("Nothing measured yet is no fault") {
  CHECK(parse("").sessions.empty());
  CHECK(parse(kSession).measurements.empty());
  CHECK(parse(kSession + "\r\n\n").measurements.empty());
}

TEST_CASE("A last line cut short is left out") {
  const std::string whole = kSession + gemm_line(1e-3);
  const std::string second = to_json_line(timed(LaunchCase{"gap"}, 1e-6));
  for (std::size_t n = 1; n + 1 < second.size(); ++n) {
    const auto read = parse(whole + second.substr(0, n));
    CHECK(read.measurements.size() == 1);
    REQUIRE(read.warnings.size() == 1);
    CHECK(read.warnings[0].where.line == 3);
    CHECK(read.warnings[0].message == "the last line is cut short; left out");
  }
  // Only its newline is missing, so it is measured.
  CHECK(parse(whole + second.substr(0, second.size() - 1)).measurements.size() == 2);
  // The same line in the middle of the file is a fault.
  CHECK(one_fault(kSession + second.substr(0, 20) + "\n" + gemm_line(1e-3)).substr(0, 2) == "2:");
}

TEST_CASE("A case that stands twice: the later counts") {
  const auto read = parse(kSession + gemm_line(1e-3) + gemm_line(1.1e-3) + gemm_line(1.2e-3));
  REQUIRE(read.measurements.size() == 1);
  CHECK(read.measurements[0].line == 4);
  REQUIRE(read.warnings.size() == 1);
  CHECK(read.warnings[0].where.line == 2);
  CHECK(read.warnings[0].message ==
        "gemm bf16 forward 4096x2048x1024 is repeated at line 4; lines 2 and 3 are left out");
}

TEST_CASE("Times that contradict each other both go") {
  const auto read = parse(kSession + gemm_line(1e-3) + gemm_line(1.6e-3));
  CHECK(read.measurements.empty());
  REQUIRE(read.warnings.size() == 1);
  CHECK(read.warnings[0].message ==
        "gemm bf16 forward 4096x2048x1024: the times of lines 2 and 3 are a factor of 1.60 apart; "
        "all are left out");
  CHECK(parse(kSession + gemm_line(1e-3) + gemm_line(1.4e-3)).measurements.size() == 1);
}

TEST_CASE("A skipped case gives way to a time") {
  GpuMeasurement skipped;
  skipped.what = kGemm;
  skipped.skipped = "out of memory";
  for (const std::string& text : {kSession + gemm_line(1e-3) + to_json_line(skipped),
                                  kSession + to_json_line(skipped) + gemm_line(1e-3)}) {
    const auto read = parse(text);
    REQUIRE(read.measurements.size() == 1);
    CHECK(read.measurements[0].skipped.empty());
    CHECK(read.warnings.size() == 1);
  }
}

TEST_CASE("Faults of measurement files") {
  CHECK(one_fault(kSession + "rubbish\n").substr(0, 2) == "2:");
  CHECK(one_fault(kSession + "[1, 2]\n") == "2:1 is not a record; expected a JSON object");
  CHECK(one_fault(kSession + "{\"m\": 1}\n") ==
        "2:1 'record' is missing; expected a line of calibrate-gpu");
  CHECK(one_fault(changed("\"gemm\"", "\"gem\"")) ==
        "2:12 unknown record 'gem'; expected one of session, gemm, attention, memory, copy, "
        "launch, overlap, collective, layer");
  CHECK(one_fault(gemm_line(1e-3) + kSession) ==
        "1:1 the record comes before any session; expected the session's line first");
  CHECK(one_fault(changed("\"k\": 1024, ", "")) == "2:1 'k' of a gemm record is missing");
  CHECK(one_fault(changed("\"k\": 1024", "\"k\": 1024, \"accumulate_fp23\": true")) ==
        "2:91 unknown key 'accumulate_fp23' of a gemm record; expected 'accumulate_fp32'");
  CHECK(one_fault(changed("4096", "0")) == "2:63 m is 0; expected 1 to 2147483648");
  CHECK(one_fault(changed("4096", "\"4096\"")) == "2:63 m: '4096' is quoted");
  CHECK(one_fault(changed("4096", "40.5")).substr(0, 7) == "2:63 m:");
  CHECK(one_fault(changed("\"bf16\"", "\"bf17\"")) ==
        "2:29 dtype is 'bf17'; expected one of fp32, tf32, bf16, fp16, fp8, fp8_block, mxfp8, "
        "nvfp4, mxfp4, int8");
  CHECK(one_fault(changed("\"forward\"", "\"TN\"")) ==
        "2:47 layout is 'TN'; expected one of forward, input_grad, weight_grad");
}

TEST_CASE("Times that are none") {
  const std::string median = "\"median\": 0.001";
  CHECK(one_fault(changed(median, "\"median\": NaN")).find("median: ") != std::string::npos);
  CHECK(one_fault(changed(median, "\"median\": 1e999")).find("median: ") != std::string::npos);
  CHECK(one_fault(changed(median, "\"median\": null")).find("median") != std::string::npos);
  CHECK(one_fault(changed(median, "\"median\": 0")) ==
        "2:110 median is 0 s; expected a time above 0 and to 3600 s");
  CHECK(one_fault(changed(median, "\"median\": -0.001")) ==
        "2:110 median is -0.001 s; expected a time above 0 and to 3600 s");
  CHECK(one_fault(changed(median, "\"median\": 0.0001")) ==
        "2:99 p10 0.00099, median 0.0001 and p90 0.00102 do not rise");
  CHECK(one_fault(changed("\"samples\": 20", "\"samples\": 0")) ==
        "2:160 samples is 0; expected 1 to 1073741824");
  CHECK(one_fault(changed("\"time\"", "\"skipped\": \"no\", \"time\""))
            .find("a skipped case has a time") != std::string::npos);
}

TEST_CASE("Every line at fault is told, and no end of them") {
  std::string text = kSession;
  for (int i = 0; i < 3; ++i) {
    text += "{\"record\": \"launch\", \"what\": \"lunch\"}\n";
  }
  const auto all = faults_of(text);
  REQUIRE(all.size() == 6);  // the wrong word and the missing time
  CHECK(all[0].substr(0, 2) == "2:");
  CHECK(all[4].substr(0, 2) == "4:");
  std::string many;
  for (int i = 0; i < 200; ++i) {
    many += "x\n";
  }
  const auto most = faults_of(many);
  REQUIRE(most.size() == 51);
  CHECK(most.back().find("150 more faults") != std::string::npos);
}

TEST_CASE("Sessions of different GPUs are refused") {
  GpuSession other = session();
  other.gpu = "NVIDIA H100 80GB HBM3";
  CHECK(one_fault(kSession + gemm_line(1e-3) + to_json_line(other)) ==
        "3:1 a session on NVIDIA H100 80GB HBM3, but line 1 is one on NVIDIA H200; expected one "
        "kind of GPU a file");
  GpuSession slice = session();  // a MIG slice has the name of the whole GPU
  slice.sms = 60;
  CHECK(one_fault(kSession + to_json_line(slice)).find("with 60 SMs") != std::string::npos);
  GpuSession capped = session();
  capped.power_limit = 500;
  const auto read = parse(kSession + to_json_line(capped));
  REQUIRE(read.warnings.size() == 1);
  CHECK(read.warnings[0].message.find("the power limit is 500 W") == 0);
}

TEST_CASE("Sessions at fault") {
  const auto with = [](const std::string& from, const std::string& to) {
    std::string line = kSession;
    const auto at = line.find(from);
    REQUIRE(at != std::string::npos);
    return one_fault(line.replace(at, from.size(), to));
  };
  CHECK(with("\"schema\": 1", "\"schema\": 2") ==
        "1:33 schema is '2'; expected 1: written by another version of calibrate-gpu");
  CHECK(with("2026-11-20T21:43:15Z", "20 Nov 2026").find("expected such as 2026-11-20T21:43:15Z") !=
        std::string::npos);
  std::string renamed = kSession;
  const auto both = faults_of(renamed.replace(renamed.find("\"nccl\""), 6, "\"host\""));
  REQUIRE(both.size() == 2);
  CHECK(both[0] == "1:1 'nccl' of a session is missing");
  CHECK(both[1].find("unknown key 'host' of a session") != std::string::npos);
}

TEST_CASE("Collectives of a file are a log of calibrate nccl") {
  const auto file = std::filesystem::temp_directory_path() /
                    ("stepcast-gpu-" + std::to_string(::getpid()) + ".jsonl");
  CollectiveCase c{"all_reduce", job::DType::bf16, 1 << 20, 8, 1, "", ""};
  std::string text = kSession + gemm_line(1e-3) + to_json_line(timed(c, 5e-5));
  c.bytes = 1 << 21;
  text += to_json_line(timed(c, 7e-5));
  c.algo = "Ring";
  c.proto = "LL128";
  text += to_json_line(timed(c, 9e-5));
  std::ofstream(file) << text;
  const CollectiveLog log = read_collectives(file);
  std::ofstream(file) << kSession + gemm_line(1e-3);
  CHECK_THROWS_AS(read_collectives(file), InputError);
  std::filesystem::remove(file);
  REQUIRE(log.runs.size() == 2);
  const CollectiveRun& run = log.runs[0];
  CHECK(run.ranks_per_node == std::vector<int>{8});
  CHECK(run.devices == std::vector<std::string>{"NVIDIA H200"});
  CHECK(run.nccl_version == "2.28.3");
  CHECK(run.date == "2026-11-20");
  REQUIRE(run.points.size() == 2);
  CHECK(run.points[1].collective == "all_reduce");
  CHECK(run.points[1].bytes == 1 << 21);
  CHECK(run.points[1].seconds == 7e-5);
  CHECK(run.points[1].type == "bfloat16");
  CHECK(run.points[1].line == 4);
  CHECK(log.runs[1].algorithm == "ring");
  CHECK(log.runs[1].protocol == "ll128");
}
