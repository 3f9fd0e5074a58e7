// Compares the interval from sensitivities with the interval from sampling every uncertainty.
#include <cmath>

#include "catch.hpp"
#include "stepcast/config/config.h"
#include "stepcast/forecast/forecaster.h"
#include "stepcast/text/document.h"

using namespace stepcast;

TEST_CASE("half-widths from the critical path are those of sampled steps") {
  forecast::Forecaster forecaster(text::data_directory());
  const std::vector<std::vector<std::string>> jobs = {
      {"llama8b-fsdp"},
      {"llama70b", "cluster.nodes=4", "parallelism.pipeline=1", "parallelism.virtual_pipeline=1",
       "workload.global_batch=16", "model.layers=8"},
  };
  for (const auto& job : jobs) {
    INFO(job.front());
    const auto loaded =
        config::load(job.front(), std::vector<std::string>(job.begin() + 1, job.end()));
    forecast::Options options;
    const auto path = std::get<result::Report>(forecaster.forecast(loaded.job, options)).step_time;
    options.samples = 300;
    const auto drawn = std::get<result::Report>(forecaster.forecast(loaded.job, options)).step_time;
    CHECK(drawn.value == path.value);
    // A half-width from 300 draws has a deviation of about 6 % itself.
    CHECK((drawn.high - drawn.low) == Approx(path.high - path.low).epsilon(0.2));
  }
}
