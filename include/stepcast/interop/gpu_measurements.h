// Measurements of one GPU or one machine by calibrate-gpu, in JSON lines. The harness that writes them and the reader
// share these types.
//
//   {"record": "session", "schema": 1, "harness": "0.1.0", "date": ..., "gpu": {...}, ...}
//   {"record": "gemm", "dtype": "bf16", ..., "time": {"median": s, "p10": s, "p90": s, "samples":
//   n}, ...}
//
// A line belongs to the last session line above it: an interrupted run that is resumed adds a
// session. Numbers are SI: seconds, bytes, hertz, watts; temperatures in Celsius.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "stepcast/base/diagnostics.h"
#include "stepcast/job/job.h"

namespace stepcast::interop {

inline constexpr int kMeasurementSchema = 1;

// The device and software of a measurement. It never has a host name, a serial number or a user.
struct GpuSession {
  std::string harness;            // version of calibrate-gpu
  std::string date;               // UTC, 2026-11-20T21:43:15Z
  std::string gpu;                // as the driver names it: "NVIDIA H200"
  int gpus = 0;                   // GPUs that the process sees in its node
  double compute_capability = 0;  // of an NVIDIA GPU
  std::string architecture;       // of an AMD GPU: "gfx942"; "": NVIDIA's
  int sms = 0;                    // SMs or compute units
  std::int64_t memory = 0;        // bytes
  std::int64_t l2 = 0;            // bytes
  double sm_clock = 0;            // Hz, the highest the driver allows
  double memory_clock = 0;        // Hz
  double power_limit = 0;         // W; 0: not known
  // Versions; "": absent. On an AMD GPU those of amdgpu, HIP, hipBLASLt, MIOpen and RCCL.
  std::string driver, cuda, cublas, cudnn, nccl;
};

enum class GemmLayout { forward, input_grad, weight_grad };  // TN, NN, NT as cuBLAS sees them
enum class Scaling { none, tensor, block };                  // of fp8: one scale for a tensor, or one for each block

// D[m, n] = A[m, k] B[k, n] in row-major order: in the forward pass of a linear layer m tokens, n outputs, k
// inputs. The three passes of a layer have three shapes: (m, n, k), (m, k, n), (k, n, m).
struct GemmCase {
  job::DType dtype = job::DType::bf16;  // fp8_block is fp8 with Scaling::block
  GemmLayout layout = GemmLayout::forward;
  std::int64_t m = 0, n = 0, k = 0, batch = 1;
  int groups = 1;                // > 1: a grouped GEMM, each group of shape m, n, k (m: mean rows of a group)
  bool accumulate_fp32 = false;  // D += in fp32, as gradient accumulation fusion does
  bool sustained = false;        // timed over seconds at the power limit, not in a short burst
  friend bool operator==(const GemmCase&, const GemmCase&) = default;
};

struct AttentionCase {
  std::string kernel = "cudnn";
  job::DType dtype = job::DType::bf16;
  std::int64_t sequences = 1, length = 0;  // queries = keys
  int heads = 0, kv_heads = 0, head_dim = 0;
  bool causal = true;
  bool backward = false;  // the backward pass alone
  friend bool operator==(const AttentionCase&, const AttentionCase&) = default;
};

// `op`: copy, add, norm, activation, cross_entropy or optimizer, as in cost::MemoryOp (add is its elementwise). `bytes`:
// read and written.
struct MemoryCase {
  std::string op;
  job::DType dtype = job::DType::bf16;
  std::int64_t bytes = 0;
  bool backward = false;
  friend bool operator==(const MemoryCase&, const MemoryCase&) = default;
};

// `direction`: h2d, d2h, both (at the same time; `bytes` in one direction), d2d.
struct CopyCase {
  std::string direction;
  bool pinned = true;
  std::int64_t bytes = 0;
  friend bool operator==(const CopyCase&, const CopyCase&) = default;
};

// `what`: launch (host time to issue one kernel), gap (device time from kernel to kernel in a full
// stream), graph_launch (host time of one graph launch), graph_kernel (device time of one kernel
// inside a graph), event_record, stream_wait, synchronize.
struct LaunchCase {
  std::string what;
  friend bool operator==(const LaunchCase&, const LaunchCase&) = default;
};

// `op`: nccl-tests' name; `bytes`: its size column; `algo` and `proto` as forced, "": NCCL's choice. Times are out of place.
// With one node, all ranks are in one process.
struct CollectiveCase {
  std::string op;
  job::DType dtype = job::DType::fp32;
  std::int64_t bytes = 0;
  int ranks = 0, nodes = 1;
  std::string algo, proto;
  friend bool operator==(const CollectiveCase&, const CollectiveCase&) = default;
};

// A kernel beside a collective (`op` is not empty) or a copy (`direction` is not empty). GpuMeasurement::time is that of the
// kernel beside the other.
struct OverlapCase {
  std::string kernel;                // "gemm" or a MemoryCase's op
  std::int64_t m = 0, n = 0, k = 0;  // of a bf16 gemm
  std::int64_t bytes = 0;            // of a memory-bound kernel
  std::string op;                    // the collective's
  std::string direction;             // or the copy's
  std::int64_t other_bytes = 0;
  int ranks = 0;
  int channels = 0;  // limit of the collective's SMs (NCCL_MAX_CTAS); 0: NCCL's choice
  friend bool operator==(const OverlapCase&, const OverlapCase&) = default;
};

// One transformer layer, forward and backward in one stream. It checks predictions and is never fitted.
struct LayerCase {
  std::string model;  // a name in configs/models
  job::DType dtype = job::DType::bf16;
  std::int64_t sequences = 1, length = 0;
  int tensor = 1;  // tensor-parallel size: the part of one rank, without collectives
  bool backward = false;
  friend bool operator==(const LayerCase&, const LayerCase&) = default;
};

using GpuCase =
    std::variant<GemmCase, AttentionCase, MemoryCase, CopyCase, LaunchCase, CollectiveCase, OverlapCase, LayerCase>;

struct Timing {
  double median = 0, p10 = 0, p90 = 0;  // seconds
  int samples = 0;
};

struct GpuMeasurement {
  GpuCase what;
  Timing time;
  // For overlaps: medians of the kernel alone, of the other alone, and of the other beside the kernel.
  double alone = 0, other_alone = 0, other_together = 0;
  double sm_clock = 0;     // Hz while it ran; 0: not known
  double power = 0;        // W
  double temperature = 0;  // Celsius
  std::string skipped;     // why it could not be measured ("not supported by cublasLt"); then there is no time
  int session = 0;         // index into GpuMeasurements::sessions
  int line = 0;            // line of the file; 0: not from a file
};

struct GpuMeasurements {
  std::string file;
  std::vector<GpuSession> sessions;
  std::vector<GpuMeasurement> measurements;
  std::vector<Fault> warnings;  // lines left out: duplicates, contradictions, a last line cut short
};

// The key of a case, "gemm bf16 forward 4096x4096x4096". Equal cases have equal keys, by which runs are resumed and messages
// name a case.
std::string to_string(const GpuCase& what);

// A record as one line, with its newline.
std::string to_json_line(const GpuSession& session);
std::string to_json_line(const GpuMeasurement& measurement);

// Throws InputError with every line at fault: no JSON, unknown record, missing or unknown keys, NaN, times that are not
// positive, p10 > median, sessions of different GPUs, a measurement above any session. Left out with a warning: a case that
// occurs twice (the later one stays), cases whose medians differ by more than a factor of 1.5 (none stays), and a last line
// that is cut short.
GpuMeasurements read_gpu_measurements(const std::filesystem::path& file);
GpuMeasurements parse_gpu_measurements(std::string_view text, const std::string& name);

}  // namespace stepcast::interop
