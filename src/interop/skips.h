// Rows that have no job.
#pragma once

#include <optional>

#include "fields.h"
#include "stepcast/interop/published_rows.h"

namespace stepcast::interop {

std::optional<Skipped> why_skipped(Fields row);

// Whether the row measures a mixture of experts by itself: a layer without attention, norm and
// residual.
bool measures_experts(Fields row);

}  // namespace stepcast::interop
