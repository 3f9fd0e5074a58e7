// Answers of the ready jobs that once misled a reader, by the case that showed each.
#include <algorithm>
#include <string>
#include <variant>
#include <vector>

#include "catch.hpp"
#include "stepcast/config/config.h"
#include "stepcast/forecast/forecaster.h"
#include "stepcast/hardware/hardware.h"
#include "stepcast/report/report.h"
#include "stepcast/text/document.h"

using namespace stepcast;

namespace {

using Keys = std::vector<std::string>;

std::variant<result::Report, Infeasible> outcome_of(const std::string& job, const Keys& keys = {}) {
  forecast::Forecaster forecaster(text::data_directory());
  return forecaster.forecast(config::load(job, keys).job);
}

result::Report report_of(const std::string& job, const Keys& keys = {}) {
  auto outcome = outcome_of(job, keys);
  if (const auto* why = std::get_if<Infeasible>(&outcome)) {
    FAIL(job << ": " << why->key << ": " << why->reason);
  }
  return std::get<result::Report>(std::move(outcome));
}

constexpr double kGibi = 1024.0 * 1024 * 1024;

// Llama-2 13B in four stages, two on H100 and two on A100 nodes.
const Keys kUnlikeStages = {"parallelism.tensor=8", "parallelism.pipeline=4",
                            "workload.micro_batches=even"};

}  // namespace

TEST_CASE("no interval promises more than all of the peak, however unsure the network") {
  for (const char* cluster : {"l40s-server", "pcie-server", "rtx4090-server", "h100-nvl-pairs"}) {
    for (const char* nodes : {"1", "4"}) {
      INFO(cluster << ", " << nodes << " nodes");
      const auto r = report_of("llama8b-pcie", {std::string("cluster.use=") + cluster,
                                                std::string("cluster.nodes=") + nodes});
      CHECK(r.mfu.high <= 1 + 1e-9);
      CHECK(r.hfu.high <= 1 + 1e-9);
      CHECK(r.mfu.low > 0);
    }
  }
}

TEST_CASE("the first sentence warns of a device or a network that nobody measured") {
  const auto first = [](const std::string& job, const Keys& keys = {}) {
    return report::json(report_of(job, keys));
  };
  CHECK_THAT(
      first("llama8b-pcie", {"cluster.use=rtx4090-server", "cluster.nodes=1"}),
      ContainsSubstring("of the step rests on the data sheet: kernels or copies that were not"));
  CHECK_THAT(first("llama8b-pcie"), ContainsSubstring("No collective was measured on this"));
  CHECK_THAT(first("llama70b"), !ContainsSubstring("was measured on this"));
}

TEST_CASE(
    "unlike devices: the title names them, MFU is of their mean peak, stages can follow speed") {
  const auto mixed = report_of("llama13b-mixed");
  CHECK_THAT(mixed.title, ContainsSubstring("16 h100-sxm, 16 a100-sxm-80"));
  // A device that is not the one of the cluster's name is named, and a TPU has chips.
  CHECK_THAT(report_of("llama70b", {"cluster.device=h800-sxm"}).title,
             ContainsSubstring("on 64 x dgx-h100 (512 h800-sxm GPUs)"));
  CHECK_THAT(report_of("llama70b").title, ContainsSubstring("on 64 x dgx-h100 (512 GPUs)"));
  auto tpu = report_of("llama70b-tpu");
  CHECK_THAT(tpu.title, ContainsSubstring("on 64 x tpu-v5p (256 chips)"));
  // It runs splash attention, whichever kernel the job names.
  tpu.job_json =
      R"({"cluster": {"device": {"vendor": "google"}}, "kernels": {"attention": "cudnn"}})";
  CHECK_THAT(report::terminal(tpu, false, 100), ContainsSubstring("attention splash"));
  const auto job = config::load("llama13b-mixed").job;
  CHECK(mixed.mfu.value * hardware::mean_peak_of(job.cluster, DType::bf16).count() ==
        Approx(mixed.model_flops_per_gpu.value));
  const auto even = report_of("llama13b-mixed", kUnlikeStages);
  Keys keys = kUnlikeStages;
  keys.emplace_back("parallelism.layers_per_stage=redistribute");
  const auto by_speed = report_of("llama13b-mixed", keys);
  CHECK(by_speed.step_time.value < 0.75 * even.step_time.value);
  const auto advises = [](const result::Report& r) {
    return std::any_of(r.notes.begin(), r.notes.end(), [](const std::string& note) {
      return note.find("layers_per_stage=redistribute") != std::string::npos;
    });
  };
  CHECK(advises(even));
  CHECK_FALSE(advises(by_speed));
}

TEST_CASE("only a system that the job names refuses it, and DeepSeek's own job fits") {
  const auto named = outcome_of("deepseek-v3", {"parallelism.tensor=2"});
  REQUIRE(std::holds_alternative<Infeasible>(named));
  CHECK_THAT(std::get<Infeasible>(named).reason, ContainsSubstring("deepseek"));
  const Keys unnamed = {"system=null", "parallelism.tensor=2",
                        "parallelism.sequence_parallel=true"};
  auto free = report_of("llama8b-fsdp", unnamed);
  free.job_json = config::to_json(config::load("llama8b-fsdp", unnamed).job);
  CHECK_THAT(report::terminal(free, false, 200), ContainsSubstring("no system named"));
  const auto own = report_of("deepseek-v3");
  // It ran. Beside its 8-bit weights, embedding and head stand in 16 bits (section 3.3.1).
  CHECK(own.fits.probability.value_or(0) > 0.8);
  // 180 K GPU-hours a trillion tokens (arXiv 2412.19437, table 1) are 19.9 s for 62.9 M tokens.
  CHECK(own.step_time.low <= 19.9);
  CHECK(own.step_time.high >= 19.9);
}

TEST_CASE("ready jobs run the layouts that they cite") {
  const auto llama = config::load("llama405b").job;
  // The Llama 3 Herd of Models, table 4: 8 x 16 x 128 on 16,384 GPUs, 16 M tokens a batch.
  CHECK(llama.parallelism.tensor == 8);
  CHECK(llama.parallelism.pipeline == 16);
  CHECK(llama.cluster.ranks() == 16'384);
  CHECK(llama.workload.global_batch * llama.workload.sequence_length == 16'777'216);
  CHECK(result::verdict_of(report_of("llama405b").fits) == result::Verdict::yes);
  // Its code had no FlashAttention.
  CHECK(config::load("gpt-neox-20b").job.kernels.attention == AttentionKernel::unfused);
  CHECK(report_of("gpt-neox-20b").fits);
}

TEST_CASE("LoRA under FSDP takes the memory that PEFT's documentation reports") {
  // 72 to 80 GB of an H100, 90 to 98 % of its memory, and no unit is said: those of a tool that
  // reads the GPU (NVML's total of 81,559 MiB, of which 90 to 98 % are 71.7 to 78.1 GiB) as well as
  // powers of ten hold.
  const double peak = report_of("llama70b-lora").peak.value;
  CHECK(peak / kGibi == Approx(76).epsilon(0.1));
  CHECK(peak / 1e9 == Approx(76).epsilon(0.1));
  // Frozen weights are in units of their own: neither they nor their gradients are whole anywhere.
  CHECK(report_of("llama70b-lora", {"memory.dtypes.parameters=bf16"}).peak.value <
        peak - 10 * kGibi);
}

TEST_CASE("a power cap slows the step") {
  const double free = report_of("llama70b").step_time.value;
  const double capped = report_of("llama70b", {"cluster.device.power=400 W"}).step_time.value;
  CHECK(capped > 1.1 * free);
}
