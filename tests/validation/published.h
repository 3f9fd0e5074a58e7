// What the tests of published measurements share: each file forecast once a program, and its
// recorded bands.
#pragma once

#include <string>

#include "stepcast/result/validation.h"

namespace stepcast::test {

// Of a file in tests/validation.
const result::Validation& forecasts_of(const std::string& file);

// Every quantity of the file has a band in bands.yaml, is no further off in the mean than it
// allows, and is simulated for no fewer rows than it records.
void check_bands(const std::string& file);

}  // namespace stepcast::test
