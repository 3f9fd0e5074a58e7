// From measured kernels of one device to calibration files. `simulate calibrate gpu` and the tool fit_kernels share it. The
// fits use Eigen, in .cpp files only.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "stepcast/cost/kernels.h"
#include "stepcast/job/job.h"
#include "stepcast/model/operators.h"

namespace stepcast::cost {

struct GemmSample {
  model::Gemm shape;
  Layout layout = Layout::forward;
  bool accumulate_fp32 = false;
  int groups = 1;          // > 1: a grouped GEMM, each of `shape`
  bool sustained = false;  // timed over seconds at the power limit
  double seconds = 0;
  double deviation = 0;  // relative spread of the samples; 0: not known
};

struct AttentionSample {
  model::AttentionShape shape;
  bool backward = false;
  double seconds = 0;
};

struct MemorySample {
  double bytes = 0;  // read and written
  double seconds = 0;
  bool backward = false;
};

struct CopySample {
  CopyDirection direction = CopyDirection::host_to_device;
  bool pinned = true;
  double bytes = 0;
  double seconds = 0;
};

// A kernel beside a collective: how much longer each took than alone.
struct OverlapSample {
  bool memory_bound = false;  // the kernel is memory-bound; else it is a GEMM
  int sms = 0;                // SMs that the collective occupies
  double memory_share = 0;    // share of the memory bandwidth that the collective takes when alone
  double kernel_stretch = 1;  // time together / time alone
  double collective_stretch = 1;
};

struct KernelSamples {
  std::map<job::DType, std::vector<GemmSample>> gemm;
  std::map<job::AttentionKernel, std::vector<AttentionSample>> attention;
  std::map<MemoryOp, std::vector<MemorySample>> memory;
  std::vector<CopySample> copies;
  std::vector<OverlapSample> overlap;
  double launch = 0;        // seconds of host time to issue one kernel; 0: not measured
  double graph_kernel = 0;  // seconds between kernels inside a CUDA graph
};

// One line of the table of held-out errors.
struct FitRow {
  std::string curve;  // "gemm bf16", "attention cudnn backward", "memory norm", "copy h2d pinned"
  std::string size;   // range of sizes: "from 1 GFLOP"
  int points = 0;     // fitted and held out together
  int held_out = 0;
  double median = 0;  // of |predicted / measured - 1|, held out
  double p95 = 0;
  int outliers = 0;  // points far beyond the spread of the others, whose weight the fit limits
};

struct FittedFile {
  std::string name;  // "gemm-cublas.yaml"
  std::string yaml;
};

struct KernelFit {
  std::vector<FittedFile> files;
  std::vector<FitRow> rows;
  std::vector<std::string> refused;  // curves that the points do not determine: one line each, with what is missing
};

// `device` gives data-sheet floors and first guesses, `source` is the provenance line of every file. A curve with too few
// points is refused and never guessed.
KernelFit fit_kernels(const job::Device& device, const std::string& library, const KernelSamples& samples,
                      const std::string& source);

}  // namespace stepcast::cost
