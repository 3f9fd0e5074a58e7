// The forecast of a captured program agrees with that of the job of the same run; folding changes
// nothing.
#include "stepcast/capture/capture.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "catch.hpp"
#include "stepcast/forecast/forecaster.h"
#include "stepcast/input/input.h"
#include "stepcast/text/document.h"

using namespace stepcast;

namespace {

constexpr double kMost = 0.03;        // of the step
constexpr double kMostMemory = 0.02;  // of the allocated peak, and of the whole process

capture::Capture recorded(const std::string& name) {
  return capture::read(std::string(STEPCAST_SOURCE_DIR "/tests/capture/recorded/") + name +
                       ".jsonl.gz");
}

result::Report forecast_of(const capture::Capture& capture, int nodes,
                           const forecast::Options& options = {},
                           const job::ExpertBalance& balance = {}) {
  job::Job on;
  on.cluster = input::network("dgx-h100", nodes).cluster;
  on.moe.balance = balance;
  forecast::Forecaster forecaster(text::data_directory());
  return std::get<result::Report>(forecaster.forecast(capture, on, 0, options));
}

result::Report forecast_of(const std::string& yaml) {
  forecast::Forecaster forecaster(text::data_directory());
  return std::get<result::Report>(forecaster.forecast(input::parse(yaml, "job.yaml").job));
}

// torch 2.15 takes cuBLAS's workspace for each product from the caching allocator, and of equal
// free blocks that of the oldest segment.
std::string fsdp_job(const std::string& rest) {
  return "model: {use: llama-3-8b}\nsystem: {use: pytorch-fsdp2, gemm_workspace_stands: false, "
         "oldest_segment_first: true}\n"
         "workload: {sequence_length: 8192, micro_batch: 1, global_batch: 8}\n"
         "cluster: {use: dgx-h100, nodes: 1}\nparallelism: {sharding: fsdp}\n" +
         rest;
}

// The runs' own jobs: what their scripts and launch commands state (tests/capture/README.md).
// Attention of torchtitan's was recorded without the kernel that PyTorch would prefer, and stands
// as FlashAttention-2.
const char* const kTitan =
    "model: {use: llama-3-8b}\n"
    "system: {use: torchtitan-2025, gemm_workspace_stands: false, oldest_segment_first: true}\n"
    "kernels: {attention: flash2}\n"
    "workload: {sequence_length: 8192, micro_batch: 1, global_batch: 8}\n"
    "cluster: {use: dgx-h100, nodes: 8}\nparallelism: {sharding: fsdp, tensor: 8}\n"
    "memory: {recompute: {per_op: sac}, allocator: default}\n";  // started without run_train.sh

// Its local layers run none of the fused kernels, and torch's AdamW steps list by list. A global
// batch of eight micro-batches a data-parallel rank.
std::string megatron_job(const std::string& model, int nodes, int global_batch, int pipeline) {
  return fmt::format(
      "model: {{{}, vocab: 51200, norm: layer, positions: learned}}\n"
      "system: {{use: megatron-lm, transformer_engine: false, fused_rotary: false, fused_softmax: "
      "false, gradient_accumulation_fusion: false, foreach_optimizer: true, "
      "gemm_workspace_stands: false, oldest_segment_first: true}}\n"
      "kernels: {{attention: unfused}}\n"
      "workload: {{sequence_length: 2048, micro_batch: 1, global_batch: {}}}\n"
      "cluster: {{use: dgx-h100, nodes: {}}}\n"
      "parallelism: {{tensor: 8, pipeline: {}, sequence_parallel: false}}\n",
      model, global_batch, nodes, pipeline);
}

const char* const kGpt7b = "layers: 32, hidden: 4096, heads: 32, ffn: 16384";
const char* const kGpt65b = "layers: 80, hidden: 8192, heads: 64, ffn: 32768";

const std::string kMegatron = megatron_job(kGpt7b, 2, 16, 1);

const char* const kTitanExperts =
    "model: {use: deepseek-v2-lite}\n"
    // Like the capture's forecast, whose host takes a launch's time for each of the experts' tasks.
    "system: {use: torchtitan-2025, gemm_workspace_stands: false, oldest_segment_first: true, "
    "expert_overhead: 0 us}\n"
    "workload: {sequence_length: 4096, micro_batch: 4, global_batch: 32}\n"
    "cluster: {use: dgx-h100, nodes: 1}\nparallelism: {sharding: fsdp, expert: 8}\n"
    "memory: {recompute: none, allocator: default}\n";

const char* const kDdp =
    "model: {layers: 16, hidden: 2048, heads: 16, kv_heads: 8, ffn: 7168, vocab: 128256, norm: "
    "rms, positions: rotary, gated_mlp: true}\n"
    "system: {use: pytorch-ddp, gemm_workspace_stands: false, oldest_segment_first: true}\n"
    "workload: {sequence_length: 8192, micro_batch: 1, global_batch: 8}\n"
    "cluster: {use: dgx-h100, nodes: 1}\n";

double allocated(const result::Report& r) {
  return static_cast<double>(r.memory.at(0).allocated.count());
}

double process(const result::Report& r) {
  return static_cast<double>(r.memory.at(0).process.count());
}

std::int64_t count_of(const result::Report& r, const std::string& operation) {
  std::int64_t sum = 0;
  for (const result::Traffic& t : r.traffic) {
    sum += t.op.starts_with(operation) ? t.count : 0;
  }
  return sum;
}

Bytes bytes_of(const result::Report& r, const std::string& operation) {
  Bytes sum;
  for (const result::Traffic& t : r.traffic) {
    sum = sum + (t.op.starts_with(operation) ? t.bytes : Bytes(0));
  }
  return sum;
}

}  // namespace

