// From a forecast to the quantities that a run measured.
#include <algorithm>
#include <cmath>

#include "stepcast/base/interval.h"
#include "stepcast/model/count.h"
#include "stepcast/validate/compare.h"

namespace stepcast::validate {
namespace {

using model::FlopConvention;
using result::Estimate;
using runs::MemoryKind;
using runs::Quantity;

// The SC21 formula counts the recomputed forward pass: it holds only where everything is
// recomputed.
FlopConvention convention_of(FlopConvention stated, const job::Job& job) {
  const bool full = job.memory.recompute.kind == job::Recompute::Kind::full ||
                    job.memory.recompute.kind == job::Recompute::Kind::uniform;
  return stated == FlopConvention::sc21_hardware && !full ? FlopConvention::sc21_model : stated;
}

// FLOPs that the hardware executes, with the recomputed forward pass counted as the convention
// does.
double hardware_flops(const job::Job& job, FlopConvention convention) {
  const double model = model::step_flops(job, convention).count();
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

Bytes reading_of(const result::StageMemory& stage, const runs::Measurement& measured) {
  if (measured.quantity == Quantity::steady_memory) {
    return stage.steady;
  }
  const Bytes first = measured.since_start ? stage.first_step_peak : Bytes(0);
  switch (measured.kind) {
    case MemoryKind::process:
      return std::max(first, stage.process);
    case MemoryKind::reserved:
      return std::max(first, stage.reserved);
    case MemoryKind::active:
      return std::max(first, stage.active);
    case MemoryKind::allocated:
      break;
  }
  return std::max(first, stage.allocated);
}

double deviation_of(const result::StageMemory& stage, const runs::Measurement& measured) {
  if (measured.quantity == Quantity::steady_memory) {
    return stage.allocated_deviation;
  }
  switch (measured.kind) {
    case MemoryKind::process:
      return stage.process_deviation;
    case MemoryKind::reserved:
      return stage.reserved_deviation;
    case MemoryKind::active:
    case MemoryKind::allocated:
      break;
  }
  return stage.allocated_deviation;
}

std::optional<Estimate> memory(const RunForecast& f, const runs::Measurement& measured) {
  const result::StageMemory* stage = measured_stage(f, measured);
  if (stage == nullptr) {
    return std::nullopt;
  }
  const auto value = static_cast<double>(reading_of(*stage, measured).count());
  const double half = kDeviations90 * deviation_of(*stage, measured) * value;
  return Estimate{value, std::max(0.0, value - half), value + half};
}

std::optional<Estimate> raw_prediction(const RunForecast& f, const runs::Measurement& measured,
                                       const runs::Run& run) {
  switch (measured.quantity) {
    case Quantity::step_time:
      return f.report.step_time;
    case Quantity::peak_memory:
    case Quantity::steady_memory:
      return memory(f, measured);
    case Quantity::outcome: {
      const double failed = f.report.fits ? 0.0 : 1.0;
      return Estimate{failed, failed, failed};
    }
    case Quantity::layer_time:
    case Quantity::experts_time:
      return f.layer ? std::optional(f.layer->both) : std::nullopt;
    case Quantity::layer_forward_time:
    case Quantity::experts_forward_time:
      return f.layer ? std::optional(f.layer->forward) : std::nullopt;
    case Quantity::layer_backward_time:
    case Quantity::experts_backward_time:
      return f.layer ? std::optional(f.layer->backward) : std::nullopt;
    default:
      break;
  }
  const auto amount = amount_of_a_step(f.job, measured.quantity, run.flops);
  return amount ? rate(*amount, f.report.step_time) : std::nullopt;
}

}  // namespace

const result::StageMemory* measured_stage(const RunForecast& f, const runs::Measurement& measured) {
  const auto& stages = f.report.memory;
  if (stages.empty()) {
    return nullptr;
  }
  if (measured.rank) {
    const auto count = static_cast<int>(stages.size());
    const int ranks_of_a_stage = std::max(1, f.job.cluster.ranks() / count);
    const int stage = std::min(*measured.rank / ranks_of_a_stage, count - 1);
    return &stages[static_cast<std::size_t>(stage)];
  }
  return &*std::max_element(stages.begin(), stages.end(), [&](const auto& a, const auto& b) {
    return reading_of(a, measured) < reading_of(b, measured);
  });
}

std::optional<double> amount_of_a_step(const job::Job& job, Quantity quantity,
                                       FlopConvention flops) {
  const double gpus = job.cluster.ranks();
  const auto sequences = static_cast<double>(job.workload.global_batch);
  const double tokens = sequences * static_cast<double>(job.workload.sequence_length);
  const FlopConvention convention = convention_of(flops, job);
  switch (quantity) {
    case Quantity::tokens_per_second:
      return tokens;
    case Quantity::tokens_per_second_per_gpu:
      return tokens / gpus;
    case Quantity::sequences_per_second:
      return sequences;
    case Quantity::sequences_per_second_per_gpu:
      return sequences / gpus;
    case Quantity::model_flops_per_second_per_gpu:
      return model::step_flops(job, convention).count() / gpus;
    case Quantity::mfu:
    case Quantity::hfu: {
      const double peak = peak_rate(job) * gpus;
      if (!(peak > 0)) {
        return std::nullopt;
      }
      const double counted = quantity == Quantity::hfu ? hardware_flops(job, convention)
                             : convention == FlopConvention::sc21_hardware
                                 ? model::step_flops(job, FlopConvention::sc21_model).count()
                                 : model::step_flops(job, convention).count();
      return counted / peak;
    }
    default:
      return std::nullopt;
  }
}

std::optional<Estimate> predict(const RunForecast& f, const runs::Measurement& measured,
                                const runs::Run& run) {
  return raw_prediction(f, measured, run);
}

}  // namespace stepcast::validate
