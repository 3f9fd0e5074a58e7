// Kernels that others measured, as CSV with a header line: the same records as calibrate-gpu's.
//
// - GEMM: dtype, m, n, k, time_us; gpu, batch, layout (TN, NN, NT), accumulate, out_dtype, kernel
// - grouped GEMM: kernel, dtype, num_tokens, hidden, inter, topk, experts, time_us; gpu, tp, ep,
//   distribution
// - attention: kernel, dtype, batch (or sequences), seqlen (or length), heads, head_dim, and
//   time_us or fwd_tflops and bwd_tflops; gpu, kv_heads, kv_dtype, window, causal
// - memory-bound: op, bytes_moved (or bytes; or tokens and hidden), time_us; gpu, dtype
//
// Other columns are ignored. What a table's source was stands in FILE.yaml beside FILE.csv.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "stepcast/base/diagnostics.h"
#include "stepcast/interop/gpu_measurements.h"

namespace stepcast::interop {

// Rows that were left out for one reason.
struct LeftOut {
  std::string why;
  int rows = 0;
  int first_line = 0;
};

struct KernelTable {
  std::string file;
  std::map<std::string, int> gpus;  // as the table names them, each with its first line; none: not stated
  std::string source;               // of FILE.yaml; "": none
  // By the library that a table's kernels belong to: cublas, trtllm, vllm, sglang; ""
  // where that means nothing (attention, memory-bound) or is not told.
  std::map<std::string, std::vector<GpuMeasurement>> measurements;
  std::vector<LeftOut> left_out;
};

// Throws InputError with every row at fault: a missing column, no number, a time that is not
// positive, tables of several GPUs.
KernelTable read_kernel_csv(const std::filesystem::path& file);

// NeuSight's and Vidur's names of memory-bound operators by what reads and writes alike, as records
// have them; another name as it is, in small letters.
std::string memory_operator_named(std::string_view name);
// "bfloat16", "half", "float8_e4m3fn" as configs name them.
std::optional<job::DType> dtype_named(std::string_view name);
// "fa2", "vllm_flash_attn_fa3" as configs name them.
std::optional<job::AttentionKernel> attention_named(std::string_view name);

}  // namespace stepcast::interop
