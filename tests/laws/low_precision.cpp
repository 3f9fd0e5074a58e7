// Laws of 8-bit and 4-bit recipes: every one runs, narrower ones keep fewer bytes, and casts cost
// time.
#include <fmt/format.h>

#include "catch.hpp"
#include "stepcast/config/config.h"
#include "stepcast/forecast/forecaster.h"

using namespace stepcast;

namespace {

result::Report report_of(const char* cluster, const char* precision, int hidden,
                         const char* system = "megatron-lm", const char* kernels = "{}",
                         const char* memory = "{}", int layers = 4) {
  const auto job =
      config::parse(
          fmt::format(
              "model: {{layers: {9}, hidden: {0}, heads: 16, kv_heads: 16, head_dim: {1}, ffn: "
              "{2}, "
              "vocab: 32000, gated_mlp: true, norm: rms, positions: rotary}}\n"
              "cluster: {{use: {3}, nodes: 1}}\n"
              "system: {5}\n"
              "kernels: {6}\n"
              "workload: {{sequence_length: 4096, global_batch: 16, micro_batch: 1, precision: "
              "{4}}}\n"
              "parallelism: {{sharding: {7}}}\n"
              "memory: {8}\n",
              hidden, hidden / 16, 4 * hidden, cluster, precision, system, kernels,
              std::string(system).find("torchtitan") != std::string::npos ? "zero3" : "zero1",
              memory, layers),
          "precision")
          .job;
  forecast::Forecaster forecaster(STEPCAST_SOURCE_DIR);
  auto out = forecaster.forecast(job);
  if (const auto* why = std::get_if<Infeasible>(&out)) {
    FAIL(why->key << ": " << why->reason);
  }
  return std::get<result::Report>(std::move(out));
}

}  // namespace

TEST_CASE("Large products gain from fewer bits, and less is kept of them") {
  for (const auto& [cluster, recipes] :
       {std::pair<const char*, std::vector<const char*>>{"dgx-h100", {"bf16", "fp8_block"}},
        {"dgx-h100", {"bf16", "fp8"}},
        {"dgx-b200", {"bf16", "mxfp8", "nvfp4"}}}) {
    double time = 1e30;
    std::int64_t kept = 1LL << 60;
    for (const char* precision : recipes) {
      INFO(cluster << " " << precision);
      const auto r = report_of(cluster, precision, 8192);
      CHECK(r.step_time.value < time);
      CHECK(r.memory.front().activations.count() < kept);
      time = r.step_time.value;
      kept = r.memory.front().activations.count();
    }
  }
}

TEST_CASE("Casts eat what small products gain") {
  const auto gain = [](int hidden) {
    return report_of("dgx-h100", "bf16", hidden).step_time.value /
           report_of("dgx-h100", "fp8", hidden).step_time.value;
  };
  CHECK(gain(2048) < gain(8192));
  CHECK(gain(8192) < 2.0);
}

TEST_CASE("torchao's casts: a compiler saves traffic, scales along columns cost time") {
  const auto time = [](const char* kernels, const char* precision = "fp8") {
    return report_of("dgx-h100", precision, 4096, "torchtitan", kernels).step_time.value;
  };
  const double bf16 =
      report_of("dgx-h100", "bf16", 4096, "torchtitan", "{compile: true}").step_time.value;
  const double compiled = time("{compile: true}");
  CHECK(compiled < bf16);
  CHECK(time("{compile: true}", "fp8_block") > compiled);
  const double eager =
      report_of("dgx-h100", "bf16", 4096, "torchtitan", "{compile: false}").step_time.value;
  CHECK(time("{compile: false}") - compiled > eager - bf16);
}

TEST_CASE("torchao keeps its inputs whole, or what a compiler leaves of them") {
  // Of four layers: what eight have more at the peak, wherever that lies.
  const auto kept = [](const char* precision, const char* kernels,
                       const char* system = "torchtitan", const char* cluster = "dgx-h100") {
    const auto of_layers = [&](int layers) {
      return report_of(cluster, precision, 4096, system, kernels, "{recompute: none}", layers)
          .memory.front()
          .activations.count();
    };
    return of_layers(8) - of_layers(4);
  };
  // The 16-bit inputs are what autograd saves (float8_linear.py: save_for_backward(input_hp)).
  CHECK(kept("fp8", "{compile: false}") == kept("bf16", "{compile: false}"));
  CHECK(kept("fp8_block", "{compile: false}") == kept("bf16", "{compile: false}"));
  // Under torch 2.7 one cast for both products is kept; casts by rows are made again, and their
  // inputs with them. Later versions make all of them again.
  const char* const compiled = "{compile: true}";
  const char* const old = "{use: torchtitan, compiled_casts: kept}";
  const std::int64_t whole = kept("bf16", compiled);
  const std::int64_t rows = kept("fp8_block", compiled);
  CHECK(kept("fp8", compiled, old) < whole);
  CHECK(rows < kept("fp8", compiled, old));
  CHECK(kept("fp8_block", compiled, old) == rows);
  CHECK(kept("fp8", compiled, "{use: torchtitan, compiled_casts: again}") == rows);
  // Kernels of torchao's own a compiler does not see through: of the MLP's inputs it keeps what
  // they make, 8 bits and a scale for 32 of them.
  const auto blocks = static_cast<double>(kept("mxfp8", compiled, "torchtitan", "dgx-b200") -
                                          kept("fp8_block", compiled, "torchtitan", "dgx-b200"));
  CHECK(blocks == Approx((1 + 1.0 / 32) * 4 * 4096 * (2 * 4096 + 4 * 4096)).epsilon(0.01));
}

