// A measured run: a job, and what a step of it took or how much memory it needed, as users and publications state it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "stepcast/base/spelling.h"
#include "stepcast/config/config.h"
#include "stepcast/model/count.h"
#include "stepcast/terms/number_format.h"
#include "stepcast/text/document.h"

namespace stepcast::runs {

// What was measured: seconds, rates a second, fractions, bytes. The words are the keys of `measured`.
enum class Quantity {
  step_time,
  tokens_per_second,
  tokens_per_second_per_gpu,
  sequences_per_second,
  sequences_per_second_per_gpu,
  model_flops_per_second_per_gpu,
  mfu,
  hfu,
  layer_time,  // of one layer by itself: both passes, or one of them
  layer_forward_time,
  layer_backward_time,
  experts_time,  // of the mixture of experts of one layer by itself
  experts_forward_time,
  experts_backward_time,
  peak_memory,
  steady_memory,
  outcome  // 0: the run finished a step; 1: it ran out of memory
};

constexpr auto spellings(Quantity) {
  return std::to_array<Spelling<Quantity>>({{Quantity::step_time, "step_time"},
                                            {Quantity::tokens_per_second, "tokens_per_second"},
                                            {Quantity::tokens_per_second_per_gpu, "tokens_per_second_per_gpu"},
                                            {Quantity::sequences_per_second, "sequences_per_second"},
                                            {Quantity::sequences_per_second_per_gpu, "sequences_per_second_per_gpu"},
                                            {Quantity::model_flops_per_second_per_gpu, "model_flops_per_second_per_gpu"},
                                            {Quantity::mfu, "mfu"},
                                            {Quantity::hfu, "hfu"},
                                            {Quantity::layer_time, "layer_time"},
                                            {Quantity::layer_forward_time, "layer_forward_time"},
                                            {Quantity::layer_backward_time, "layer_backward_time"},
                                            {Quantity::experts_time, "experts_time"},
                                            {Quantity::experts_forward_time, "experts_forward_time"},
                                            {Quantity::experts_backward_time, "experts_backward_time"},
                                            {Quantity::peak_memory, "peak_memory"},
                                            {Quantity::steady_memory, "steady_memory"},
                                            {Quantity::outcome, "outcome"}});
}

// Where a quantity of memory was read: the allocator's live tensors, those and blocks that wait for a stream, its segments,
// or the whole process (nvidia-smi).
enum class MemoryKind { allocated, active, reserved, process };

constexpr auto spellings(MemoryKind) {
  return std::to_array<Spelling<MemoryKind>>({{MemoryKind::allocated, "allocated"},
                                              {MemoryKind::active, "active"},
                                              {MemoryKind::reserved, "reserved"},
                                              {MemoryKind::process, "process"}});
}

enum class Outcome { ran, out_of_memory };

constexpr auto spellings(Outcome) {
  return std::to_array<Spelling<Outcome>>({{Outcome::ran, "ran"}, {Outcome::out_of_memory, "out of memory"}});
}

bool is_rate(Quantity q);        // a rate or utilisation of the whole step
bool is_of_layer(Quantity q);    // of one layer or its experts by themselves
bool is_of_experts(Quantity q);  // of the experts alone
bool is_of_memory(Quantity q);   // bytes, or whether the run fits

struct Measurement {
  Quantity quantity = Quantity::step_time;
  std::vector<double> values;  // SI units; several: repeats of step_time
  MemoryKind kind = MemoryKind::allocated;
  std::optional<int> rank{};  // of memory; not set: the fullest rank
  bool since_start = false;   // of memory: the peak since the process started, so that the first step counts too

  double value() const;  // the median of the repeats
};

// A fact that the source does not state: the job's value is an assumption, and the forecast's interval is wider for it.
struct Assumption {
  std::string key;  // of the job: "kernels.attention"
  std::string why;
};

// One operator measured by itself, outside a model.
struct OperatorCase {
  std::string kernel;    // "swiglu"
  std::string provider;  // whose: "liger", "huggingface", "torch", "megatron"
  std::string mode;      // full, forward, backward
  std::string device;
  DType dtype = DType::bf16;
  std::map<std::string, std::int64_t> sizes;  // the benchmark's own names: B, T, V, hidden_size

  // 0 where the run does not state it.
  std::int64_t size(const std::string& name) const {
    const auto at = sizes.find(name);
    return at == sizes.end() ? 0 : at->second;
  }
};

struct Run {
  std::string id;  // "line 3" where the run states none
  std::string source, date, file;
  Origin origin;  // of the line
  // The job as it is written; job_of() reads it. Empty for an operator.
  std::optional<text::Value> document;  // of `job`
  std::string config;                   // of `config`: a path, or a name in configs/
  Origin job_origin;                    // of the value of `job` or `config`
  std::vector<std::string> overrides;   // of `set`
  std::optional<OperatorCase> op;
  std::vector<Measurement> measured;  // never empty; the first is the run's primary quantity
  model::FlopConvention flops = model::FlopConvention::megatron_causal;
  std::vector<Assumption> assumed;

  // The source states no micro-batch: it is the largest that fits, with stages the fastest that does.
  bool micro_batch_open() const;
  // The source does not state what was recomputed.
  bool recompute_open() const;
};

// The run's job as it is written, read as any job is but not judged. Throws InputError where that is bad input; every fault
// has a line, at least the run's.
config::Loaded stated_job(const Run& run, const std::vector<std::string>& more_overrides = {});

// The run's job, read and judged as any job is. Throws InputError likewise, also where no such job can run.
config::Loaded job_of(const Run& run, const std::vector<std::string>& more_overrides = {});

// The run's job as text, without its cluster where `machine` is false: equal texts are equal jobs.
std::string text_of(const Run& run, bool machine);

}  // namespace stepcast::runs
