// A profile of other work than the job's is told by the shapes of its products.
#include "stepcast/calibrate/profiled_work.h"

#include "catch.hpp"
#include "stepcast/forecast/forecaster.h"
#include "stepcast/input/input.h"
#include "stepcast/text/document.h"

using namespace stepcast;

namespace {

struct Case {
  job::Job job;
  result::Report report;
};

Case forecast_of(const std::vector<std::string>& set) {
  Case out{input::load("llama8b-fsdp", set).job, {}};
  forecast::Forecaster forecaster(text::data_directory());
  forecast::Options options;
  options.trace = true;
  out.report = std::get<result::Report>(forecaster.forecast(out.job, options));
  return out;
}

// C[m, n] = A[m, k] B[k, n] and its two gradients, in every one of two steps that count and a
// third.
void add_linear(result::TraceRank& rank, std::int64_t m, std::int64_t n, std::int64_t k,
                std::int64_t times) {
  for (const result::TraceProduct& p :
       {result::TraceProduct{m, n, k, 1}, {m, k, n, 1}, {k, n, m, 1}}) {
    result::TraceOperator op;
    op.name = "aten::mm";
    op.product = p;
    op.count = 3 * times;
    op.step_count = 2 * times;
    op.time = Time(op.count * 1'000'000'000);
    rank.kernels.at(0).time += op.time;
    rank.operators.push_back(op);
  }
}

// The products of Llama 3 8B over `tokens` tokens of a GPU, as PyTorch multiplies them.
result::TraceRank profile_of(std::int64_t tokens) {
  result::TraceRank rank;
  rank.kernels.push_back({"gemm", "nvjet", 1, Time(0)});
  constexpr int kLayers = 32;
  constexpr std::int64_t kHidden = 4096, kKeys = 1024, kMlp = 14336, kWords = 128256;
  for (const auto& [n, k] : {std::pair(kHidden, kHidden),
                             {kKeys, kHidden},
                             {kKeys, kHidden},
                             {kHidden, kHidden},
                             {kMlp, kHidden},
                             {kMlp, kHidden},
                             {kHidden, kMlp}}) {
    add_linear(rank, tokens, n, k, kLayers);
  }
  add_linear(rank, tokens, kWords, kHidden, 1);
  result::TraceDevice device;
  device.steps.resize(3);
  for (result::TraceStep& step : device.steps) {
    step.share.span = step.share.compute = Time(1'000'000'000'000);
  }
  rank.devices.push_back(device);
  return rank;
}

}  // namespace

TEST_CASE("products of the job's own model are its work") {
  const Case c = forecast_of({"memory.recompute=none"});
  const auto tokens = static_cast<std::int64_t>(c.report.tokens) / c.job.cluster.ranks();
  const result::TraceRank rank = profile_of(tokens);
  const auto work = calibrate::profiled_work(rank, c.job, c.report, 0);
  REQUIRE(work);
  CHECK(work->measured == Approx(work->least).epsilon(0.01));
  CHECK(work->most == Approx(work->least).epsilon(0.01));
  CHECK(work->with_hidden == Approx(1));
  const calibrate::WorkVerdict verdict = calibrate::judge_work(*work, c.job);
  CHECK(verdict.refused.empty());
  CHECK(verdict.note.empty());
}

TEST_CASE("twice the work is refused, a quarter more is said") {
  const Case c = forecast_of({"memory.recompute=none"});
  const auto tokens = static_cast<std::int64_t>(c.report.tokens) / c.job.cluster.ranks();
  const auto verdict = [&](std::int64_t of) {
    return calibrate::judge_work(*calibrate::profiled_work(profile_of(of), c.job, c.report, 0),
                                 c.job);
  };
  CHECK_THAT(verdict(2 * tokens).refused, ContainsSubstring("2 times those of the job"));
  CHECK_THAT(verdict(tokens / 2).refused, ContainsSubstring("0.5 times those of the job"));
  CHECK(verdict(tokens * 5 / 4).refused.empty());
  CHECK_THAT(verdict(tokens * 5 / 4).note, ContainsSubstring("1.25 times those of the job"));
}

TEST_CASE(
    "recomputation of all layers is the job's work where the job states it, whether it was done or "
    "not") {
  const Case c = forecast_of({"memory.recompute=full"});
  const auto tokens = static_cast<std::int64_t>(c.report.tokens) / c.job.cluster.ranks();
  result::TraceRank rank = profile_of(tokens);
  CHECK(calibrate::judge_work(*calibrate::profiled_work(rank, c.job, c.report, 0), c.job)
            .note.empty());
  for (std::size_t i = 0; i < rank.operators.size(); i += 3) {  // the forward products once more
    rank.operators[i].step_count *= 2;
  }
  CHECK(calibrate::judge_work(*calibrate::profiled_work(rank, c.job, c.report, 0), c.job)
            .note.empty());
}

TEST_CASE("as much work in products without the hidden size is said") {
  const Case c = forecast_of({"memory.recompute=none"});
  const auto tokens = static_cast<std::int64_t>(c.report.tokens) / c.job.cluster.ranks();
  result::TraceRank rank = profile_of(tokens);
  for (result::TraceOperator& op : rank.operators) {
    for (std::int64_t* size : {&op.product->m, &op.product->n, &op.product->k}) {
      *size = *size == c.job.model.hidden ? *size + 1 : *size;
    }
  }
  const auto verdict =
      calibrate::judge_work(*calibrate::profiled_work(rank, c.job, c.report, 0), c.job);
  CHECK(verdict.refused.empty());
  CHECK_THAT(verdict.note, ContainsSubstring("hidden size 4096 on no side"));
}

TEST_CASE("a profile that states few shapes is not judged") {
  const Case c = forecast_of({});
  const auto tokens = static_cast<std::int64_t>(c.report.tokens) / c.job.cluster.ranks();
  result::TraceRank rank = profile_of(tokens);
  rank.kernels[0].time += rank.kernels[0].time / 4;
  CHECK_FALSE(calibrate::profiled_work(rank, c.job, c.report, 0));
  CHECK_FALSE(calibrate::profiled_work(result::TraceRank(), c.job, c.report, 0));
}
