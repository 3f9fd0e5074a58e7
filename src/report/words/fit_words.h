// Whether memory is enough, as reports say it.
#pragma once

#include <string>

#include "../record/value.h"
#include "stepcast/result/fit.h"

namespace stepcast::report {

// The format of JSON documents that hold a `fits` object. In format 1 it was true or false.
inline constexpr int kFitSchema = 2;

// {"verdict": "likely", "probability": 0.83, "spare": 1234, "needed": {…}, "frees_cache": false},
// as result::Fit has them. The probability and what is needed are null where only a lower bound of
// memory is known.
Value fit_value(const result::Fit& fit);
std::string fit_verdict(const result::Fit& fit);  // "likely", "NO"
// True where the verdict alone does not say how sure it is.
bool is_in_doubt(const result::Fit& fit);
std::string chance(double probability);  // "83 %", "over 99 %"
// A cell of a table: "yes", "likely 83 %"; "likely 94 % if cache is freed" where that is so only
// because the allocator gives back its cache.
std::string fit_words(const result::Fit& fit);
// "it runs in 69.9 GiB, with the allocator giving back its cache"; "" where that makes no
// difference.
std::string cache_clause(const result::Fit& fit);
// "it fits with 37.6 GiB to spare".
std::string fit_clause(const result::Fit& fit);
// "83 %, 9.1 GiB to spare", and the clause about the cache.
std::string fit_remark(const result::Fit& fit);

}  // namespace stepcast::report