TEST_CASE("capture: FSDP2 of a Llama agrees with its job in step and memory") {
  const auto captured = forecast_of(recorded("fsdp2"), 1);
  const auto stated = forecast_of(fsdp_job(""));
  CHECK(captured.step_time.value == Approx(stated.step_time.value).epsilon(kMost));
  CHECK(allocated(captured) == Approx(allocated(stated)).epsilon(kMostMemory));
  CHECK(process(captured) == Approx(process(stated)).epsilon(kMostMemory));
  CHECK(captured.model_flops_per_gpu.value * captured.step_time.value ==
        Approx(stated.model_flops_per_gpu.value * stated.step_time.value).epsilon(0.001));
  for (const char* operation : {"all_gather", "reduce_scatter"}) {
    CHECK(count_of(captured, operation) == count_of(stated, operation));
    // Shards are padded to whole rows.
    CHECK(static_cast<double>(bytes_of(captured, operation).count()) ==
          Approx(static_cast<double>(bytes_of(stated, operation).count())).epsilon(0.001));
  }
}

TEST_CASE("capture: FSDP2 with recomputation agrees with its job in step and memory") {
  const auto captured = forecast_of(recorded("fsdp2-full"), 1);
  const auto stated = forecast_of(fsdp_job("memory: {recompute: full}\n"));
  CHECK(captured.step_time.value == Approx(stated.step_time.value).epsilon(kMost));
  CHECK(allocated(captured) == Approx(allocated(stated)).epsilon(kMostMemory));
  CHECK(process(captured) == Approx(process(stated)).epsilon(kMostMemory));
  CHECK(captured.breakdown.at(0).recompute > Time(0));
}

// Layers hand their results on as what the next one keeps: where they lie decides which free blocks
// the logits find.
TEST_CASE("capture: FSDP2 with recomputation and short sequences agrees in the whole process") {
  std::string job = fsdp_job("memory: {recompute: full}\n");
  job.replace(job.find("8192"), 4, "2048");
  const auto captured = forecast_of(recorded("fsdp2-full-2k"), 1);
  const auto stated = forecast_of(job);
  CHECK(captured.step_time.value == Approx(stated.step_time.value).epsilon(kMost));
  CHECK(allocated(captured) == Approx(allocated(stated)).epsilon(kMostMemory));
  CHECK(process(captured) == Approx(process(stated)).epsilon(kMostMemory));
}

