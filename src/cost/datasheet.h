// Kernel curves of a device without measurements: the rates of its data sheet times the shares of
// them that measured devices reach.
#pragma once

#include <filesystem>

#include "calibration_file.h"

namespace stepcast::cost {

// Relative standard deviations of a prediction from a data sheet: the errors of these shares on
// the devices that were measured (tests/unit/cost_kernels: GEMM 0.06 to 0.22), rounded up.
inline constexpr double kDatasheetGemmResidual = 0.23;
inline constexpr double kDatasheetAttentionResidual = 0.25;
inline constexpr double kDatasheetMemoryResidual = 0.15;

// Seconds to start one transfer: cudaMemcpyAsync and the copy engine. Not published for these
// devices; SuperBench's A100 events take 5.5 to 5.9 us (tests/analyzer/test_results.jsonl), a copy
// some more.
inline constexpr double kCopyLatency = 8e-6;

GemmCurve datasheet_gemm(const job::Device& device, job::DType dtype);
AttentionCurve datasheet_attention(const job::Device& device, job::AttentionKernel kernel,
                                   job::DType dtype);
MemoryCurve datasheet_memory(MemoryOp op);
// Curve of copies over the device's host link; its bandwidth is 0 where the data sheet states none.
CopyCurve datasheet_copy(const job::Device& device, CopyDirection direction, bool pinned);

// The data sheet's dense peak; a dtype that it does not list runs at the peak of the next wider one
// that it lists.
double peak_flops(const job::Device& device, job::DType dtype);
// A device's peak over that of the device of its name in configs/, on which curves of that name
// were measured; 1 where there is none.
double over_catalogue(const job::Device& device, job::DType dtype,
                      const std::filesystem::path& calibration_dir);
// The same of its memory's bandwidth.
double memory_over_catalogue(const job::Device& device,
                             const std::filesystem::path& calibration_dir);
// The same of its host link's.
double host_link_over_catalogue(const job::Device& device,
                                const std::filesystem::path& calibration_dir);
// W of the device of its name in configs/; 0 where there is none.
double rated_power(const job::Device& device, const std::filesystem::path& calibration_dir);
int sms_of(const job::Device& device);

}  // namespace stepcast::cost
