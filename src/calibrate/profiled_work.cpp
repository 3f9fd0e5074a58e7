#include "stepcast/calibrate/profiled_work.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "stepcast/model/count.h"
#include "stepcast/trace/explain.h"
#include "stepcast/trace/forecast.h"

namespace stepcast::calibrate {
namespace {

// Of the time of products, as much must have shapes: then what has none cannot make up a half more
// work, which is the least that is refused.
constexpr double kKnown = 0.9;

// Work of products that differs by less is the job's: padded vocabularies, products by which a
// router or an attention without a fused kernel computes, and recomputation in part are some per
// cent.
constexpr double kSame = 1.1;
// Work that differs by more is another job's. The largest difference that one model on one
// placement can have is recomputation of all layers, four passes for three, a third more; the next
// larger model, or half or twice a degree of parallelism or a batch, is a half to twice as much.
constexpr double kOther = 1.5;

// All products of a transformer but those between low ranks and heads have its hidden size on one
// side; where nine tenths of the work does not, the model is another one.
constexpr double kWithHidden = 0.1;

struct StageTimes {
  double dense = 0, grouped = 0;  // seconds of a step
};

std::optional<StageTimes> times_of(const result::Report& report, int stage) {
  const auto step = trace::forecast_step(report, stage);
  if (!step) {
    return std::nullopt;
  }
  StageTimes out;
  for (const result::TraceKind& kind : step->kinds) {
    out.dense += kind.kind == "gemm" ? to_seconds(kind.time) : 0;
    out.grouped += kind.kind == "grouped_gemm" ? to_seconds(kind.time) : 0;
  }
  return out;
}

// FLOPs of the products of a step on one GPU, the mean of all: what a token takes in sequences of
// one token, in which attention has nothing to do.
double mean_products(job::Job job, const result::Report& report) {
  job.workload.sequence_length = 1;
  return model::training_flops(job, report.tokens).count() / job.cluster.ranks();
}

double flops_of(const result::TraceProduct& p) {
  return 2.0 * static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k) *
         static_cast<double>(p.batch);
}

double share_known(const result::TraceRank& rank) {
  Time known{0}, all{0};
  for (const result::TraceOperator& op : rank.operators) {
    known += op.product ? op.time : Time(0);
  }
  for (const result::TraceKernel& kernel : rank.kernels) {
    all += kernel.kind == "gemm" ? kernel.time : Time(0);
  }
  return all > Time(0) ? to_seconds(known) / to_seconds(all) : 0;
}

}  // namespace

std::optional<ProfiledWork> profiled_work(const result::TraceRank& rank, const job::Job& job,
                                          const result::Report& report, int stage) {
  const auto step = trace::measured_step(rank);
  const auto here = times_of(report, stage);
  if (!step || step->steps < 1 || !here || here->dense <= 0 || share_known(rank) < kKnown) {
    return std::nullopt;
  }
  ProfiledWork out;
  double with_hidden = 0;
  for (const result::TraceOperator& op : rank.operators) {
    if (op.product) {
      const double flops = static_cast<double>(op.step_count) / step->steps * flops_of(*op.product);
      const std::array sizes = {op.product->m, op.product->n, op.product->k};
      out.measured += flops;
      with_hidden +=
          std::find(sizes.begin(), sizes.end(), job.model.hidden) != sizes.end() ? flops : 0;
    }
  }
  if (out.measured <= 0) {
    return std::nullopt;
  }
  out.with_hidden = with_hidden / out.measured;
  // Stages share the products as the forecast's times say.
  double all = 0;
  for (int s = 0; s < job.parallelism.pipeline; ++s) {
    const auto there = times_of(report, s);
    all += there ? there->dense + there->grouped : 0;
  }
  const double per_second = mean_products(job, report) * job.parallelism.pipeline / all;
  // Recomputation of attention alone adds no products, that of layers does.
  const double recomputed =
      report.mfu.value > 0 ? std::max(1.0, report.hfu.value / report.mfu.value) : 1;
  out.least = per_second * here->dense;
  out.most = per_second * (here->dense + here->grouped) * recomputed;
  return out;
}

WorkVerdict judge_work(const ProfiledWork& work, const job::Job& job) {
  // What lies within the job's own bounds differs by nothing.
  const double nearest = std::clamp(work.measured, work.least, work.most);
  const double ratio = work.measured / nearest;
  constexpr double kTera = 1e12;
  const std::string words =
      fmt::format("a step's products are {:.3g} TFLOP, {:.3g} times those of the job ({:.3g})",
                  work.measured / kTera, ratio, nearest / kTera);
  WorkVerdict out;
  if (ratio > kOther || ratio < 1 / kOther) {
    out.refused = words + ": the profile is of other work";
  } else if (ratio > kSame || ratio < 1 / kSame) {
    out.note = words + "; is it the same model, batch and parallelism?";
  } else if (work.with_hidden < kWithHidden) {
    out.note = fmt::format(
        "{:.0f} % of the products' work has the model's hidden size {} on no side: the profile may "
        "be of another model",
        100 * (1 - work.with_hidden), job.model.hidden);
  }
  return out;
}

}  // namespace stepcast::calibrate