TEST_CASE("Where scales lie along rows, gradients pass through fp32 in later versions of torch") {
  const auto peak = [](const char* precision, const char* casts) {
    const std::string system = fmt::format("{{use: torchtitan, compiled_casts: {}}}", casts);
    return report_of("dgx-h100", precision, 4096, system.c_str(), "{compile: true}",
                     "{recompute: full}")
        .memory.front()
        .allocated.count();
  };
  CHECK(peak("fp8_block", "wide") > peak("fp8_block", "again"));
  CHECK(peak("fp8", "wide") == peak("fp8", "again"));
}

TEST_CASE("A layer that stays in 16 bits costs and keeps what it does in a job of 16 bits") {
  const auto report = [](const char* precision, int start, int end, const char* system) {
    const bool titan = std::string(system) == "torchtitan";
    const auto job =
        config::parse(
            fmt::format("model: {{use: llama-3-8b, layers: 8, bf16_start_layers: {}, "
                        "bf16_end_layers: {}}}\n"
                        "cluster: {{use: dgx-h100, nodes: 1}}\nsystem: {}\n"
                        "workload: {{sequence_length: 4096, global_batch: 16, micro_batch: 1, "
                        "precision: {}}}\n"
                        "parallelism: {{tensor: 2, sharding: {}}}\n"
                        "memory: {{dtypes: {{parameters: {}}}}}\n",
                        start, end, system, precision, titan ? "zero3" : "zero1",
                        titan ? "fp32" : "bf16"),
            "layers")
            .job;
    forecast::Forecaster forecaster(STEPCAST_SOURCE_DIR);
    return std::get<result::Report>(forecaster.forecast(job));
  };
  for (const char* system : {"megatron-lm", "torchtitan"}) {
    INFO(system);
    const result::Report wide = report("bf16", 0, 0, system);
    for (const auto& [start, end] : {std::pair{8, 0}, {3, 5}, {8, 8}}) {
      const result::Report all = report("fp8", start, end, system);
      CHECK(all.step_time.value == wide.step_time.value);
      CHECK(all.memory.front().allocated == wide.memory.front().allocated);
    }
  }
  // Each adds as much, at whichever end it is.
  const auto time = [&](int start, int end) {
    return report("fp8", start, end, "megatron-lm").step_time.value;
  };
  const double none = time(0, 0), all = time(8, 0);
  CHECK(time(2, 0) > none);
  CHECK(time(0, 2) == Approx(time(2, 0)).epsilon(2e-3));
  CHECK(time(2, 0) - none == Approx((all - none) / 4).epsilon(0.05));
}

TEST_CASE("Weights of products stand and travel in few bits, all other parameters in 16") {
  constexpr std::int64_t kVocab = 32000, kHidden = 4096, kLayers = 4;
  constexpr std::int64_t kProducts = kLayers * (4 + 3 * 4) * kHidden * kHidden;
  constexpr std::int64_t kOthers = 2 * kVocab * kHidden + (2 * kLayers + 1) * kHidden;
  struct Recipe {
    const char *cluster, *precision;
    double standing, gathered;
  };
  // Bytes of a product's weight: rows, and columns where the hardware needs them, with their
  // scales.
  for (const Recipe& r :
       {Recipe{"dgx-h100", "fp8", 1 + 1, 1}, Recipe{"dgx-b200", "fp8", 1, 1},
        Recipe{"dgx-b200", "mxfp8", 2 + 2.0 / 32, 2},
        Recipe{"dgx-b200", "nvfp4", 2 * (0.5 + 1.0 / 16), 0.5}, Recipe{"dgx-h100", "bf16", 2, 2}}) {
    INFO(r.cluster << " " << r.precision);
    const result::Report report = report_of(r.cluster, r.precision, kHidden, "megatron-bridge");
    const auto standing = static_cast<double>(report.memory.front().parameters.count());
    CHECK(standing == Approx(r.standing * kProducts + 2.0 * kOthers).epsilon(1e-4));
    double gathered = 0;
    for (const auto& use : report.traffic) {
      gathered += use.group == "data" && use.op.find("all_gather") == 0
                      ? static_cast<double>(use.bytes.count())
                      : 0;
    }
    CHECK(gathered == Approx(r.gathered * kProducts + 2.0 * kOthers).epsilon(1e-3));
  }
}
