// Payloads of points: values as JSON and back, to the last bit; and keys of jobs.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "stepcast/config/config.h"
#include "stepcast/text/document.h"

namespace stepcast::store {

// Infinities have no JSON: every number that is none stands as text.
std::string json_number(double value);
std::string json_text(std::string_view text);

// Throws InputError where the map lacks `key`.
const text::Value& field(const text::Value& map, const char* key);
double number_of(const text::Value& v);
std::int64_t count_of(const text::Value& v);

// What a stored result is of: the job as resolved, which of its keys were written where, since overrides may act
// differently on a default, and the calibration files that it names.
std::string job_key(const config::Loaded& job);

}  // namespace stepcast::store