TEST_CASE("capture: Llama-3 70B in torchtitan on 512 ranks agrees in step, peak and process") {
  const auto captured = forecast_of(recorded("titan-70b-tp8-full-expandable"), 64);
  const auto stated = forecast_of(
      "model: {use: llama-3-70b}\nsystem: {use: torchtitan-2025, gemm_workspace_stands: false, "
      "oldest_segment_first: true}\nkernels: {attention: flash2}\n"
      "workload: {sequence_length: 8192, micro_batch: 1, global_batch: 64}\n"
      "cluster: {use: dgx-h100, nodes: 64}\nparallelism: {sharding: fsdp, tensor: 8}\n"
      "memory: {recompute: full, allocator: expandable_segments}\n");
  CHECK(captured.step_time.value == Approx(stated.step_time.value).epsilon(kMost));
  CHECK(allocated(captured) == Approx(allocated(stated)).epsilon(kMostMemory));
  CHECK(process(captured) == Approx(process(stated)).epsilon(kMostMemory));
}

TEST_CASE("capture: under expandable segments whole processes agree as well") {
  for (const auto& [name, rest] :
       {std::pair{"fsdp2-expandable", "memory: {allocator: expandable_segments}\n"},
        std::pair{"fsdp2-full-expandable",
                  "memory: {recompute: full, allocator: expandable_segments}\n"}}) {
    INFO(name);
    const auto captured = forecast_of(recorded(name), 1);
    const auto stated = forecast_of(fsdp_job(rest));
    CHECK(allocated(captured) == Approx(allocated(stated)).epsilon(kMostMemory));
    CHECK(process(captured) == Approx(process(stated)).epsilon(kMostMemory));
  }
  const auto captured = forecast_of(recorded("titan-8b-tp8-expandable"), 8);
  std::string job = kTitan;
  job.replace(job.find("allocator: default"), 18, "allocator: expandable_segments");
  const auto stated = forecast_of(job);
  CHECK(allocated(captured) == Approx(allocated(stated)).epsilon(kMostMemory));
  CHECK(process(captured) == Approx(process(stated)).epsilon(kMostMemory));
}

// Beside the allocator: the communicators that ran something, which both count alike.
TEST_CASE("capture: what lies outside the allocator is that of the job") {
  const auto outside = [](const result::Report& r) {
    return process(r) - static_cast<double>(r.memory.at(0).reserved.count());
  };
  CHECK(outside(forecast_of(recorded("fsdp2"), 1)) ==
        Approx(outside(forecast_of(fsdp_job("")))).epsilon(1e-6));
  CHECK(outside(forecast_of(recorded("ddp-1b"), 1)) ==
        Approx(outside(forecast_of(kDdp))).epsilon(1e-6));
  CHECK(outside(forecast_of(recorded("titan-8b-tp8"), 8)) ==
        Approx(outside(forecast_of(kTitan))).epsilon(1e-6));
}

TEST_CASE("capture: torchtitan's tensor and data parallelism agree with its job") {
  const auto captured = forecast_of(recorded("titan-8b-tp8"), 8);
  const auto stated = forecast_of(kTitan);
  CHECK(captured.step_time.value == Approx(stated.step_time.value).epsilon(kMost));
  CHECK(allocated(captured) == Approx(allocated(stated)).epsilon(kMostMemory));
  CHECK(process(captured) == Approx(process(stated)).epsilon(kMostMemory));
  for (const char* operation : {"all_gather", "reduce_scatter"}) {
    CHECK(count_of(captured, operation) == count_of(stated, operation));
    CHECK(static_cast<double>(bytes_of(captured, operation).count()) ==
          Approx(static_cast<double>(bytes_of(stated, operation).count())).epsilon(0.001));
  }
}

TEST_CASE("capture: Megatron-Core's tensor and data parallelism agree with its job") {
  const auto captured = forecast_of(recorded("mcore-tp8"), 2);
  const auto stated = forecast_of(kMegatron);
  CHECK(captured.step_time.value == Approx(stated.step_time.value).epsilon(kMost));
  CHECK(allocated(captured) == Approx(allocated(stated)).epsilon(kMostMemory));
  CHECK(process(captured) == Approx(process(stated)).epsilon(kMostMemory));
  CHECK(count_of(captured, "all_reduce") == count_of(stated, "all_reduce"));
  CHECK(static_cast<double>(bytes_of(captured, "all_reduce").count()) ==
        Approx(static_cast<double>(bytes_of(stated, "all_reduce").count())).epsilon(0.001));
}

