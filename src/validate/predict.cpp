// Derives from a forecast the number that a published row reports.
#include <algorithm>
#include <cmath>

#include "stepcast/model/count.h"
#include "stepcast/validate/published.h"

namespace stepcast::validate {
namespace {

using model::FlopConvention;
using result::Estimate;

constexpr std::pair<const char*, FlopConvention> kConventions[] = {
    {"sc21_hardware", FlopConvention::sc21_hardware},
    {"sc21_model", FlopConvention::sc21_model},
    {"korthikanti_model", FlopConvention::korthikanti_model},
    {"palm", FlopConvention::palm},
    {"palm_both_embeddings", FlopConvention::palm_both_embeddings},
    {"megatron_full", FlopConvention::megatron_full},
    {"megatron_causal", FlopConvention::megatron_causal},
};

FlopConvention convention_of(const std::string& name, const job::Job& job) {
  for (const auto& [known, convention] : kConventions) {
    if (name == known) {
      // The SC21 formula counts the recomputed forward pass, so it applies only to full
      // recomputation.
      const bool full = job.memory.recompute.kind == job::Recompute::Kind::full ||
                        job.memory.recompute.kind == job::Recompute::Kind::uniform;
      return convention == FlopConvention::sc21_hardware && !full ? FlopConvention::sc21_model
                                                                  : convention;
    }
  }
  return FlopConvention::megatron_causal;
}

double step_flops(const job::Job& job, FlopConvention convention) {
  return model::step_flops(job.model, job.workload.sequence_length,
                           static_cast<double>(job.workload.global_batch), convention)
      .count();
}

// FLOPs that the hardware executes, with the recomputed forward pass counted as the convention
// does.
double hardware_flops(const job::Job& job, FlopConvention convention) {
  const double model = step_flops(job, convention);
  if (convention == FlopConvention::sc21_hardware) {
    return model;
  }
  switch (job.memory.recompute.kind) {
    case job::Recompute::Kind::full:
    case job::Recompute::Kind::uniform:
      return model * 4 / 3;
    case job::Recompute::Kind::selective:
      if (convention == FlopConvention::korthikanti_model) {
        // arXiv 2205.05198 eq. 9 prints s/3h where the model's FLOPs have s/6h, which adds 72 B L s
        // h^2 * s/6h.
        const auto s = static_cast<double>(job.workload.sequence_length);
        return model + 12.0 * static_cast<double>(job.workload.global_batch) * job.model.layers *
                           s * s * static_cast<double>(job.model.hidden);
      }
      return model;
    default:
      return model;
  }
}

double peak_rate(const job::Job& job) {
  const auto& peaks = job.cluster.device.peak;
  for (const job::DType type :
       {job.workload.precision, job::DType::bf16, job::DType::fp16, job::DType::fp32}) {
    if (const auto found = peaks.find(type); found != peaks.end()) {
      return found->second.count();
    }
  }
  return 0;
}

// Turns a time into a rate. The ends of the interval change places.
std::optional<Estimate> rate(double amount, const Estimate& time) {
  if (!(time.low > 0)) {
    return std::nullopt;
  }
  return Estimate{amount / time.value, amount / time.high, amount / time.low};
}

std::optional<Estimate> memory(const RowForecast& f, const interop::Measurement& measured) {
  const auto& stages = f.report.memory;
  if (stages.empty()) {
    return std::nullopt;
  }
  const auto of_stage = [&](const result::StageMemory& stage) {
    if (measured.metric == "steady_memory") {
      return stage.steady;
    }
    const std::string& kind = measured.memory_kind;
    const Bytes first = f.row.first_step_counts ? stage.first_step_peak : Bytes(0);
    return std::max(first, kind == "process"    ? stage.process
                           : kind == "reserved" ? stage.reserved
                           : kind == "active"   ? stage.active
                                                : stage.allocated);
  };
  Bytes bytes(0);
  if (measured.rank || f.row.last_stage_only) {
    const int ranks = f.job.cluster.ranks();
    const int rank = measured.rank.value_or(ranks - 1);
    const auto per_stage = std::max<int>(1, ranks / static_cast<int>(stages.size()));
    bytes = of_stage(stages[std::min<std::size_t>(static_cast<std::size_t>(rank / per_stage),
                                                  stages.size() - 1)]);
  } else {
    for (const auto& stage : stages) {
      bytes = std::max(bytes, of_stage(stage));
    }
  }
  const auto value = static_cast<double>(bytes.count());
  const Estimate& peak = f.report.peak;  // the parts get the relative interval of the whole peak
  if (!(peak.value > 0)) {
    return Estimate{value, value, value};
  }
  return Estimate{value, value * peak.low / peak.value, value * peak.high / peak.value};
}

std::optional<Estimate> raw_prediction(const RowForecast& f, const interop::Measurement& measured,
                                       const interop::RowOutput& output) {
  const Estimate& time = f.report.step_time;
  const double gpus = f.job.cluster.ranks();
  const auto sequences = static_cast<double>(f.job.workload.global_batch);
  const double tokens = sequences * static_cast<double>(f.job.workload.sequence_length);
  const FlopConvention convention = convention_of(output.flops, f.job);
  if (measured.metric == "step_time") {
    return time;
  }
  if (measured.metric == "throughput") {
    const double amount = measured.unit == "flops_per_gpu"    ? step_flops(f.job, convention) / gpus
                          : measured.unit == "tokens_per_gpu" ? tokens / gpus
                          : measured.unit == "tokens"         ? tokens
                          : measured.unit == "samples"        ? sequences
                                                              : sequences / gpus;
    return rate(amount, time);
  }
  if (measured.metric == "mfu" || measured.metric == "hfu") {
    const double peak = peak_rate(f.job) * gpus;
    if (!(peak > 0)) {
      return std::nullopt;
    }
    const double flops = measured.metric == "hfu" ? hardware_flops(f.job, convention)
                         : convention == FlopConvention::sc21_hardware
                             ? step_flops(f.job, FlopConvention::sc21_model)
                             : step_flops(f.job, convention);
    return rate(flops / peak, time);
  }
  if (f.layer && measured.metric == "layer_time") {
    return f.layer->both;
  }
  if (f.layer && measured.metric == "layer_forward_time") {
    return f.layer->forward;
  }
  if (f.layer && measured.metric == "layer_backward_time") {
    return f.layer->backward;
  }
  if (measured.metric == "peak_memory" || measured.metric == "steady_memory") {
    return memory(f, measured);
  }
  if (measured.metric == "oom") {
    const double out = f.report.fits ? 0.0 : 1.0;
    return Estimate{out, out, out};
  }
  return std::nullopt;
}

}  // namespace

std::optional<Estimate> predict(const RowForecast& f, const interop::Measurement& measured,
                                const interop::RowOutput& output) {
  auto e = raw_prediction(f, measured, output);
  if (!e || measured.metric == "oom" || !(e->value > 0)) {
    return e;
  }
  // Settings that the row does not state widen the interval. They are independent of the forecast's
  // own error, so the widths add in quadrature.
  const bool memory = measured.metric == "peak_memory" || measured.metric == "steady_memory";
  const double open = memory ? f.row.memory_half_width() : f.row.half_width();
  const double below = (e->value - e->low) / e->value;
  const double above = (e->high - e->value) / e->value;
  e->low = e->value * std::max(0.0, 1 - std::hypot(below, open));
  e->high = e->value * (1 + std::hypot(above, open));
  return e;
}

}  // namespace stepcast::validate
