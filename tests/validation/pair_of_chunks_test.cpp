// Kernels of a pair of chunks of DeepSeek-V3 under DualPipe, by kind, against a profile of one.
//
// Measured: deepseek-ai/profile-data, "training", read Nov 2026: one pair of a forward and a
// backward chunk of four MoE layers each, 64-way expert parallelism, 4096 tokens, balanced routing,
// H800, without pipeline messages. Sums of durations in ms over the pair; the products for experts'
// weight gradients, which run two at a time there, as the time that they take together.
#include <string>

#include "catch.hpp"
#include "stepcast/config/config.h"
#include "stepcast/forecast/forecaster.h"
#include "stepcast/text/document.h"
#include "stepcast/trace/forecast.h"
#include "trace/compared.h"

using namespace stepcast;

namespace {

constexpr double kAttention = 21.97;
constexpr double kDense = 18.84 + 11.7 + 0.54;  // forward and input gradients, weights', router
constexpr double kGrouped = 22.93 + 15.8;
// Rows copied to their experts and summed back: expand_to_fused_with_scales and reduce_fused.
constexpr double kPermuted = 1.459 + 2.644;
constexpr double kExchanged = 49.45 + 31.0;  // combine and dispatch, without waiting beforehand

// Of four stages the inner two hold layers alone; a rank of stage 1 has chunks 1 and 2.
constexpr int kStage = 1;
constexpr int kPairs = 40;

result::Report pair_report() {
  const std::string job =
      "model: {use: deepseek-v3, layers: 16, moe: {dense_layers: 0}}\n"
      "cluster: {use: dgx-h100, device: h800-sxm, nodes: 32}\n"
      "system: deepseek\n"
      "workload: {sequence_length: 4096, global_batch: 2560, micro_batch: 1, precision: "
      "fp8_block}\n"
      "parallelism: {pipeline: 4, expert: 64, layers_per_stage: [4, 4, 4, 4]}\n";
  forecast::Forecaster forecaster(text::data_directory());
  forecast::Options options;
  options.trace = true;
  return std::get<result::Report>(forecaster.forecast(config::parse(job, "pair").job, options));
}

double per_pair(const result::TraceStep& step, const std::string& kind) {
  double sum = 0;
  for (const result::TraceKind& k : step.kinds) {
    sum += k.kind.starts_with(kind) ? to_seconds(k.time) : 0;
  }
  return 1e3 * sum / kPairs;
}

// Milliseconds a pair of the kernels that curves of this name price.
double of_curve(const result::Report& report, const std::string& name) {
  const auto found = trace::forecast_rank(report, kStage);
  REQUIRE(found);
  const auto& curves = report.trace->world.curves;
  double sum = 0;
  for (const trace::ForecastTask& at : found->tasks) {
    if (at.task->kind != program::TaskKind::kernel) {
      continue;
    }
    const program::Curve& curve = curves[at.task->curve];
    double share = curve.name.starts_with(name) ? 1 : 0;
    for (const auto& [part, of_it] : curve.parts) {
      share += curves[part].name.starts_with(name) ? of_it : 0;
    }
    sum += share * to_seconds(at.to - at.from);
  }
  return 1e3 * sum / kPairs;
}

}  // namespace

TEST_CASE("kernels of a pair of DeepSeek-V3's chunks are those of the profile within 15 %") {
  const result::Report report = pair_report();
  const auto step = trace::forecast_step(report, kStage);
  REQUIRE(step);
  for (const result::TraceKind& k : step->kinds) {
    UNSCOPED_INFO(k.kind << " " << 1e3 * to_seconds(k.time) / kPairs);
  }
  CHECK(per_pair(*step, "attention") == Approx(kAttention).epsilon(0.15));
  CHECK(per_pair(*step, "gemm") == Approx(kDense).epsilon(0.15));
  CHECK(per_pair(*step, "grouped_gemm") == Approx(kGrouped).epsilon(0.15));
  CHECK(of_curve(report, "memory fused_permute") == Approx(kPermuted).epsilon(0.15));
  CHECK(of_curve(report, "memory permute") == 0);
  CHECK(per_pair(*step, "tokens") == Approx(kExchanged).epsilon(0.15));
}