// Allocated and reserved, stage by stage: the last one's peak is the optimizer's, whose temporaries
// lie in segments that activations left.
TEST_CASE("capture: Megatron-Core's pipeline stages agree with their job in step and memory") {
  struct Run {
    const char* name;
    const char* model;
    int nodes, global_batch, pipeline;
  };
  for (const Run& run :
       {Run{"mcore-tp8-pp2", kGpt7b, 2, 8, 2}, Run{"mcore-65b-tp8-pp4", kGpt65b, 64, 128, 4}}) {
    const auto captured = forecast_of(recorded(run.name), run.nodes);
    const auto stated =
        forecast_of(megatron_job(run.model, run.nodes, run.global_batch, run.pipeline));
    CHECK(captured.step_time.value == Approx(stated.step_time.value).epsilon(kMost));
    REQUIRE(captured.memory.size() == static_cast<std::size_t>(run.pipeline));
    REQUIRE(stated.memory.size() == captured.memory.size());
    for (std::size_t stage = 0; stage < captured.memory.size(); ++stage) {
      INFO(run.name << " stage " << stage);
      const auto& a = captured.memory[stage];
      const auto& b = stated.memory[stage];
      const auto close = [](Bytes x, Bytes y) {
        CHECK(static_cast<double>(x.count()) ==
              Approx(static_cast<double>(y.count())).epsilon(kMostMemory));
      };
      close(a.allocated, b.allocated);
      close(a.reserved, b.reserved);
      close(a.process, b.process);
    }
  }
}

TEST_CASE("capture: DistributedDataParallel agrees with its job") {
  const auto captured = forecast_of(recorded("ddp-1b"), 1);
  const auto stated = forecast_of(kDdp);
  CHECK(captured.step_time.value == Approx(stated.step_time.value).epsilon(kMost));
  CHECK(allocated(captured) == Approx(allocated(stated)).epsilon(kMostMemory));
  CHECK(process(captured) == Approx(process(stated)).epsilon(kMostMemory));
  CHECK(count_of(captured, "all_reduce") == count_of(stated, "all_reduce"));
}

// Both wait for what they issue: a recording without its waits would hide collectives.
TEST_CASE("capture: tensor parallelism's collectives are waited for") {
  const auto exposed = [](const result::Report& r) {
    return static_cast<double>(r.breakdown.at(0).tensor.count());
  };
  CHECK(exposed(forecast_of(recorded("titan-8b-tp8"), 8)) > 0.9 * exposed(forecast_of(kTitan)));
  CHECK(exposed(forecast_of(recorded("mcore-tp8"), 2)) > 0.9 * exposed(forecast_of(kMegatron)));
}

TEST_CASE("capture: folded equals full to the picosecond") {
  forecast::Options full;
  full.fidelity = forecast::Fidelity::full;
  for (const auto& [name, nodes] : {std::pair{"fsdp2", 1}, std::pair{"ddp-1b", 1},
                                    std::pair{"titan-8b-tp8", 8}, std::pair{"mcore-tp8-pp2", 2}}) {
    const capture::Capture c = recorded(name);
    const auto a = forecast_of(c, nodes);
    const auto b = forecast_of(c, nodes, full);
    INFO(name);
    CHECK(a.engine.fidelity == "folded");
    CHECK(a.step_time.value == b.step_time.value);
    CHECK(a.breakdown.at(0).compute == b.breakdown.at(0).compute);
    CHECK(a.breakdown.at(0).data == b.breakdown.at(0).data);
  }
}

TEST_CASE("capture: recorded pipeline stages send to each other and show their bubble") {
  const auto r = forecast_of(recorded("mcore-tp8-pp2"), 2);
  REQUIRE(r.breakdown.size() == 2);
  CHECK(r.breakdown[0].bubble > Time(0));
  CHECK(r.bubble_fraction > 0.05);  // 1F1B of 2 stages and 8 micro-batches: 1 / 9 of equal stages
  CHECK(r.bubble_fraction < 0.2);
}

