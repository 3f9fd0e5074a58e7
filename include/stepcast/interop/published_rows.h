// Rows of published measurements (JSON lines), taken apart so that a forecast cannot see what was
// measured: a job is built from RowConfiguration alone, and that struct holds neither a measured
// value, nor the row's name, nor the model's.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "stepcast/text/document.h"

namespace stepcast::interop {

// Which row it is: for reports only.
struct RowIdentity {
  std::string id, source, file;
  int line = 0;
};

// What the row states of the run, as written: every field but those of the other structs.
struct RowConfiguration {
  text::Value fields;
};

// What a forecast is converted to.
struct RowOutput {
  std::string metric;       // iteration_s, tflops_per_gpu, ...
  std::string memory_kind;  // allocated | active | reserved | process; empty: not stated
  std::string flops;        // a convention of model::FlopConvention; empty: ours
};

// What was measured.
struct RowMeasured {
  text::Value value;
  text::Value others;  // other_metrics
};

struct PublishedRow {
  RowIdentity identity;
  RowConfiguration configuration;
  RowOutput output;
  RowMeasured measured;
};

// Throws InputError with the place of what is no row.
std::vector<PublishedRow> read_rows(const std::filesystem::path& file);
PublishedRow take_apart(const text::Value& row, const std::string& file);

// A fact that the row leaves open: what is assumed, and by how much (relative, half width of 90 %)
// the forecasts of time and of memory may be off for it.
struct Assumption {
  std::string what;
  double half_width = 0;
  double of_memory = 0;
};

struct RowJob {
  std::string yaml;        // a job file
  std::string experiment;  // the same without the machine: model, parallelism and implementation
  std::vector<Assumption> assumptions;
  bool micro_batch_open = false;        // not stated and not implied: the largest that fits
  std::int64_t sequences_per_rank = 0;  // global batch over data-parallel ranks: what a micro-batch must divide
  bool last_stage_only = false;         // memory was read on the last pipeline rank
  bool first_step_counts = false;       // peaks since the start of the process: the first step's count too
  bool experts_alone = false;           // no step: a mixture of experts by itself
  bool timed = true;                    // its iteration times mean something
  double half_width() const;            // of all assumptions together
  double memory_half_width() const;
};

// Why a row has no job: `kind` is one of skip_reasons(), `detail` what the row says.
struct Skipped {
  std::string_view kind;
  std::string detail;
  std::string text() const;
};

struct SkipReason {
  std::string_view kind;
  std::string_view meaning;
  bool accepted = true;  // not counted against the share of rows that are simulated
};

// The reasons to leave a row out (what `simulate validate --list` prints).
std::span<const SkipReason> skip_reasons();

// The README of src/interop has the mapping and the defaults.
std::variant<RowJob, Skipped> job_of(const RowConfiguration& configuration);

// One measured quantity in SI units, under the name that the validation JSON gives it.
struct Measurement {
  std::string metric;  // step_time, throughput, mfu, hfu, peak_memory, steady_memory, layer_time, layer_forward_time,
                       // layer_backward_time, oom
  std::string unit;    // throughput: flops_per_gpu, tokens_per_gpu, samples, samples_per_gpu
  double value = 0;
  bool primary = false;
  std::string memory_kind;
  std::optional<int> rank;
};

// Every quantity of the row that a forecast also gives, the row's own metric first.
std::vector<Measurement> measurements(const PublishedRow& row, const RowJob& job);

}  // namespace stepcast::interop
