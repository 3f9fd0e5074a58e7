// Forecasts against published step times and memory, and the proof that they do not look at them.
#include "published.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <regex>
#include <utility>

#include "catch.hpp"
#include "stepcast/base/statistics.h"
#include "stepcast/runs/read.h"
#include "stepcast/text/document.h"
#include "stepcast/validate/compare.h"

namespace {

using namespace stepcast;
using result::ValidationRow;

using test::forecasts_of;

const std::string kFolder = std::string(STEPCAST_SOURCE_DIR) + "/tests/validation/";

void print(const ValidationRow& r) {
  fmt::print("{:<44} {:<13} {:>12.5g} {:>12.5g} {:>+7.1f} % [{:.4g}, {:.4g}] {}{}\n", r.id,
             r.metric, r.published, r.predicted, 100 * r.error, r.low, r.high, r.status,
             r.reason ? ": " + *r.reason : "");
}

double mean_size(const std::vector<ValidationRow>& rows) {
  double sum = 0;
  for (const auto& r : rows) {
    sum += std::abs(r.error);
  }
  return sum / static_cast<double>(rows.size());
}

}  // namespace

// Korthikanti et al., arXiv 2205.05198, table 5 (8 rows); Narayanan et al., arXiv 2104.04473
// (SC21), table 1 (10 rows).
TEST_CASE("step times of Korthikanti's table 5 and SC21's table 1") {
  std::vector<ValidationRow> rows;
  for (const char* file : {"korthikanti.jsonl", "megatron-sc21.jsonl"}) {
    for (const auto& r : forecasts_of(file).rows) {
      print(r);
      if (r.primary && r.metric != "layer_time") {
        rows.push_back(r);
      }
    }
  }
  REQUIRE(rows.size() == 18);
  fmt::print("mean absolute error {:.2f} %\n", 100 * mean_size(rows));
  for (const auto& r : rows) {
    INFO(r.id);
    CHECK(r.status == "ok");
    CHECK(std::abs(r.error) <= 0.12);
  }
  CHECK(mean_size(rows) <= 0.06);
}

// The dense GPT rows of Megatron-LM's functional tests, one for each model, parallelism and
// implementation: allocated bytes on the last rank.
TEST_CASE("steady and peak memory of Megatron-LM's dense functional tests") {
  const auto& validation = forecasts_of("megatron-functional-dense.jsonl");
  constexpr double kMiB = 1024.0 * 1024.0;
  std::vector<double> steady, peak;
  int large = 0;
  for (const auto& r : validation.rows) {
    print(r);
    if (r.status == "skipped") {
      continue;
    }
    if (r.metric == "steady_memory") {
      const double off = std::abs(r.predicted - r.published);
      steady.push_back(off / std::max(0.02 * r.published, 64 * kMiB));
      if (r.published > 4096 * kMiB) {
        ++large;
        INFO(r.id);
        CHECK(std::abs(r.error) <= 0.02);
      }
    } else if (r.metric == "peak_memory") {
      peak.push_back(std::abs(r.error));
    }
  }
  REQUIRE(steady.size() >= 30);
  REQUIRE(large >= 2);
  fmt::print("steady: median {:.2f} of the allowed max(2 %, 64 MiB); peak: median {:.2f} %\n",
             median(steady), 100 * median(peak));
  CHECK(median(steady) <= 1);
  CHECK(median(peak) <= 0.08);
}

// Liger-Kernel's benchmark table: allocated bytes of one operator, where a layer has an operator
// that works alike. The goal is a median of 5 %. The largest errors are the fp32 partial sums of
// the oldest RMS norm kernel, and logits in fp32 of the oldest head and loss in one.
TEST_CASE("peak memory of single operators") {
  std::vector<double> all;
  for (const auto& r : forecasts_of("liger-op-memory.jsonl").rows) {
    INFO(r.id);
    if (r.status == "ok") {
      all.push_back(std::abs(r.error));
    }
  }
  REQUIRE(all.size() == 259);
  fmt::print("operators: median {:.2f} %\n", 100 * median(all));
  CHECK(median(all) <= 0.05);
}

