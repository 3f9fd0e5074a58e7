// Predicted kernels beside measured ones.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "stepcast/job/job.h"
#include "stepcast/result/validation.h"

namespace stepcast::validate {

// A CSV of GEMMs (gpu, dtype, m, n, k, batch, time_us; kernel, layout, out_dtype), of attention
// (gpu, kernel, dtype, batch, seqlen, heads, head_dim, causal, and time_us or fwd_tflops and
// bwd_tflops), of fused layers of experts (gpu, dtype, num_tokens, hidden, inter, topk, experts,
// time_us; tp, ep, distribution) or of memory-bound operators (gpu, op, dtype, time_us, and
// bytes_moved or tokens and hidden); more columns are ignored. Or JSON lines of calibrate-gpu.
// `library` "": what a row's `kernel` names, else cublas. Kernels of inference frameworks are
// priced as the short bursts that their tables time, casts included; a table that names none is
// taken for bursts or long runs by what its products from 10 GFLOP are nearer to, and says so in
// `source`. One row per measured point; those of other devices, and formats and kernels that are
// not modelled, are skipped with the reason. Summaries: all rows, then per class of shape. Throws
// InputError with the line of what is no measurement, or naming a library of which nothing was
// measured. `own`: a user's calibration files and folders, before the committed ones.
result::Validation compare_kernels(const job::Device& device, const std::string& library,
                                   const std::filesystem::path& data_directory, const std::filesystem::path& csv,
                                   const std::vector<std::string>& own = {});

}  // namespace stepcast::validate
