// Calibration files of kernels: calibration/<device>/<what>-<library>.yaml, written by fit_kernels.
//
//   kind: gemm | grouped | attention | memory
//   devices: [a100-sxm-80, a100-sxm-40]      # that the curves hold for
//   library: cublas
//   source: one line of provenance
//   curves: ...                              # by dtype, kernel or operator
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
#include <vector>

#include "gemm.h"
#include "stepcast/cost/kernels.h"
#include "stepcast/job/job.h"
#include "stepcast/text/document.h"

namespace stepcast::cost {

struct GemmCurve {
  GemmLaw law;
  double input_grad = 1;   // time of the NN layout over that of TN
  double weight_grad = 1;  // NT over TN
  // FLOP/s of the fastest GEMMs in a burst (as the points) and in long runs, and how sure the
  // latter is.
  double burst = 0;
  double long_run = 0;
  double long_run_deviation = 0;
  double cap = std::numeric_limits<double>::infinity();  // power_cap(burst, long_run)
  double residual = 0;  // held-out standard deviation at 1 GFLOP and more
  // Time of a grouped GEMM over that of the same tiles in one GEMM, where this library's grouped
  // kernels were not measured (GroupedCurve), and how sure that is.
  double grouped = 1;
  double grouped_deviation = 0;
  // What another library's time may be off from this curve's, where it stands in for it.
  double other_library = 0;
};

// A library's grouped GEMM over the same tiles priced as one batch, by mean rows of a group: linear
// in their logarithm between powers of two.
struct GroupedCurve {
  double first = 0;            // log2 of the first node's rows
  std::vector<double> factor;  // a node each
  double residual = 0;
  double at(double rows) const;
};

struct AttentionCurve {
  double fixed = 5e-6;         // seconds
  double prologue = 500;       // of a tile of 128 queries, in keys
  double tail = 0.5;           // share of wave quantisation that is exposed
  std::map<int, double> rate;  // head dimension -> FLOP/s of the forward pass, at infinite length
  CorrectionGrid grid;         // over sequences x heads, queries, head dimension
  double backward = 0.8;       // rate of the backward pass over the forward's
  double residual = 0;
};

struct MemoryCurve {
  double fixed = 2e-6;  // seconds
  double share = 0.8;   // of the data sheet's bandwidth
  double residual = 0;
};

struct CalibrationFile {
  enum class Kind { gemm, grouped, attention, memory, other } kind = Kind::other;
  std::string name;  // "a100-sxm-80/gemm-cublas.yaml"
  std::vector<std::string> devices;
  std::string library;
  std::string source;
  std::map<job::DType, GemmCurve> gemm;
  std::map<job::DType, GroupedCurve> grouped;
  std::map<job::AttentionKernel, AttentionCurve> attention;
  std::map<MemoryOp, MemoryCurve> memory;
};

// Throws InputError: unreadable, unknown keys, missing or non-finite numbers, a correction of
// another length than its grid. A file of another kind (a collective's) gives Kind::other.
std::shared_ptr<const CalibrationFile> read_calibration(const std::filesystem::path& file);

// All kernel files below `directory` that name the device, in order of path; with `only`, those
// files, which must name it (else InputError).
std::vector<std::shared_ptr<const CalibrationFile>> find_calibration(
    const std::filesystem::path& directory, const std::string& device,
    const std::vector<std::string>& only);

// Text as in job files ("bf16", "flash2", "norm"); nullopt when unknown.
std::optional<job::DType> parse_dtype(const std::string& text);
std::optional<job::AttentionKernel> parse_attention_kernel(const std::string& text);
std::optional<MemoryOp> parse_memory_op(const std::string& text);
const char* to_string(job::AttentionKernel k);
const char* to_string(MemoryOp op);

// The reader of a file already parsed, for tests and tools.
CalibrationFile to_calibration(const text::Value& document);

}  // namespace stepcast::cost
