// simulate --program: the forecast of a captured program.
#pragma once

#include <string>
#include <vector>

#include "../command_line/arguments.h"
#include "stepcast/config/config.h"
#include "stepcast/forecast/forecaster.h"

namespace stepcast::cli {

struct ProgramOptions {
  std::string file;
  std::string tokens;  // of a step
  std::string host_scale;
};

void add_program_options(Command& app, ProgramOptions& given);
// Throws InputError where --tokens comes without --program.
void refuse_without_program(const ProgramOptions& given);

struct CapturedForecast {
  config::Loaded on;  // a job of nothing but the cluster, and what NCCL is forced to
  result::Report report;
  std::vector<int> recorded;  // ranks, by program
};
// `nodes`: 0: as many as the captured ranks need. `overrides`: keys below cluster or nccl.
CapturedForecast forecast_program(const ProgramOptions& given, const std::string& cluster,
                                  int nodes, const std::vector<std::string>& overrides,
                                  const forecast::Options& options);

}  // namespace stepcast::cli
