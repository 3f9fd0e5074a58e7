#include "runs_forecasts.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <utility>

#include "stepcast/base/threads.h"

namespace stepcast::calibrate {
namespace {

RowForecasts::Result one(forecast::Forecaster& forecaster, const job::Job& job,
                         const cost::Site& site) {
  try {
    forecast::Options options;
    options.site = &site;
    options.allocator = forecast::Allocator::rule;  // only times are compared
    auto outcome = forecaster.forecast(job, options);
    if (const auto* why = std::get_if<Infeasible>(&outcome)) {
      return fmt::format("cannot be simulated: {}: {}", why->key, why->reason);
    }
    return std::get<result::Report>(std::move(outcome));
  } catch (const InputError&) {
    throw;  // the fault lies in a calibration file and not in this row
  } catch (const std::exception& error) {
    const std::string text = error.what();
    return fmt::format("cannot be simulated: {}", text.substr(0, text.find('\n')));
  }
}

}  // namespace

RowForecasts::RowForecasts(const std::filesystem::path& data, std::function<void(int)> progress)
    : progress_(std::move(progress)) {
  const unsigned threads = std::clamp(std::thread::hardware_concurrency(), 1U, 16U);
  for (unsigned i = 0; i < threads; ++i) {
    forecasters_.push_back(std::make_unique<forecast::Forecaster>(data));
  }
}

std::vector<RowForecasts::Result> RowForecasts::run(const std::vector<const job::Job*>& jobs,
                                                    const cost::Site& site) {
  std::vector<Result> out(jobs.size(), std::string());
  std::atomic<std::size_t> next{0}, thread{0};
  on_threads(std::min(forecasters_.size(), jobs.size()), [&](const std::atomic<bool>& failed) {
    forecast::Forecaster& mine = *forecasters_[thread++];
    for (std::size_t i = next++; i < jobs.size() && !failed; i = next++) {
      out[i] = one(mine, *jobs[i], site);
    }
  });
  if (progress_) {
    progress_(++evaluations_);
  }
  return out;
}

}  // namespace stepcast::calibrate
