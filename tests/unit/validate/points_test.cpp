// Collectives and kernels compared with measured points.
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <numeric>

#include "catch.hpp"
#include "stepcast/base/diagnostics.h"
#include "stepcast/config/config.h"
#include "stepcast/input/input.h"
#include "stepcast/interop/gpu_measurements.h"
#include "stepcast/report/report.h"
#include "stepcast/text/document.h"
#include "stepcast/validate/collective.h"
#include "stepcast/validate/kernels.h"

namespace {

using namespace stepcast;
namespace fs = std::filesystem;

validate::CollectiveModel model_of(const std::string& cluster, int nodes,
                                   const std::vector<std::string>& set = {}) {
  return {input::network(cluster, nodes, set), text::data_directory()};
}

fs::path log_file(const std::string& name) {
  return fs::path(STEPCAST_SOURCE_DIR) / "tests/unit/interop/nccl_logs" / name;
}

fs::path csv(const std::string& text) {
  const fs::path file =
      fs::temp_directory_path() / ("stepcast-points-" + std::to_string(::getpid()) + ".csv");
  std::ofstream(file) << text;
  return file;
}

}  // namespace

TEST_CASE("a predicted table reads back as what was predicted") {
  for (const char* op : {"all_reduce", "all_gather", "reduce_scatter", "alltoall", "broadcast",
                         "reduce", "gather", "scatter", "sendrecv"}) {
    INFO(op);
    auto m = model_of("dgx-h100", 2);
    result::CollectiveTable table;
    table.op = op;
    table.device = "h100-sxm";
    table.ranks_per_node = {8, 8};
    table.min_bytes = 1 << 10;
    table.max_bytes = 1 << 28;
    for (const auto bytes :
         validate::test_sizes(op, 16, table.min_bytes, table.max_bytes, table.factor)) {
      table.points.push_back(m.price(op, bytes, table.ranks_per_node).value());
    }
    REQUIRE(table.points.size() == 19);
    const auto read = interop::parse_nccl_log(report::nccl_tests(table), "ours");
    REQUIRE(read.runs.size() == 1);
    CHECK(read.runs[0].ranks_per_node == table.ranks_per_node);
    REQUIRE(read.runs[0].points.size() == 2 * table.points.size());
    for (std::size_t i = 0; i < table.points.size(); ++i) {
      const auto& p = read.runs[0].points[2 * i];
      CHECK(p.collective == op);
      CHECK(p.bytes == table.points[i].bytes);
      CHECK(p.seconds == Approx(table.points[i].time.value).epsilon(2e-3));
      CHECK(table.points[i].time.low <= table.points[i].time.value);
      CHECK(table.points[i].time.value <= table.points[i].time.high);
    }
    // Compared with its own output, the model's only error is the rounding to two decimals.
    const auto itself = validate::compare_collectives(m, read, {}, "");
    for (const auto& row : itself.rows) {
      CHECK(std::abs(row.error) < 2e-3);
    }
  }
}

TEST_CASE("more bytes take longer, many nodes are slower than one, and a slower network shows") {
  auto two = model_of("dgx-h100", 2);
  auto slow = model_of("dgx-h100", 2, {"cluster.node.nic=200 Gb/s"});
  const std::int64_t large = std::int64_t{1} << 30;
  const auto time = [&](validate::CollectiveModel& m, std::int64_t bytes, std::vector<int> ranks) {
    return m.price("all_reduce", bytes, ranks).value().time.value;
  };
  CHECK(time(two, large, {8, 8}) > time(two, large / 2, {8, 8}));
  // Two nodes may be as fast as one: eight NICs reach the rate of NVLink. Four nodes are slower.
  auto four = model_of("dgx-h100", 4);
  CHECK(time(four, large, {8, 8, 8, 8}) > time(four, large, {8}));
  CHECK(time(slow, large, {8, 8}) > time(two, large, {8, 8}));
  CHECK(time(slow, large, {8}) == time(two, large, {8}));
  CHECK_FALSE(two.price("hypercube", large, {8, 8}));
  CHECK_FALSE(two.price("all_reduce", large, {1}));
}

