// Measured points as calibration/ keeps them: CSV, a row a shape, by dtype, kernel or operator.
// All throw InputError with every row at fault: a missing column, no number, nothing positive, a
// shape that stands twice with times more than a factor of two apart.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "attention_fit.h"
#include "gemm_fit.h"
#include "grouped_fit.h"
#include "memory_fit.h"

namespace stepcast::cost {

// Columns dtype, m, n, k, batch, time_us.
std::map<std::string, std::vector<GemmPoint>> read_gemm_points(const std::filesystem::path& file);

// Columns dtype, tokens, hidden, inter, topk, experts, tensor, parallel, time_us.
std::map<std::string, std::vector<ExpertPoint>> read_expert_points(
    const std::filesystem::path& file);

// Columns kernel, sequences, length, heads, kv_heads, head_dim, time_us: causal self-attention,
// forward. Sequences shorter than `shortest` are left out.
std::map<std::string, std::vector<AttentionPoint>> read_attention_points(
    const std::filesystem::path& file, std::int64_t shortest);

// Columns op, bytes, time_us. The same bytes may stand for several shapes.
std::map<std::string, std::vector<MemoryPoint>> read_memory_points(
    const std::filesystem::path& file);

}  // namespace stepcast::cost
