// Forecasts against published step times and memory, and the proof that they do not look at them.
#include "stepcast/validate/published.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "catch.hpp"
#include "stepcast/base/median.h"
#include "stepcast/text/document.h"

namespace {

using namespace stepcast;
using result::ValidationRow;

const std::string kFolder = std::string(STEPCAST_SOURCE_DIR) + "/tests/validation/";

result::Validation validate_files(std::initializer_list<const char*> names, bool distinct = false) {
  std::vector<interop::PublishedRow> rows;
  for (const char* name : names) {
    for (auto& row : interop::read_rows(kFolder + name)) {
      rows.push_back(std::move(row));
    }
  }
  forecast::Forecaster forecaster(text::data_directory());
  validate::Options options;
  options.distinct = distinct;
  return validate::compare(forecaster, rows, options);
}

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
  const auto validation = validate_files({"korthikanti.jsonl", "megatron-sc21.jsonl"});
  std::vector<ValidationRow> rows;
  for (const auto& r : validation.rows) {
    print(r);
    if (r.primary && r.metric != "layer_time") {
      rows.push_back(r);
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

// The dense GPT rows of Megatron-LM's functional tests, each model, parallelism and implementation
// once: allocated bytes on the last rank.
TEST_CASE("steady and peak memory of Megatron-LM's dense functional tests") {
  const auto validation = validate_files({"megatron-functional-dense.jsonl"}, true);
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

TEST_CASE("a forecast does not see what was measured, nor which row it is") {
  std::vector<text::Value> rows;
  for (const char* name : {"korthikanti.jsonl", "megatron-sc21.jsonl"}) {
    for (auto& row : text::read_json_lines(kFolder + name)) {
      rows.push_back(std::move(row));
    }
  }
  const auto entry = [](text::Value& map, std::string_view key) -> text::Value& {
    for (auto& e : map.entries) {
      if (e.key == key) {
        return e.value;
      }
    }
    FAIL("no " << key);
    return map;
  };
  std::vector<text::Value> blind = rows;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    text::Value& other = rows[rows.size() - 1 - i];
    entry(blind[i], "id") = entry(other, "id");
    entry(blind[i], "source") = entry(other, "source");
    entry(entry(blind[i], "model"), "name") = entry(entry(other, "model"), "name");
    entry(blind[i], "value") = text::Value{};
    entry(blind[i], "other_metrics") = text::Value{};
    entry(blind[i], "notes") = text::Value{};
  }
  forecast::Forecaster forecaster(text::data_directory());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto seen = interop::take_apart(rows[i], "seen");
    const auto unseen = interop::take_apart(blind[i], "unseen");
    const bool layer = seen.output.metric == "layer_fwd_bwd_ms";
    const auto a = validate::forecast_row(forecaster, seen.configuration, layer);
    const auto b = validate::forecast_row(forecaster, unseen.configuration, layer);
    INFO(seen.identity.id);
    REQUIRE(a.index() == b.index());
    REQUIRE(a.index() == 0);
    const auto& first = std::get<0>(a);
    const auto& second = std::get<0>(b);
    for (const auto& m : interop::measurements(seen, first.row)) {
      const auto x = validate::predict(first, m, seen.output);
      const auto y = validate::predict(second, m, unseen.output);
      REQUIRE(x.has_value());
      REQUIRE(y.has_value());
      CHECK(x->value == y->value);
      CHECK(x->low == y->low);
      CHECK(x->high == y->high);
    }
  }
}