TEST_CASE("sizes are rounded as nccl-tests rounds them") {
  CHECK(validate::test_sizes("all_reduce", 8, 8, 32, 2) == std::vector<std::int64_t>{8, 16, 32});
  // Multiples of 6 ranks x 16 bytes; sizes from 8 to 64 are too small.
  CHECK(validate::test_sizes("all_gather", 6, 8, 400, 2) == std::vector<std::int64_t>{96, 192});
}

TEST_CASE("a log: one row per collective and size, out of place, with summaries around 1 MiB") {
  auto m = model_of("dgx-a100", 1);
  const auto log = interop::read_collectives(log_file("no-redop-no-root.txt"));
  const auto validation = validate::compare_collectives(m, log, {}, "");
  REQUIRE(validation.rows.size() == 7);
  CHECK(validation.rows[0].id == "all_gather 32");
  CHECK(validation.rows[0].published == Approx(35.03e-6));
  for (const auto& row : validation.rows) {
    CHECK(row.metric == "time");
    CHECK(row.status == "ok");
    CHECK(row.error == Approx(row.predicted / row.published - 1));
    CHECK(row.low < row.high);
  }
  REQUIRE(validation.summary.size() == 3);
  CHECK(validation.summary[0].metric == "time");
  CHECK(validation.summary[1].metric == "all_gather below 1 MiB");
  CHECK(validation.summary[1].rows == 4);
  CHECK(validation.summary[2].metric == "all_gather from 1 MiB");
  // Bandwidth of a healthy NVSwitch node. The limit is the goal, and the fit includes these rows.
  CHECK(validation.summary[2].median < 0.10);
}

TEST_CASE("a log that does not fit the cluster is refused at its table") {
  auto m = model_of("dgx-a100", 1);
  const auto log = interop::read_collectives(log_file("markdown-indented.txt"));
  try {
    validate::compare_collectives(m, log, {8}, "");
    FAIL("two hosts ran on one");
  } catch (const InputError& error) {
    CHECK(error.faults().at(0).where.line == 16);
    CHECK_THAT(error.faults().at(0).message, ContainsSubstring("2 nodes ran it"));
  }
}

TEST_CASE("a network's cluster: names, overrides and what is wrong with them") {
  CHECK(input::network("dgx_h100", 3).cluster.nodes == 3);
  CHECK(input::network("polaris", 2, {"nccl.algo=ring"}).nccl.algo == "ring");
  CHECK(input::network("dgx-h100", 0, {"cluster.nodes=4"}).cluster.nodes == 4);
  CHECK_THROWS_AS(input::network("dgx-h10", 1), InputError);
  CHECK_THROWS_AS(input::network("dgx-h100", 0), InputError);
  CHECK_THROWS_AS(input::network("dgx-h100", 1, {"memory.optimizer=sgd"}), InputError);
  CHECK_THROWS_AS(input::network("dgx-h100", 2, {"cluster.node.nics=0"}), InputError);
}

TEST_CASE("GEMM points: one row each, other devices and formats left out with the reason") {
  const auto file =
      csv("gpu,dtype,m,n,k,batch,time_us,more\n"
          "h100-sxm,bfloat16,4096,4096,4096,1,220,x\n"
          "H100_SXM,fp8,8192,8192,8192,1,900,x\n"
          "a100-sxm-80g,bf16,4096,4096,4096,1,600,x\n"
          "h100-sxm,fp6,64,64,64,2,9,x\n");
  const auto validation =
      validate::compare_kernels(config::device("h100-sxm"), "cublas", text::data_directory(), file);
  fs::remove(file);
  REQUIRE(validation.rows.size() == 4);
  CHECK(validation.rows[0].id == "bf16 4096x4096x4096");
  CHECK(validation.rows[0].published == Approx(220e-6));
  CHECK(validation.rows[0].status == "ok");
  CHECK(std::abs(validation.rows[0].error) < 0.25);
  CHECK(validation.rows[1].status == "ok");
  CHECK(validation.rows[2].reason == "measured on a100-sxm-80g");
  CHECK(validation.rows[3].id == "fp6 2x64x64x64");
  CHECK(validation.rows[3].reason == "the format fp6 is not modelled");
  CHECK(validation.summary.at(0).metric == "time");
  CHECK(validation.summary.at(0).simulated == 2);
}

