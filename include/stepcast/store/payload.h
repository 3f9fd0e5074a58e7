// Payloads of stored points: values written as JSON and read back to the last bit; and the keys of jobs.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "stepcast/config/config.h"
#include "stepcast/result/fit.h"
#include "stepcast/text/document.h"

namespace stepcast::store {

// A number as JSON. JSON has no infinities: they are written as text.
std::string json_number(double value);
std::string json_text(std::string_view text);

// Whether memory is enough, and back.
std::string json_fit(const result::Fit& fit);
result::Fit fit_of(const text::Value& v);

// The value of `key`. Throws InputError where the map lacks it.
const text::Value& field(const text::Value& map, const char* key);
double number_of(const text::Value& v);
std::int64_t count_of(const text::Value& v);

// Identifies the job that a stored result belongs to: the resolved job, which of its keys were stated (an override may act
// differently on a default), and the calibration files that it names.
std::string job_key(const config::Loaded& job);

}  // namespace stepcast::store
