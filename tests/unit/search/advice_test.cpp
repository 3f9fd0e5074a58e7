// Advice for jobs that do not fit: correct, cheapest first, and only about memory.
#include "stepcast/search/advice.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "catch.hpp"
#include "stepcast/forecast/forecaster.h"
#include "stepcast/input/input.h"
#include "stepcast/text/document.h"

using namespace stepcast;

namespace {

// Llama-3 8B on one node, with more tokens per GPU than fit.
constexpr const char* kLargeJob =
    "model: llama-3-8b\ncluster: {use: dgx-h100, nodes: 1}\nsystem: megatron-lm\n"
    "workload: {sequence_length: 8192, global_batch: 64, micro_batch: 2}\n"
    "parallelism: {sharding: zero1}\n";

struct Case {
  std::vector<std::string> overrides;
  forecast::Forecaster forecaster{text::data_directory()};

  std::optional<job::Job> load(const std::vector<std::string>& more) const {
    std::vector<std::string> all = overrides;
    all.insert(all.end(), more.begin(), more.end());
    try {
      return input::parse(kLargeJob, "job", all).job;
    } catch (const InputError&) {
      return std::nullopt;
    }
  }
  result::Report forecast(const std::vector<std::string>& more = {}) {
    return std::get<result::Report>(forecaster.forecast(load(more).value()));
  }
  std::vector<result::Advice> advise() {
    const auto report = forecast();
    REQUIRE_FALSE(report.fits);
    return search::advise(forecaster, load({}).value(), report,
                          [this](const auto& more) { return load(more); })
        .advice;
  }
  std::string notes(std::int64_t most_tasks) {
    auto report = forecast();
    search::add_advice(forecaster, load({}).value(),
                       [this](const auto& more) { return load(more); }, report,
                       {.most_tasks = most_tasks});
    return fmt::format("{}", fmt::join(report.notes, "\n"));
  }
};

std::vector<std::string> words(const std::string& text) {
  // Overrides contain spaces only inside braces.
  std::vector<std::string> out;
  int depth = 0;
  out.emplace_back();
  for (const char c : text) {
    depth += c == '{' ? 1 : c == '}' ? -1 : 0;
    if (c == ' ' && depth == 0) {
      out.emplace_back();
    } else {
      out.back() += c;
    }
  }
  return out;
}

}  // namespace

TEST_CASE("What advice says is what the changed job's forecast says, the cheapest first") {
  Case c;
  // The GPU's memory as a fraction of the job's own peak; for the largest a single change is
  // enough.
  const double share = GENERATE(0.9, 0.5, 0.25);
  CAPTURE(share);
  const double peak = c.forecast().peak.value;
  c.overrides = {fmt::format("cluster.device.memory={:.0f}", share * peak)};
  const auto advice = c.advise();
  REQUIRE_FALSE(advice.empty());
  const std::size_t together = words(advice.front().change).size();
  if (share == 0.9) {
    CHECK(together == 1);
  }
  double last = 0;
  for (const result::Advice& one : advice) {
    CAPTURE(one.change);
    const auto all = words(one.change);
    const auto report = c.forecast(all);
    CHECK(report.fits);
    CHECK(static_cast<double>(one.peak.count()) == Approx(report.peak.value));
    CHECK(to_seconds(one.step_time) == Approx(report.step_time.value).epsilon(1e-9));
    CHECK(to_seconds(one.step_time) >= last);
    last = to_seconds(one.step_time);
    CHECK(all.size() == together);
    if (all.size() > 1) {  // no single part of it is enough
      for (const std::string& part : all) {
        CHECK_FALSE(c.forecast({part}).fits);
      }
    }
  }
}

TEST_CASE("Advice changes no batch, number format or optimizer") {
  Case c;
  const job::Job before = c.load({}).value();
  for (const auto& change : search::changes(before, c.forecast())) {
    const auto after = c.load(change);
    if (!after) {
      continue;
    }
    CAPTURE(change.front());
    CHECK(after->workload.global_batch == before.workload.global_batch);
    CHECK(after->workload.sequence_length == before.workload.sequence_length);
    CHECK(after->workload.precision == before.workload.precision);
    CHECK(after->memory.optimizer == before.memory.optimizer);
    CHECK(after->memory.dtypes.master == before.memory.dtypes.master);
  }
}

TEST_CASE("A job that nothing saves gets no advice") {
  Case c;
  c.overrides = {"cluster.device.memory=2 GB"};
  CHECK(c.advise().empty());
}

TEST_CASE("Advice that stopped says so, and only that") {
  Case c;
  CHECK(c.notes(1).find("advice stopped before all was tried") != std::string::npos);
  CHECK(c.notes(40'000'000).find("advice stopped") == std::string::npos);
}
