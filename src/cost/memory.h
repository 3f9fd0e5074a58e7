// LAW     t = (F^p + S^p)^(1/p), F = fixed + min(b, start)/start_rate,
//         S = min(b, resident)/(gain R) + max(0, b - resident)/R,
//         R = share of the data sheet's bandwidth. p (ramp) 1: the transfer follows
//         the start; larger: they overlap. resident: bytes that stay in L2, which move
//         faster by the factor `gain`. start: bytes up to which few SMs work: one block of a
//         multi-tensor optimizer takes 65,536 elements whatever their number, and the partial sums
//         of a norm's weight gradients grow with the rows until every SM has some.
//         Backward passes by parameters of their own, where they were measured.
//         A fused causal softmax holds a row of r elements in the registers of a warp, 2^ceil(lg r)
//         of them: b becomes b (moved 128 ceil(r/128) + wide max(0, 2^ceil(lg r) - 1024))/r. moved:
//         the triangle is read and the whole row written, 3/4 of the forward pass's bytes and 2/3
//         of the backward pass's. Rows beyond 1,024 elements take more than 32 registers a thread
//         and array, and each iteration is issued whether the row reaches it or not (colossalai
//         0.3.3, kernel/cuda_native/csrc/scaled_upper_triang_masked_softmax.h:134-345, as
//         Megatron-LM's).
// SOURCE  parameters are fitted (memory_fit.h) to measured points: calibration/*/memory.yaml
// VALID   from a few KiB to the device's memory
#pragma once

#include "calibration_file.h"

namespace stepcast::cost {

// `bandwidth`: the data sheet's, bytes/s.
// `row`: elements of a row, where the kernel's time depends on it; 0: not stated.
double memory_seconds(const MemoryPass& curve, double bandwidth, double bytes, double row = 0);

}  // namespace stepcast::cost
