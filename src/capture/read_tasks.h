// Reader of a rank's tasks.
#pragma once

#include "stepcast/capture/capture.h"
#include "stepcast/text/document.h"

namespace stepcast::capture {

// An integer from `least` to `most`; InputError that names `what` otherwise.
std::int64_t whole(const text::Value& v, std::int64_t least, std::int64_t most, const char* what);

// One task of a rank whose other parts are known. InputError at what is wrong.
Task read_task(const text::Value& v, const Rank& rank);

}  // namespace stepcast::capture
