// Reads measured points of calibration/: CSV files with one row for each shape, here by dtype,
// kernel or operator. All functions throw InputError with every row at fault: a missing column, a
// field that is not a positive number, or a shape that occurs twice with times that differ by more
// than a factor of two.
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

// Columns kernel, sequences, length, heads, kv_heads, head_dim, time_us: self-attention, one pass,
// causal or not. Sequences shorter than `shortest` are left out.
std::map<std::string, std::vector<AttentionPoint>> read_attention_points(
    const std::filesystem::path& file, std::int64_t shortest, bool causal = true);

// Columns op, bytes, time_us; row as well where an operator has rows that its kernel holds in
// registers: their elements, or 1 for other operators. Several shapes may have the same bytes.
std::map<std::string, std::vector<MemoryPoint>> read_memory_points(
    const std::filesystem::path& file);

// Columns kind, bytes, time_us: copies by the names of calibration files ("h2d_pageable").
std::map<std::string, std::vector<MemoryPoint>> read_copy_points(const std::filesystem::path& file);

}  // namespace stepcast::cost
