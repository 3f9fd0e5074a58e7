// Options that forecasts, searches and sweeps share.
#pragma once

#include <string>

#include "stepcast/forecast/forecaster.h"
#include "stepcast/search/search.h"

namespace stepcast::cli {

forecast::Fidelity fidelity_of(const std::string& name);
search::Objective objective_of(const std::string& name);

}  // namespace stepcast::cli