namespace {

// The rows of one quantity that could be forecast.
std::vector<ValidationRow> forecast_rows(const char* file, const char* metric) {
  std::vector<ValidationRow> rows;
  for (const auto& r : forecasts_of(file).rows) {
    if (r.metric == metric && r.status != "skipped") {
      print(r);
      rows.push_back(r);
    }
  }
  fmt::print("{}: mean absolute error {:.2f} %\n", file, 100 * mean_size(rows));
  return rows;
}

// Example: zb-t4-6.2B-zb-2p-m24. Rows of one table, model, number of micro-batches and size differ
// only in their schedule.
std::string without_schedule(const std::string& id) {
  static const std::regex schedule("-(zb-1p|zb-2p|zb-h1|zb-h2|zb2p-sync|1f1b-i|1f1b)-");
  return std::regex_replace(id, schedule, "-");
}

}  // namespace

// Qi et al., arXiv 2401.10241, tables 4, 7, 8 and 9. One goal is that the faster of two schedules
// is always predicted, which is met for 43 pairs of 45; it was for fewer while a message occupied
// 32 SMs and slowed split backward passes more than others. The other is a mean error of 5 %, which
// is missed by 0.24 since then: all rows of one node are 2 to 9 % too fast alike. Bounds keep both
// from getting worse.
TEST_CASE("throughput of zero-bubble schedules, and which of two is faster") {
  const auto rows = forecast_rows("zero-bubble.jsonl", "throughput");
  REQUIRE(rows.size() == 50);
  CHECK(mean_size(rows) <= 0.053);
  int right = 0;
  int wrong = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    for (std::size_t j = i + 1; j < rows.size(); ++j) {
      const auto& a = rows[i];
      const auto& b = rows[j];
      if (without_schedule(a.id) == without_schedule(b.id) &&
          std::abs(a.published - b.published) > 0.03 * std::max(a.published, b.published)) {
        ++((a.published > b.published) == (a.predicted > b.predicted) ? right : wrong);
      }
    }
  }
  fmt::print("the faster of two schedules: {} right, {} wrong\n", right, wrong);
  REQUIRE(right + wrong >= 40);
  CHECK(right >= 43);
}

// Yeung et al., arXiv 2411.05288, table 5: the goal is a mean error of 7 %. Runs of the same jobs
// in the authors' repository (vocab-parallel-stages.jsonl) were up to 15 % faster than the table's,
// and forecasts lie between both: 8.2 and 6.6 % off. The bound was 8.1 % until the preset had the
// order of the authors' code, in which the collectives of the vocabulary run one after the other.
TEST_CASE("MFU with the vocabulary on the last stage, redistributed and over all stages") {
  const auto rows = forecast_rows("vocab-parallel.jsonl", "mfu");
  REQUIRE(rows.size() == 40);
  CHECK(mean_size(rows) <= 0.083);
}

// Liu et al., arXiv 2504.14960, tables 3 to 5; NVIDIA-NeMo Megatron-Bridge, performance summary,
// mixtures of experts. The goal is a mean error of 12 %, which the second meets, and the first
// where it does not run FSDP: no package of that time sharded parameters beside tensor and expert
// ranks, and torch's FSDP2, which stands for it, overlaps what those runs did not (28 % off in the
// mean).
TEST_CASE("MFU and throughput of mixtures of experts") {
  const auto folding = forecast_rows("moe-folding.jsonl", "mfu");
  REQUIRE(folding.size() == 32);
  std::vector<ValidationRow> whole, sharded;
  for (const ValidationRow& r : folding) {
    (r.id.find("-fsdp") == std::string::npos ? whole : sharded).push_back(r);
  }
  fmt::print("without FSDP {:.3f}, with it {:.3f}\n", mean_size(whole), mean_size(sharded));
  CHECK(mean_size(whole) <= 0.12);
  CHECK(mean_size(sharded) <= 0.31);
  const auto bridge = forecast_rows("megatron-bridge-moe.jsonl", "throughput");
  REQUIRE(bridge.size() == 63);
  CHECK(mean_size(bridge) <= 0.1);
}

