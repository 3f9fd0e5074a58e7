// Reads kernels that others measured, from CSV files with a header line, as the same records as calibrate-gpu's.
//
// - GEMM: dtype, m, n, k, time_us; gpu, batch, layout (TN, NN, NT), accumulate, out_dtype, kernel
// - grouped GEMM: kernel, dtype, num_tokens, hidden, inter, topk, experts, time_us; gpu, tp, ep,
//   distribution
// - attention: kernel, dtype, batch (or sequences), seqlen (or length), heads, head_dim, and
//   time_us or fwd_tflops and bwd_tflops; gpu, kv_heads, kv_dtype, window, causal
// - memory-bound: op, bytes_moved (or bytes; or tokens and hidden), time_us; gpu, dtype
//
// Other columns are ignored. FILE.yaml beside FILE.csv has the source of the table.
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
  std::map<std::string, int> gpus;  // as the table names them, each with its first line; empty: not stated
  std::string source;               // from FILE.yaml; "": none
  // By the library of the kernels: cublas, trtllm, vllm, sglang; "" for kernels without a library (attention, memory-bound)
  // and where it is not stated.
  std::map<std::string, std::vector<GpuMeasurement>> measurements;
  std::vector<LeftOut> left_out;
};

// Throws InputError with every row at fault: a missing column, a field that is not a number, a time that is not
// positive, rows of several GPUs.
KernelTable read_kernel_csv(const std::filesystem::path& file);

// The name in records of a memory-bound operator of NeuSight or Vidur, by how it reads and writes; any other name in lower
// case.
std::string memory_operator_named(std::string_view name);
// The number format of a name such as "bfloat16", "half" or "float8_e4m3fn".
std::optional<job::DType> dtype_named(std::string_view name);
// The attention kernel of a name such as "fa2" or "vllm_flash_attn_fa3".
std::optional<job::AttentionKernel> attention_named(std::string_view name);

}  // namespace stepcast::interop
