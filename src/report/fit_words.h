// Whether memory is enough, as reports say it.
#pragma once

#include <string>

#include "stepcast/result/fit.h"
#include "value.h"

namespace stepcast::report {

// The format of JSON documents that hold a `fits` object. In format 1 it was true or false.
inline constexpr int kFitSchema = 2;

// {"verdict": "likely", "probability": 0.83, "spare": 1234}: of the bytes that are left, below 0
// where they are missing. The probability is null where only a lower bound of memory is known.
Value fit_value(const result::Fit& fit);
std::string fit_verdict(const result::Fit& fit);  // "likely", "NO"
// True where the verdict alone does not say how sure it is.
bool is_in_doubt(const result::Fit& fit);
std::string chance(double probability);         // "83 %", "over 99 %"
std::string fit_words(const result::Fit& fit);  // "yes", "likely 83 %": a cell of a table

}  // namespace stepcast::report
