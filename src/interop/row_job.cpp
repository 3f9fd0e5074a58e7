// A row's configuration as a job file. The table of the mapping and of the defaults is in this
// folder's README.
#include <cmath>

#include "row_builder.h"
#include "skips.h"

namespace stepcast::interop {

double RowJob::half_width() const {
  double squares = 0;
  for (const Assumption& a : assumptions) {
    squares += a.half_width * a.half_width;
  }
  return std::sqrt(squares);
}

double RowJob::memory_half_width() const {
  double squares = 0;
  for (const Assumption& a : assumptions) {
    squares += a.of_memory * a.of_memory;
  }
  return std::sqrt(squares);
}

std::variant<RowJob, Skipped> job_of(const RowConfiguration& configuration) {
  const Fields row(&configuration.fields);
  if (auto skipped = why_skipped(row)) {
    return *skipped;
  }
  RowBuilder builder(row);
  builder.write_model();
  if (auto skipped = builder.write_cluster()) {
    return *skipped;
  }
  builder.write_system();
  if (auto skipped = builder.write_workload()) {
    return *skipped;
  }
  builder.write_parallelism();
  builder.write_kernels();
  builder.write_memory();
  // Rows with launch flags are functional tests: one rank logs, from the process's start, on toy
  // models.
  builder.result.last_stage_only = builder.functional();
  builder.result.first_step_counts = builder.functional();
  builder.result.experts_alone = measures_experts(row);
  builder.result.timed = !builder.functional() && !builder.result.experts_alone;
  builder.result.yaml = builder.out.dump(2) + "\n";
  builder.out.erase("cluster");
  builder.result.experiment = builder.out.dump();
  return builder.result;
}

}  // namespace stepcast::interop
