// Jobs that leave open what decides whether they fit.
#pragma once

#include <string>

#include "stepcast/forecast/forecaster.h"

namespace stepcast::forecast {

struct Settled {
  job::Job job;
  std::string note;  // what was chosen, for the report; empty: nothing was
};

// A job that lists memory.recompute among `assumed` as it would be run: with the recomputation that it has where that fits,
// else with whole layers again, else with their inputs on the host besides: the first that fits. Where nothing does, and of
// any other job, the job itself. Makes a forecast for each of these that it tries, of such jobs alone.
Settled settled(Forecaster& forecaster, const job::Job& job);

}  // namespace stepcast::forecast
