// Forecasts all measured rows at once, with one Forecaster per thread.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "stepcast/cost/site.h"
#include "stepcast/forecast/forecaster.h"
#include "stepcast/result/report.h"

namespace stepcast::calibrate {

class RowForecasts {
 public:
  // `progress` is called with the number of calls of run(); it may be empty.
  RowForecasts(const std::filesystem::path& data, std::function<void(int)> progress);

  // The report of a job, or why it cannot be simulated.
  using Result = std::variant<result::Report, std::string>;
  // In the order of `jobs`. Throws InputError where a calibration file is at fault.
  std::vector<Result> run(const std::vector<const job::Job*>& jobs, const cost::Site& site);

 private:
  std::vector<std::unique_ptr<forecast::Forecaster>> forecasters_;
  std::function<void(int)> progress_;
  int evaluations_ = 0;
};

}  // namespace stepcast::calibrate