TEST_CASE(
    "capture: a faster host never lengthens a step, and a cluster of another size is refused") {
  capture::Capture c = recorded("titan-8b-tp8");
  const double as_in_jobs = forecast_of(c, 8).step_time.value;
  c.host_scale = 1;
  const double measured = forecast_of(c, 8).step_time.value;
  c.host_scale = 0.5;
  const double faster = forecast_of(c, 8).step_time.value;
  c.host_scale = 0;
  const double none = forecast_of(c, 8).step_time.value;
  CHECK(faster <= measured);
  CHECK(none <= faster);
  CHECK(none <= as_in_jobs);
  job::Job on;
  on.cluster = input::network("dgx-h100", 4).cluster;
  forecast::Forecaster forecaster(text::data_directory());
  const auto outcome = forecaster.forecast(c, on, 0);
  REQUIRE(std::holds_alternative<Infeasible>(outcome));
  CHECK(std::get<Infeasible>(outcome).key == "cluster.nodes");
}

TEST_CASE("capture: experts take a stated load, in their products and all-to-alls alone") {
  using Load = job::ExpertBalance::Kind;
  const capture::Capture c = recorded("moe-ep8");
  const auto even = forecast_of(c, 1);
  const auto of = [&](const job::ExpertBalance& balance) { return forecast_of(c, 1, {}, balance); };
  // One of 64 experts gets 15.75 times the mean; its rank has 7 more.
  const double load = (15.75 + 7 * (64 - 15.75) / 63) / 8;
  const auto uneven = of({Load::spread, 15.75, {}});
  // But for the counts that are exchanged, which stay as small as they are.
  CHECK(static_cast<double>(bytes_of(uneven, "all_to_all").count()) ==
        Approx(load * static_cast<double>(bytes_of(even, "all_to_all").count())).epsilon(1e-5));
  CHECK(bytes_of(uneven, "all_reduce") == bytes_of(even, "all_reduce"));
  CHECK(count_of(uneven, "all_to_all") == count_of(even, "all_to_all"));
  CHECK(allocated(uneven) == allocated(even));
  // Routed rows go through an expert's two products, forward and twice backward: 3 * 2 * rows *
  // hidden * (2 + 1) * ffn. The router's do not change.
  const auto flops = [](const result::Report& r) {
    return r.model_flops_per_gpu.value * r.step_time.value;
  };
  const double layers = 4, rows = 4096 * 6, hidden = 2048, ffn = 1408;
  CHECK(flops(uneven) - flops(even) ==
        Approx((load - 1) * layers * 3 * 2 * rows * hidden * 3 * ffn).epsilon(1e-3));
  CHECK(uneven.step_time.value > even.step_time.value);
  CHECK(uneven.step_time.value < load * even.step_time.value);
  const std::vector<double> shares(64, 1.0);
  CHECK(of({Load::shares, 1, shares}).step_time.value == even.step_time.value);
  CHECK_THAT(fmt::format("{}", fmt::join(even.notes, "\n")),
             ContainsSubstring("load of the experts: balanced"));
  CHECK_THAT(fmt::format("{}", fmt::join(uneven.notes, "\n")),
             ContainsSubstring("load of the experts: spread 15.75"));
}

TEST_CASE("capture: torchtitan's mixture of experts takes a stated load") {
  using Load = job::ExpertBalance::Kind;
  const capture::Capture c = recorded("titan-deepseek-16b-ep8");
  const auto even = forecast_of(c, 1);
  const auto uneven = forecast_of(c, 1, {}, {Load::spread, 4, {}});
  const double load = (4 + 7 * (64.0 - 4) / 63) / 8;  // one of 64 experts gets 4 times the mean
  CHECK(static_cast<double>(bytes_of(uneven, "all_to_all").count()) ==
        Approx(load * static_cast<double>(bytes_of(even, "all_to_all").count())).epsilon(1e-4));
  CHECK(count_of(even, "all_to_all") == 26 * 5);  // layers: counts, and rows there and back twice
  CHECK(uneven.step_time.value > even.step_time.value);
}

