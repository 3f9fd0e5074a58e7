// How long a case will take, from the data sheet: what the budget is planned with.
#pragma once

#include <cstdint>

#include "harness/abilities.h"
#include "harness/device.h"

namespace stepcast::harness {

// Seconds of one execution, and bytes of device memory that the case holds.
double seconds_once(const interop::GpuCase& what, const Abilities& on);
std::int64_t memory_of(const interop::GpuCase& what);

// Seconds of the whole case: set-up, warm-up and repetitions.
double estimate(const interop::GpuCase& what, const Abilities& on, const Policy& policy);

}  // namespace stepcast::harness