TEST_CASE("attention points: rates and times, both passes") {
  // 4 b h s^2 d / 2 = 1.1e12 FLOPs: 2.75 ms at 400 TFLOP/s, and 2.5 times as many in the backward
  // pass.
  const auto file =
      csv("gpu,kernel,dtype,batch,seqlen,heads,head_dim,causal,fwd_tflops,bwd_tflops\n"
          "h100-sxm,FA3,bf16,2,8192,2048/d,128,1,400,400\n"
          "h100-sxm,FA3,fp8,2,8192,16,128,1,400,\n"
          "h100-sxm,FA2,fp16,2,?,16,128,0,300,\n");
  const auto validation =
      validate::compare_kernels(config::device("h100-sxm"), "cublas", text::data_directory(), file);
  fs::remove(file);
  REQUIRE(validation.rows.size() == 4);
  CHECK(validation.rows[0].id == "bf16 FA3 forward b2 s8192 h16/16 d128 causal");
  const double flops = 4.0 * 2 * 16 * 8192.0 * 8192.0 * 128 / 2;
  CHECK(validation.rows[0].published == Approx(flops / 400e12));
  CHECK(validation.rows[1].published == Approx(2.5 * flops / 400e12));
  CHECK(validation.rows[1].predicted > 2 * validation.rows[0].predicted);
  CHECK(validation.rows[2].reason == "attention in fp8 is not modelled");
  CHECK(validation.rows[3].reason == "the sequence length is not stated");
}

TEST_CASE("a faulty CSV of kernels: every line that is wrong") {
  const auto lines = [](const std::string& text) {
    const auto file = csv(text);
    std::vector<int> out;
    try {
      validate::compare_kernels(config::device("h100-sxm"), "cublas", text::data_directory(), file);
    } catch (const InputError& error) {
      for (const Fault& fault : error.faults()) {
        out.push_back(fault.where.line);
      }
    }
    fs::remove(file);
    return out;
  };
  CHECK(lines("gpu,dtype,m,n,k,batch,time_us\nh100-sxm,bf16,0,1,1,1,1\nh100-sxm,bf16,1,1,1,1,1\n"
              "h100-sxm,bf16,1,1,1,1,nan\n") == std::vector<int>{2, 4});
  CHECK(lines("gpu,dtype,m,n,k,time_us\nh100-sxm,bf16,1,1,1,1\n") == std::vector<int>{1});
  CHECK(lines("gpu,dtype,m,n,k,batch,time_us\n") == std::vector<int>{1});
}

TEST_CASE("fused experts and memory-bound operators: what is not modelled is left out") {
  const auto experts = csv(
      "gpu,kernel,dtype,num_tokens,hidden,inter,topk,experts,tp,ep,distribution,time_us\n"
      "h100_sxm,vllm_unquantizedfusedmoe_triton,bfloat16,4096,4096,1536,8,128,1,4,balanced,800\n"
      "h100_sxm,vllm_unquantizedfusedmoe_triton,bfloat16,4096,4096,1536,8,128,1,4,power_law_1.2,"
      "9\n");
  const auto device = config::device("h100-sxm");
  const auto layers = validate::compare_kernels(device, "", text::data_directory(), experts);
  fs::remove(experts);
  REQUIRE(layers.rows.size() == 2);
  CHECK(layers.rows[0].id == "bf16 experts t4096 h4096 f1536 top8 of 128 tp1 ep4");
  CHECK(layers.rows[0].predicted > 300e-6);
  CHECK(layers.rows[0].predicted < 2e-3);
  CHECK(layers.rows[1].reason == "experts of unequal load");

  const auto memory =
      csv("gpu,op,dtype,tokens,hidden,time_us\n"
          "h100,add,fp16,8192,8192,160\n"
          "h100,attn_rope,fp16,8192,8192,160\n"
          "h100,emb,fp16,8192,8192,160\n");
  const auto moved = validate::compare_kernels(device, "", text::data_directory(), memory);
  fs::remove(memory);
  REQUIRE(moved.rows.size() == 3);
  CHECK(moved.rows[0].id == "fp16 add 402653184 bytes");
  CHECK(std::abs(moved.rows[0].error) < 0.15);
  CHECK(moved.rows[1].reason == "the operator attn_rope is not modelled");
  CHECK(moved.rows[2].status == "skipped");
}

