// Result of `simulate calibrate runs`: parameters of a site fitted to measured steps.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "stepcast/job/job.h"

namespace stepcast::result {

// One measured step: a job and the seconds it took, converted from what the row states.
struct MeasuredStep {
  std::string id;  // for reports; file and line where the row has no id
  std::string file;
  int line = 0;
  std::string date;  // as stated by the row; empty: not stated
  job::Job job;
  std::vector<double> seconds;  // repeats of the same job
};

struct SiteRow {
  std::string id, file;
  int line = 0;
  int gpus = 0;
  int repeats = 1;
  double measured = 0;  // seconds; the median of repeats
  double before = 0;    // forecast without the site
  double after = 0;     // with it
  double left_out = 0;  // forecast by a fit without this row; 0: fewer than 3 rows
  double weight = 1;    // below 1: an outlier, which counts for less
};

// A row held out of the fit, forecast with 90 % intervals without and with the site.
struct SiteCheck {
  std::string id, file;
  int line = 0;
  int gpus = 0;
  double measured = 0;
  double before = 0, before_low = 0, before_high = 0;
  double after = 0, after_low = 0, after_high = 0;
};

struct SiteSkipped {
  std::string id, file;
  int line = 0;
  std::string reason;
};

// Statistics of |forecast / measured - 1|.
struct SiteError {
  double median = 0;
  double worst = 0;
  double bias = 0;  // median of forecast / measured - 1
};

struct SiteFitted {
  std::string name;      // clock, launch, layer, overlap, fabric
  std::string words;     // "host time per kernel"
  bool seconds = false;  // its unit is seconds; else it is a factor
  double prior = 0, value = 0;
  double prior_deviation = 0, deviation = 0;  // relative; for `layer` in seconds
  bool determined = false;
  std::string reason;  // why it is not determined
};

struct SiteCalibration {
  std::string name, device, system, fabric;
  std::vector<SiteRow> rows;
  std::vector<SiteSkipped> skipped;
  std::vector<SiteFitted> parameters;
  SiteError before, after, left_out;
  double noise = 0;             // relative standard deviation assumed for one run
  bool noise_measured = false;  // `noise` comes from repeats; else it is the usual 2 %
  double discrepancy = 0;       // relative deviation of rows from the model, beyond noise
  std::vector<SiteCheck> checks;
  SiteError check_before, check_after;
  double covered_before = 0, covered_after = 0;  // share of checks inside their interval
  std::string refused;                           // why nothing was fitted
  std::string yaml;                              // the site file; empty: no parameter is determined
};

}  // namespace stepcast::result
