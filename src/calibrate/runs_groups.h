// Measured steps before anything is fitted: which rows are taken, and which of them repeat one job.
#pragma once

#include <string>
#include <vector>

#include "stepcast/result/site_calibration.h"

namespace stepcast::calibrate {

// The rows of one job.
struct RepeatedRun {
  const result::MeasuredStep* step = nullptr;  // one of them
  double measured = 0;                         // seconds, the median
  int repeats = 1;
};

std::string device_of(const result::MeasuredStep& s);
std::string system_of(const result::MeasuredStep& s);

result::SiteSkipped skip(const result::MeasuredStep& s, std::string reason);

// Keeps the rows whose property `of` is `wanted` and skips the others. Where nothing is wanted, all
// must agree: throws InputError, naming `option`, where they do not.
void choose(std::vector<result::MeasuredStep>& steps, result::SiteCalibration& out,
            const char* what, const char* option, const std::string& wanted,
            std::string (*of)(const result::MeasuredStep&));

// Rows of one job are repeats. Sets the noise of a single run: from repeats where there are enough.
// The groups refer to `steps`.
std::vector<RepeatedRun> group(const std::vector<result::MeasuredStep>& steps,
                               result::SiteCalibration& out);

// By parameter (runs_select.h), why the rows' jobs rule it out before anything is fitted; empty:
// they do not.
std::vector<std::string> structural(const std::vector<RepeatedRun>& groups);

// The fabric between nodes; of rows of one node alone, the one that they state.
std::string fabric_of(const std::vector<RepeatedRun>& groups);

}  // namespace stepcast::calibrate