// MLPerf Training 5.0 and 5.1, Llama-2 70B LoRA on 8 to 32 MI300X; MaxText's recipes for TPU v6e
// and Ironwood. The goal is a median of 12 %, with nothing fitted to either: products on MI300X are
// another library's best kernels, TPUs are known by data sheet alone. Of the intervals 80 % hold.
// On TPUs, at 5.6 %, models of 175 and 405 billion parameters and steps over several slices are 13
// to 18 % too fast.
TEST_CASE("devices that are not NVIDIA's") {
  const std::pair<const char*, double> files[] = {{"mi300x-lora.jsonl", 0.12},
                                                  {"tpu-recipes.jsonl", 0.12}};
  for (const auto& [file, limit] : files) {
    INFO(file);
    std::vector<double> errors;
    int inside = 0;
    for (const auto& r : forecast_rows(file, "step_time")) {
      errors.push_back(std::abs(r.predicted / r.published - 1));
      inside += r.low <= r.published && r.published <= r.high ? 1 : 0;
    }
    REQUIRE(errors.size() >= 10);
    std::sort(errors.begin(), errors.end());
    CHECK(errors[errors.size() / 2] <= limit);
    CHECK(inside >= 0.8 * static_cast<double>(errors.size()));
  }
}

TEST_CASE("a forecast does not see what was measured, nor which run it is") {
  forecast::Forecaster forecaster(text::data_directory());
  for (const char* name :
       {"aleph-alpha.jsonl", "internevo.jsonl", "llm-foundry.jsonl", "torchtitan.jsonl",
        "vtrain-single-node.jsonl", "vtrain-multi-node.jsonl", "simumax-b200.jsonl"}) {
    const auto all = runs::read(kFolder + name);
    for (std::size_t i = 0; i < all.size(); ++i) {
      const runs::Run& seen = all[i];
      runs::Run unseen = seen;
      unseen.id = all[all.size() - 1 - i].id;
      unseen.source = all[all.size() - 1 - i].source;
      for (runs::Measurement& m : unseen.measured) {
        m.values = {3 * m.value()};
      }
      const auto a = validate::forecast_run(forecaster, seen);
      const auto b = validate::forecast_run(forecaster, unseen);
      INFO(seen.id);
      REQUIRE(a.index() == b.index());
      REQUIRE(a.index() == 0);
      for (std::size_t q = 0; q < seen.measured.size(); ++q) {
        const auto x = validate::predict(std::get<0>(a), seen.measured[q], seen);
        const auto y = validate::predict(std::get<0>(b), unseen.measured[q], unseen);
        REQUIRE(x.has_value());
        REQUIRE(y.has_value());
        CHECK(x->value == y->value);
        CHECK(x->low == y->low);
        CHECK(x->high == y->high);
      }
    }
  }
}

TEST_CASE("errors stay within their recorded bands: steps") {
  for (const char* file : {"aleph-alpha.jsonl",
                           "bloom-sweep.jsonl",
                           "dgxc.jsonl",
                           "internevo.jsonl",
                           "korthikanti.jsonl",
                           "llm-foundry.jsonl",
                           "megatron-bridge-dense.jsonl",
                           "megatron-bridge-moe.jsonl",
                           "megatron-sc21.jsonl",
                           "mlperf.jsonl",
                           "moe-folding.jsonl",
                           "moe-modelzoo.jsonl",
                           "nemo-24.07.jsonl",
                           "simumax-b200.jsonl",
                           "torchtitan.jsonl",
                           "vocab-parallel.jsonl",
                           "vtrain-multi-node.jsonl",
                           "vtrain-single-node.jsonl",
                           "zero-bubble.jsonl",
                           "liger-op-memory.jsonl",
                           "megatron-functional-dense.jsonl",
                           "mi300x-lora.jsonl",
                           "tpu-recipes.jsonl"}) {
    test::check_bands(file);
  }
}
