// The device of measurement files, the cases that reach a fit, and the report on the others.
#include "stepcast/calibrate/gpu.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "calibrate/gpu_device.h"
#include "calibrate/gpu_samples.h"
#include "catch.hpp"
#include "stepcast/base/diagnostics.h"
#include "stepcast/config/config.h"
#include "stepcast/text/document.h"
#include "support/folder.h"

using stepcast::test::Folder;
namespace {

using namespace stepcast;
using namespace stepcast::calibrate;
namespace fs = std::filesystem;

std::string session(const std::string& gpu, std::int64_t memory, int sms = 132,
                    double power = 700) {
  interop::GpuSession s;
  s.harness = "0.1.0";
  s.date = "2026-11-20T21:43:15Z";
  s.gpu = gpu;
  s.gpus = 1;
  s.sms = sms;
  s.memory = memory;
  s.power_limit = power;
  return interop::to_json_line(s);
}

const std::string kH200 = session("NVIDIA H200", 150'754'820'096);

std::string line(interop::GpuCase what, double seconds) {
  interop::GpuMeasurement m;
  m.what = std::move(what);
  m.time = {seconds, seconds, seconds, 5};
  return interop::to_json_line(m);
}

interop::GemmCase gemm(std::int64_t m) {
  return {job::DType::bf16, interop::GemmLayout::forward, m, 4096, 4096};
}

std::string only(const std::string& printed, std::int64_t memory = 0) {
  const auto all = devices_named(printed, memory);
  return all.size() == 1 ? all.front() : std::to_string(all.size()) + " devices";
}

result::KernelCalibration calibrated(const std::vector<std::string>& files,
                                     const GpuOptions& options = {}) {
  return calibrate_gpu(read_kernel_files(files), options, text::data_directory() / "calibration");
}

std::vector<std::string> faults_of(const std::vector<std::string>& files,
                                   const GpuOptions& options = {}) {
  std::vector<std::string> out;
  try {
    calibrated(files, options);
  } catch (const InputError& error) {
    for (const Fault& f : error.faults()) {
      out.push_back(fs::path(f.where.file).filename().string() + ":" +
                    std::to_string(f.where.line) + " " + f.message);
    }
  }
  return out;
}

Gathered gathered(const std::vector<std::string>& files, const std::string& device) {
  return gather(read_kernel_files(files), config::device(device), "");
}

}  // namespace

TEST_CASE("GPUs by the names that drivers and tables give them") {
  CHECK(only("NVIDIA H200") == "h200-sxm");
  CHECK(only("NVIDIA H200", 150'754'820'096) == "h200-sxm");
  CHECK(only("NVIDIA H100 80GB HBM3") == "h100-sxm");
  CHECK(only("NVIDIA H100 80GB HBM3", 85'029'158'912) == "h100-sxm");
  CHECK(only("NVIDIA H100 PCIe") == "h100-pcie");
  CHECK(only("NVIDIA H100 NVL") == "h100-nvl");
  CHECK(only("NVIDIA A100-SXM4-80GB") == "a100-sxm-80");
  CHECK(only("NVIDIA A100-SXM4-40GB") == "a100-sxm-40");
  CHECK(only("NVIDIA A100 80GB PCIe") == "a100-pcie-80");
  CHECK(only("Tesla V100-SXM2-32GB") == "v100-sxm2-32");
  CHECK(only("NVIDIA B200") == "b200-sxm");
  CHECK(only("NVIDIA GB200") == "gb200");
  CHECK(only("NVIDIA GH200 480GB", 101'468'602'368) == "gh200");
  CHECK(only("NVIDIA H20") == "h20");
  CHECK(only("NVIDIA A800-SXM4-80GB") == "a800-sxm-80");
  CHECK(only("NVIDIA L40S") == "l40s");
  CHECK(only("NVIDIA GeForce RTX 4090") == "rtx4090");
  CHECK(only("NVIDIA RTX PRO 6000 Blackwell Server Edition") == "rtx-pro-6000");
  CHECK(only("h100_sxm") == "h100-sxm");
  CHECK(only("a100-sxm-80g") == "a100-sxm-80");
  CHECK(only("a100") == "a100-sxm-80");
  CHECK(only("a100_sxm") == "a100-sxm-80");
  CHECK(only("v100-pcie-32g") == "v100-pcie-32");
  // Nothing distinguishes the two boards.
  CHECK(devices_named("a100-pcie") == std::vector<std::string>{"a100-pcie-40", "a100-pcie-80"});
  CHECK(devices_named("NVIDIA H200 NVL").empty());
  CHECK(devices_named("NVIDIA GeForce GTX 1080").empty());
}

TEST_CASE("Files of several devices are refused, naming their lines") {
  const Folder folder;
  const auto h200 = folder.write("h200.jsonl", kH200 + line(gemm(64), 1e-5));
  const auto a100 = folder.write("a100.csv", "gpu,dtype,m,n,k,time_us\na100_pcie,bf16,1,1,1,3\n");
  const auto both = faults_of({h200, a100});
  REQUIRE(both.size() == 1);
  // Nothing distinguishes 40 from 80 GB.
  CHECK(both[0] ==
        "a100.csv:2 a100_pcie may be a100-pcie-40, a100-pcie-80; expected --device with "
        "one of them");
  const auto h100 = folder.write(
      "h100.csv", "gpu,dtype,m,n,k,time_us\nh200,bf16,1,1,1,3\nh100_sxm,bf16,1,1,1,3\n");
  const auto mixed = faults_of({h100});
  REQUIRE(mixed.size() == 1);
  CHECK(mixed[0].find("h100.csv:2 measured on h200 (h200-sxm), but ") == 0);
  CHECK(mixed[0].find("h100.csv:3:1 on h100_sxm (h100-sxm); expected one device") !=
        std::string::npos);
  const auto other = faults_of({h200}, {"h100-sxm", ""});
  REQUIRE(other.size() == 1);
  CHECK(other[0] == "h200.jsonl:1 measured on NVIDIA H200; expected h100-sxm (--device)");
  CHECK(faults_of({folder.write("none.csv", "dtype,m,n,k,time_us\nbf16,1,1,1,3\n")}) ==
        std::vector<std::string>{
            "none.csv:1 does not name the GPU; expected --device, as configs/devices has it"});
  CHECK(faults_of({folder.write("old.csv", "gpu,dtype,m,n,k,time_us\np100,fp32,1,1,1,3\n")}) ==
        std::vector<std::string>{"old.csv:2 configs/devices has no p100; expected --device"});
}

TEST_CASE("Files with nothing in them") {
  const Folder folder;
  CHECK(faults_of({folder.write("empty.jsonl", "")}).at(0).find("is empty") != std::string::npos);
  CHECK(faults_of({folder.write("bare.jsonl", kH200)}).at(0).find("holds no measurements") !=
        std::string::npos);
  CHECK(faults_of({"/no/such/file"}).size() == 1);
  const auto good = folder.write("good.jsonl", kH200 + line(gemm(64), 1e-5));
  CHECK(faults_of({good, good}).at(0) == "good.jsonl:1 is given twice; expected each file once");
  // The faults of all files are reported at once.
  CHECK(faults_of({folder.write("a.jsonl", "{}\n"), folder.write("b.csv", "x\n1\n")}).size() == 2);
}

TEST_CASE("A case of two files counts once; contradictions go") {
  const Folder folder;
  const auto one = folder.write(
      "one.jsonl", kH200 + line(gemm(64), 1.0e-5) + line(gemm(128), 1e-5) + line(gemm(256), 1e-5));
  const auto two =
      folder.write("two.jsonl", kH200 + line(gemm(64), 1.2e-5) + line(gemm(128), 2e-5));
  const Gathered all = gathered({one, two}, "h200-sxm");
  REQUIRE(all.cases.size() == 2);
  CHECK(all.cases[0].seconds == Approx(1.1e-5));
  CHECK(all.cases[1].seconds == Approx(1e-5));
  REQUIRE(all.warnings.size() == 1);
  CHECK(all.warnings[0].find("one.jsonl:3, ") != std::string::npos);
  CHECK(all.warnings[0].find("two.jsonl:3: gemm bf16 forward 128x4096x4096 cublas: times a factor "
                             "of 2.00 apart; all are left out") != std::string::npos);
  REQUIRE(all.left_out.size() == 1);
  CHECK(all.left_out[0].count == 2);
}

TEST_CASE("What no fit takes is left out with its reason") {
  const Folder folder;
  interop::GpuMeasurement skipped;
  skipped.what = gemm(64);
  skipped.skipped = "not supported by cublasLt";
  interop::AttentionCase fp8;
  fp8.dtype = job::DType::fp8;
  fp8.length = 1024;
  fp8.heads = fp8.kv_heads = 8;
  fp8.head_dim = 128;
  interop::AttentionCase eager = fp8;
  eager.dtype = job::DType::bf16;
  eager.kernel = "unfused";
  const auto file =
      folder.write("x.jsonl", kH200 + to_json_line(skipped) + line(fp8, 1e-4) + line(eager, 1e-4));
  const Gathered all = gathered({file}, "h200-sxm");
  CHECK(all.cases.empty());
  REQUIRE(all.left_out.size() == 3);
  CHECK(all.left_out[0].why == "not measured: not supported by cublasLt");
  CHECK(all.left_out[1].why == "attention in fp8 is not modelled");
  CHECK(all.left_out[1].line == 3);

  // From a table, cases whose data may have stayed in L2 (60 MiB on the H200) are left out.
  const auto table = folder.write("m.csv",
                                  "gpu,op,dtype,bytes_moved,time_us\nh200,ln,fp32,1048576,3\n"
                                  "h200,ln,fp32,2097152,3\nh200,ln,fp32,104857600,30\n"
                                  "h200,ln,fp32,104857600,90\n");
  const Gathered memory = gathered({table}, "h200-sxm");
  // Two shapes with equal bytes are two points, even if their times differ much.
  CHECK(memory.cases.size() == 2);
  REQUIRE(memory.left_out.size() == 1);
  CHECK(memory.left_out[0].count == 2);
  CHECK(memory.left_out[0].why == "the data may stay in the L2 cache between repetitions");
}

TEST_CASE("Collectives are told apart from what a call costs") {
  const Folder folder;
  interop::CollectiveCase alone{"all_reduce", job::DType::bf16, 1 << 20, 1, 1, "", ""};
  const auto one = calibrated({folder.write("one.jsonl", kH200 + line(alone, 1e-5))});
  CHECK(one.collectives.empty());
  REQUIRE(one.left_out.size() == 1);
  CHECK(one.left_out[0].why ==
        "collectives of one rank measure only the cost of a call, for which there is no curve");
  interop::CollectiveCase eight = alone;
  eight.ranks = 8;
  const auto two = calibrated({folder.write("two.jsonl", kH200 + line(eight, 1e-5))});
  CHECK(two.collectives.size() == 1);
  CHECK(two.left_out.empty());
}

TEST_CASE("A capped or partial GPU is told") {
  const Folder folder;
  const auto file = folder.write(
      "x.jsonl", session("NVIDIA H200", 150'754'820'096, 60, 500) + line(gemm(64), 1e-5));
  const Gathered all = gathered({file}, "h200-sxm");
  REQUIRE(all.warnings.size() == 2);
  CHECK(all.warnings[0].find("60 SMs, h200-sxm has 132") != std::string::npos);
  CHECK(all.warnings[1].find("a power limit of 500 W, h200-sxm is rated at 700 W") !=
        std::string::npos);
}

TEST_CASE("Samples of the fits") {
  const Folder folder;
  interop::GemmCase grouped = gemm(512);
  grouped.groups = 8;
  grouped.layout = interop::GemmLayout::weight_grad;
  interop::OverlapCase o;
  o.kernel = "norm";
  o.bytes = 1 << 28;
  o.op = "all_reduce";
  o.other_bytes = 1'000'000'000;
  o.ranks = 8;
  o.channels = 16;
  interop::GpuMeasurement beside;
  beside.what = o;
  beside.time = {2e-4, 2e-4, 2e-4, 5};
  beside.alone = 1.6e-4;
  beside.other_alone = 4e-3;
  beside.other_together = 5e-3;
  const auto file = folder.write(
      "x.jsonl", kH200 + line(grouped, 1e-3) + line(interop::LaunchCase{"launch"}, 2e-6) +
                     line(interop::LaunchCase{"gap"}, 3e-6) +
                     line(interop::LaunchCase{"graph_kernel"}, 1e-6) +
                     line(interop::CopyCase{"both", false, 4096}, 1e-5) + to_json_line(beside));
  const job::Device device = config::device("h200-sxm");
  const Gathered all = gathered({file}, "h200-sxm");
  const auto s = samples_of(all.cases, "cublas", true, device);
  REQUIRE(s.gemm.at(job::DType::bf16).size() == 1);
  CHECK(s.gemm.at(job::DType::bf16)[0].groups == 8);
  CHECK(s.gemm.at(job::DType::bf16)[0].layout == cost::Layout::weight_grad);
  CHECK(s.launch == 2e-6);
  CHECK(s.graph_kernel == 1e-6);
  REQUIRE(s.copies.size() == 1);
  CHECK(s.copies[0].direction == cost::CopyDirection::both);
  CHECK_FALSE(s.copies[0].pinned);
  REQUIRE(s.overlap.size() == 1);
  CHECK(s.overlap[0].memory_bound);
  CHECK(s.overlap[0].sms == 16);
  CHECK(s.overlap[0].kernel_stretch == Approx(1.25));
  CHECK(s.overlap[0].collective_stretch == Approx(1.25));
  // A ring sends 2 (n-1)/n of the size; the memory sees 2.5 times that.
  CHECK(s.overlap[0].memory_share == Approx(2.5 * 1.75e9 / 4e-3 / device.memory_bandwidth.count()));
  CHECK(samples_of(all.cases, "trtllm", false, device).gemm.empty());
}

TEST_CASE("Too few points: refused, nothing written") {
  const Folder folder;
  const auto file = folder.write("x.jsonl", kH200 + line(gemm(64), 1e-5) + line(gemm(128), 1e-5));
  const auto found = calibrated({file});
  CHECK(found.files.empty());
  REQUIRE(found.refused.size() == 1);
  CHECK(found.refused[0].library == "cublas");
  CHECK(found.refused[0].why.find("gemm bf16: 2 shapes of the forward layout are too few") == 0);
  REQUIRE(found.comparisons.size() == 1);
  CHECK(found.comparisons[0].before_median == found.comparisons[0].after_median);
}

TEST_CASE("A layer of a model that configs lack is told, not guessed") {
  const Folder folder;
  interop::LayerCase layer;
  layer.model = "no-such-model";
  layer.length = 1024;
  const auto found = calibrated({folder.write("x.jsonl", kH200 + line(layer, 1e-3))});
  REQUIRE(found.layers.size() == 1);
  CHECK(found.layers[0].why.find("no-such-model") != std::string::npos);
}
