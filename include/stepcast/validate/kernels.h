// Predicted times of kernels compared with measured ones.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "stepcast/job/job.h"
#include "stepcast/result/validation.h"

namespace stepcast::validate {

// Reads `csv`, which is either JSON lines of calibrate-gpu or a table (optional columns after the semicolon; further columns
// are ignored):
//   matrix products: gpu, dtype, m, n, k, batch, time_us; kernel, layout, out_dtype
//   attention: gpu, kernel, dtype, batch, seqlen, heads, head_dim, causal, and time_us or fwd_tflops and bwd_tflops
//   fused layers of experts: gpu, dtype, num_tokens, hidden, inter, topk, experts, time_us; tp, ep, distribution
//   memory-bound operators: gpu, op, dtype, time_us, and bytes_moved or tokens and hidden; row_length of a causal softmax
// `library` "": the library that a row's `kernel` names, or else cublas. `own`: calibration files and folders of the user,
// which come before the committed ones.
// Kernels of inference frameworks are predicted as short bursts, casts included, because that is what their tables time. A
// table that names no framework is taken for bursts or for long runs, whichever its products from 10 GFLOP on are nearer to;
// `source` says which. Each measured point gives one row. Points of other devices, and formats and kernels that are not
// modelled, are skipped with the reason. Summaries: over all rows, then over each class of shapes. Throws InputError with
// the line of an entry that is no measurement, or naming a library without any measurement.
result::Validation compare_kernels(const job::Device& device, const std::string& library,
                                   const std::filesystem::path& data_directory, const std::filesystem::path& csv,
                                   const std::vector<std::string>& own = {});

}  // namespace stepcast::validate
