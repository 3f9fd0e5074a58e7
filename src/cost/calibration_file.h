// Calibration files of kernels: calibration/<device>/<what>-<library>.yaml, written by fit_kernels.
//
//   kind: gemm | grouped | attention | memory | copy | overlap | launch | power
//   devices: [a100-sxm-80, a100-sxm-40]      # the curves hold for these
//   library: cublas
//   source: one line of provenance
//   curves: ...                              # by dtype, kernel, operator or direction
//
// Parsed files are kept for the life of the process, by path and modification time; access is
// thread-safe.
#pragma once

#include <array>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gemm.h"
#include "grouped.h"
#include "stepcast/cost/kernels.h"
#include "stepcast/job/job.h"
#include "stepcast/text/document.h"

namespace stepcast::cost {

struct GemmCurve {
  GemmLaw law;
  double input_grad = 1;   // time of the NN layout over that of TN
  double weight_grad = 1;  // time of NT over TN
  // Held-out standard deviations of those layouts where they were measured; 0: the same as of the
  // forward layout.
  double input_grad_residual = 0;
  double weight_grad_residual = 0;
  // FLOP/s of the fastest GEMMs in a burst (as the points are timed) and in long runs, and the
  // relative standard deviation of the latter.
  double burst = 0;
  double long_run = 0;
  double long_run_deviation = 0;
  double cap = std::numeric_limits<double>::infinity();  // power_cap(burst, long_run)
  double training = 0;  // FLOP/s that steps of training sustain; 0: the level of long runs
  double training_cap = std::numeric_limits<double>::infinity();  // power_cap(burst, training)
  double residual = 0;  // held-out standard deviation at 1 GFLOP and more
  // Time of a grouped GEMM over that of the same tiles in one GEMM, with its relative standard
  // deviation. Used where this library's grouped kernels were not measured (GroupedCurve).
  double grouped = 1;
  double grouped_deviation = 0;
  // The same by the mean rows of a group, consecutive powers of two, where that was measured.
  std::map<int, double> grouped_rows;
  // Bytes moved to cast one element of the left operand of a job below 16 bits, where the points
  // are of products without casts; 0: the law includes the casts (quantise).
  double casts = 0;
  // Time of a product with rows aligned to fewer than 16 bytes over that of a product with aligned
  // ones (row_alignment.h), by the bytes, where it was measured.
  std::map<int, double> unaligned;
  // Share of the traffic of an accumulation into an fp32 result that follows the products instead
  // of running beside them, in kernels that write a tile when all its products are done.
  double accumulate = 0;
  // Relative standard deviation of another library's time from this curve, where the curve is used
  // in its place.
  double other_library = 0;
};

// Parameters of the attention law for one pass.
struct AttentionPass {
  double fixed = 5e-6;    // seconds
  double prologue = 500;  // start of a tile of 128 queries, as a number of keys
  double tail = 0.5;      // share of wave quantisation that is exposed
  double full = 1;        // time without a causal mask over what the causal rate predicts
  double longest = 0;     // times that the longest tile of a causal mask outlasts the mean, exposed
  std::map<int, double> rate;  // head dimension -> FLOP/s at infinite length
  CorrectionGrid grid;         // over sequences x heads, queries, head dimension
  double residual = 0;
  // For tables that inference engines timed: the time to write keys and values into a paged cache,
  // as passes over them by head dimension. Training does not do that, so its prices leave it out.
  std::map<int, double> cache;
};

// The forward pass, and the backward pass by a ratio or with parameters of its own.
struct AttentionCurve : AttentionPass {
  double backward = 0.8;  // rate of the backward pass over the forward's
  std::optional<AttentionPass> backward_pass;
  // FLOP/s under the power limit of steps of training, as GemmCurve::training_cap; infinite: the
  // rates are those of steps.
  double training_cap = std::numeric_limits<double>::infinity();
  double burst = 0, training = 0;  // what it was made from
};

// Parameters of the law of memory-bound kernels for one pass.
struct MemoryPass {
  double fixed = 2e-6;  // seconds
  double share = 0.8;   // of the data sheet's bandwidth
  double residual = 0;
  double ramp = 1;        // exponent that joins the fixed time and the transfer (memory.h)
  double resident = 0;    // bytes that stay in L2
  double gain = 1;        // rate of those bytes over the rate of the rest
  double start = 0;       // bytes that few SMs move; 0: none
  double start_rate = 0;  // bytes/s of those
  // Kernels that keep a row in the registers of a warp (memory.h).
  double row = 0;    // elements of a row where none is stated; 0: other kernels
  double moved = 1;  // share of the bytes that a causal kernel reads and writes
  double wide = 0;   // time of an element of the registers beyond 1,024 a row, in elements moved
};

struct MemoryCurve : MemoryPass {
  // Backward passes, where they were measured; else by the forward's parameters and their own
  // bytes.
  std::optional<MemoryPass> backward_pass;
};

struct CopyCurve {
  double latency = 0;    // seconds
  double bandwidth = 0;  // bytes/s
  double residual = 0;
};

// Coefficients of lower/passes/slowdown.h.
struct OverlapCurve {
  double arithmetic = 1;  // of the share of SMs occupied
  double memory = 1;      // of the share of memory bandwidth taken
  double collective = 0;  // share of its speed that a collective loses beside kernels
  double arithmetic_residual = 0, memory_residual = 0;  // of the time lost
};

struct LaunchCurve {
  double host = 0;   // seconds of host time to issue one kernel
  double graph = 0;  // seconds between kernels inside a CUDA graph; 0: not measured
  double residual = 0;
};

// GEMMs under a power limit below the board's rating (gemm.h: power_share).
struct PowerCurve {
  double rated = 0;     // W, under which long runs were measured
  double exponent = 0;  // of the limit's share of it
  double residual = 0;  // of the exponent
  // Power that kernels bound by memory draw, over the limit (clock.h); 0: not measured.
  double others = 0;
};

struct CalibrationFile {
  enum class Kind { gemm, grouped, attention, memory, copy, overlap, launch, power, other };
  Kind kind = Kind::other;
  std::string name;  // "a100-sxm-80/gemm-cublas.yaml"
  std::vector<std::string> devices;
  std::string library;
  std::string source;
  std::map<job::DType, GemmCurve> gemm;
  std::map<job::DType, GroupedCurve> grouped;
  std::map<job::AttentionKernel, AttentionCurve> attention;
  std::map<MemoryOp, MemoryCurve> memory;
  std::map<std::pair<CopyDirection, bool>, CopyCurve> copy;  // by direction, pinned
  std::optional<OverlapCurve> overlap;
  std::optional<LaunchCurve> launch;
  std::optional<PowerCurve> power;
};

// `other` has no spelling: files of other kinds are not read here.
constexpr auto spellings(CalibrationFile::Kind) {
  return std::to_array<Spelling<CalibrationFile::Kind>>(
      {{CalibrationFile::Kind::gemm, "gemm"},
       {CalibrationFile::Kind::grouped, "grouped"},
       {CalibrationFile::Kind::attention, "attention"},
       {CalibrationFile::Kind::memory, "memory"},
       {CalibrationFile::Kind::copy, "copy"},
       {CalibrationFile::Kind::overlap, "overlap"},
       {CalibrationFile::Kind::launch, "launch"},
       {CalibrationFile::Kind::power, "power"}});
}

// Throws InputError for an unreadable file, unknown keys, missing or non-finite numbers, and a
// correction of another length than its grid. A file of another kind (such as collectives) gives
// Kind::other.
std::shared_ptr<const CalibrationFile> read_calibration(const std::filesystem::path& file);

// All kernel files below `directory` that name the device, in order of path. `given`, when not
// empty, restricts them to its files, which must name the device, and to those files of its folders
// that do. With "auto" in `given`, all others follow these. Throws InputError.
std::vector<std::shared_ptr<const CalibrationFile>> find_calibration(
    const std::filesystem::path& directory, const std::string& device,
    const std::vector<std::string>& given);

// The direction and whether memory is pinned: "h2d", "h2d_pageable".
std::optional<std::pair<CopyDirection, bool>> parse_copy(const std::string& text);
std::string copy_name(CopyDirection direction, bool pinned);

// Reads a file that was already parsed, for tests and tools.
CalibrationFile to_calibration(const text::Value& document);

}  // namespace stepcast::cost
