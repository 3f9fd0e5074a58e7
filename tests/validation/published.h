// Common parts of the tests of published measurements: each file is forecast once per program, and
// its recorded bands are checked.
#pragma once

#include <string>

#include "stepcast/result/validation.h"

namespace stepcast::test {

// The forecasts of a file in tests/validation.
const result::Validation& forecasts_of(const std::string& file);

// Checks that every quantity of the file has a band in bands.yaml, that its mean error is within
// the band, and that at least the recorded number of rows is simulated.
void check_bands(const std::string& file);

}  // namespace stepcast::test
