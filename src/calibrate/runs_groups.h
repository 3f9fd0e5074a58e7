// Prepares measured steps for a fit: selects rows, and groups those that repeat one job.
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

// Keeps the rows whose property `of` is `wanted` and skips the others. Where `wanted` is empty, all
// rows must have the same property; else throws InputError, which names `option`.
void choose(std::vector<result::MeasuredStep>& steps, result::SiteCalibration& out,
            const char* what, const char* option, const std::string& wanted,
            std::string (*of)(const result::MeasuredStep&));

// Groups rows of the same job as repeats. Sets the noise of a single run, from repeats where there
// are enough. The groups refer to `steps`.
std::vector<RepeatedRun> group(const std::vector<result::MeasuredStep>& steps,
                               result::SiteCalibration& out);

// For each parameter (runs_select.h) the reason that the rows' jobs cannot determine it, known
// before any fit; empty: there is none.
std::vector<std::string> structural(const std::vector<RepeatedRun>& groups);

// The fabric of the rows on several nodes; if all rows are on one node, the fabric that they state.
std::string fabric_of(const std::vector<RepeatedRun>& groups);

}  // namespace stepcast::calibrate