TEST_CASE("a table of a framework is priced as the burst that it timed, by the library it names") {
  const auto rows = [](const std::string& kernel, const std::string& library, int us = 1300) {
    const auto file = csv("gpu,dtype,m,n,k,batch,time_us,kernel\nh100-sxm,bf16,8192,8192,8192,1," +
                          std::to_string(us) + "," + kernel + "\n");
    auto out = validate::compare_kernels(config::device("h100-sxm"), library,
                                         text::data_directory(), file);
    fs::remove(file);
    return out.rows.at(0).predicted;
  };
  // The table does not say whether it timed bursts: one is closer to a long run, the other to a
  // burst.
  const double burst = rows("torch.nn.functional.linear", "");
  CHECK(rows("x", "", 1600) > 1.03 * burst);  // the power limit applies
  CHECK(rows("x", "", 1100) == burst);
  CHECK(rows("torch.nn.functional.linear", "") != rows("torch_flow", ""));
  CHECK(rows("torch_flow", "cublas") == rows("torch.nn.functional.linear", ""));
}

TEST_CASE("a library that nothing was measured of is refused, with those that were") {
  const auto file = csv("gpu,dtype,m,n,k,batch,time_us\nh100-sxm,bf16,64,64,64,1,5\n");
  std::string message;
  try {
    validate::compare_kernels(config::device("h100-sxm"), "cubals", text::data_directory(), file);
  } catch (const InputError& error) {
    message = to_string(error.faults().at(0));
  }
  fs::remove(file);
  CHECK(
      message ==
      "--library: error: no measurements of 'cubals'; h100-sxm has those of cublas, trtllm, vllm");
}

TEST_CASE("records of calibrate-gpu: every kernel alone, layers as the sum of theirs") {
  using namespace interop;
  GpuSession session;
  session.harness = "0.1.0";
  session.date = "2026-11-20T21:43:15Z";
  session.gpu = "NVIDIA H200";
  session.gpus = 1;
  session.compute_capability = 9.0;
  session.sms = 132;
  session.memory = 150'000'000'000;
  session.l2 = 60'000'000;
  session.sm_clock = 1.98e9;
  session.memory_clock = 3.2e9;
  session.power_limit = 700;
  session.driver = session.cuda = session.cublas = session.cudnn = session.nccl = "1";
  std::string text = to_json_line(session);
  const auto add = [&](const GpuCase& what, double seconds) {
    GpuMeasurement m;
    m.what = what;
    m.time = {seconds, seconds, seconds, 5};
    text += to_json_line(m);
  };
  GemmCase gemm;
  gemm.m = gemm.n = gemm.k = 8192;
  add(gemm, 1.4e-3);
  gemm.sustained = true;
  add(gemm, 1.5e-3);
  add(MemoryCase{"add", job::DType::bf16, 1 << 28, false}, 70e-6);
  AttentionCase attention;
  attention.length = 8192;
  attention.heads = 32;
  attention.kv_heads = 8;
  attention.head_dim = 128;
  add(attention, 1e-3);
  LayerCase layer;
  layer.model = "llama-3-8b";
  layer.length = 8192;
  add(layer, 7e-3);
  layer.backward = true;
  add(layer, 15e-3);
  add(LaunchCase{"launch"}, 3e-6);
  const auto file = csv(text);
  const auto out =
      validate::compare_kernels(config::device("h200-sxm"), "", text::data_directory(), file);
  std::string other;
  try {
    validate::compare_kernels(config::device("a100-sxm-80"), "", text::data_directory(), file);
  } catch (const InputError& error) {
    other = error.faults().at(0).message;
  }
  fs::remove(file);
  REQUIRE(out.rows.size() == 7);
  for (std::size_t i = 0; i < 6; ++i) {
    INFO(out.rows[i].id);
    CHECK(out.rows[i].status == "ok");
    CHECK(std::abs(out.rows[i].error) < 0.5);
  }
  CHECK(out.rows[1].predicted > out.rows[0].predicted);
  CHECK(out.rows[5].predicted > 1.5 * out.rows[4].predicted);
  CHECK(out.rows[6].reason == "not a kernel that runs alone on the device");
  CHECK(other == "measured on NVIDIA H200; expected a100-sxm-80");
}