TEST_CASE("capture: torchtitan's mixture of experts agrees with its job under any load") {
  using Load = job::ExpertBalance::Kind;
  const capture::Capture c = recorded("titan-deepseek-16b-ep8");
  for (const double spread : {1.0, 4.0}) {
    INFO(spread);
    const auto captured = forecast_of(c, 1, {}, {Load::spread, spread, {}});
    const auto stated =
        forecast_of(kTitanExperts + fmt::format("moe: {{balance: {{spread: {}}}}}\n", spread));
    CHECK(captured.step_time.value == Approx(stated.step_time.value).epsilon(kMost));
    if (spread == 1) {  // a capture's memory is that of even routing
      CHECK(allocated(captured) == Approx(allocated(stated)).epsilon(kMostMemory));
      CHECK(process(captured) == Approx(process(stated)).epsilon(kMostMemory));
    }
  }
}

// One process group's collectives share its connections.
TEST_CASE("capture: collectives of one group never overlap, whatever their streams") {
  capture::Capture c = recorded("fsdp2");
  const auto collective = [](const capture::Task& t) {
    return t.kind == capture::TaskKind::collective && t.operation == "all_gather";
  };
  const auto& tasks = c.ranks.at(0).tasks;
  const auto gather = std::find_if(tasks.begin(), tasks.end(), collective);
  REQUIRE(gather != tasks.end());
  // A kernel, two gathers on streams of their own, and a kernel that waits for them.
  capture::Rank rank = c.ranks.at(0);
  capture::Task one = *gather;
  one.waits.clear();
  one.bytes = std::int64_t{4} << 30;
  one.host = 0;
  capture::Task two = one;
  two.stream = one.stream + 1;
  REQUIRE(two.stream < static_cast<int>(rank.streams.size()));
  const auto kernel = std::find_if(tasks.begin(), tasks.end(), [](const capture::Task& t) {
    return t.kind == capture::TaskKind::kernel && t.stream == 0;
  });
  capture::Task first = *kernel;
  first.waits.clear();
  const auto step = [&](const std::vector<capture::Task>& of) {
    c.ranks.at(0) = rank;
    c.ranks.at(0).tasks = of;
    return forecast_of(c, 1).step_time.value;
  };
  one.waits = {{0, 1, 0}};  // no step's gathers begin before its first kernel
  capture::Task after = first;
  after.waits = {{one.stream, 1, 0}};
  capture::Task after_both = first;
  after_both.waits = {{one.stream, 1, 0}, {two.stream, 1, 0}};
  const double alone = step({first, one, after});
  const double of_gather = alone - step({first, first});
  CHECK(step({first, one, two, after_both}) > alone + 0.99 * of_gather);
}

TEST_CASE("capture: a load that suits no experts is refused") {
  using Load = job::ExpertBalance::Kind;
  const auto refused = [](const std::string& name, const job::ExpertBalance& balance) {
    job::Job on;
    on.cluster = input::network("dgx-h100", 1).cluster;
    on.moe.balance = balance;
    forecast::Forecaster forecaster(text::data_directory());
    const auto outcome = forecaster.forecast(recorded(name), on, 0);
    const auto* why = std::get_if<Infeasible>(&outcome);
    return why != nullptr && why->key == "moe.balance" ? why->reason : std::string();
  };
  CHECK_THAT(refused("moe-ep8", {Load::shares, 1, {1, 2}}), ContainsSubstring("2 shares"));
  CHECK_THAT(refused("moe-ep8", {Load::shares, 1, std::vector<double>(64, 0.0)}),
             ContainsSubstring("add up to 0"));
  CHECK_THAT(refused("moe-ep8", {Load::spread, 65, {}}), ContainsSubstring("at most 64"));
  CHECK_THAT(refused("fsdp2", {Load::spread, 2, {}}), ContainsSubstring("changes nothing"));
}

TEST_CASE("capture: what it cannot know is said") {
  std::string all;
  for (const std::string& note : forecast_of(recorded("fsdp2"), 1).notes) {
    all += note + "\n";
  }
  CHECK_THAT(all, ContainsSubstring("values are zero in a capture"));
  CHECK_THAT(all, ContainsSubstring("the host issues a kernel in 5.0 us, as in jobs"));
  capture::Capture measured = recorded("fsdp2");
  measured.host_scale = 1;
  const auto with_times = forecast_of(measured, 1);
  CHECK_THAT(
      fmt::format("{}", fmt::join(with_times.notes, "\n")),
      ContainsSubstring("host times between launches are those of the machine that captured"));
  CHECK_THAT(all, ContainsSubstring("tokens of a step are not known"));
}
