// LAW     t = (fixed^p + S^p)^(1/p), S = min(b, resident)/(gain R) + max(0, b - resident)/R,
//         R = share of the data sheet's bandwidth. p (ramp) 1: the transfer follows
//         the start; larger: they overlap. resident: bytes that stay in L2, which move
//         faster by the factor `gain`.
//         Backward passes by parameters of their own, where they were measured.
// SOURCE  parameters are fitted (memory_fit.h) to measured points: calibration/*/memory.yaml
// VALID   from a few KiB to the device's memory
#pragma once

#include "calibration_file.h"

namespace stepcast::cost {

// `bandwidth`: the data sheet's, bytes/s.
double memory_seconds(const MemoryPass& curve, double bandwidth, double bytes);

}  // namespace stepcast::cost
