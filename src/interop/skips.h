// Rows that have no job.
#pragma once

#include <optional>

#include "fields.h"
#include "stepcast/interop/published_rows.h"

namespace stepcast::interop {

std::optional<Skipped> why_skipped(Fields row);

}  // namespace stepcast::interop
