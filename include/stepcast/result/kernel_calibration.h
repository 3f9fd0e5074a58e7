// Result of `simulate calibrate gpu`: measurements of kernels and the curves fitted to them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace stepcast::result {

struct KernelInput {
  std::string file;
  std::string gpu;     // as the driver or the table names it; "": not stated
  std::string source;  // one line: harness, driver and libraries, or what a table cites
  int measurements = 0;
};

// Measurements that no fit uses, with the reason.
struct KernelLeftOut {
  std::string file;
  int line = 0;  // of the first of them; 0: they have no line
  int count = 0;
  std::string why;
};

// One class of sizes of one fit, with errors |predicted / measured - 1| on points that were held
// out of the fit.
struct KernelFitRow {
  std::string curve;  // "gemm bf16"
  std::string size;   // "from 1 GFLOP"
  int points = 0;
  int held_out = 0;
  double median = 0;
  double p95 = 0;
  int outliers = 0;
};

struct KernelRefused {
  std::string library;  // of the GEMMs; "": of all libraries
  std::string why;      // "gemm bf16: 12 shapes are too few..."
};

// Errors of the installed and of the new calibration on the same points.
struct KernelComparison {
  std::string kernel;  // "gemm bf16 forward", "attention cudnn backward", "memory norm"
  int points = 0;
  double before_median = 0, before_p95 = 0;
  double after_median = 0, after_p95 = 0;
  std::string before_from;  // "h200-sxm/gemm-cublas.yaml", or "datasheet"
  std::string after_from;
};

// One measured quantity that is not a curve: "kernel launch", "graph kernel", "sustained over
// burst".
struct KernelFigure {
  std::string name;
  double value = 0;
  enum class Unit { seconds, bytes_per_second, factor } unit = Unit::seconds;
  int points = 1;
};

// A whole layer, predicted by the new curves and not used in any fit.
struct KernelLayer {
  std::string name;  // "llama-3-8b bf16 forward 1x8192"
  double measured = 0;
  double predicted = 0;
  double before = 0;  // predicted by the installed calibration
  std::string why;    // why it could not be predicted; "": it was predicted
};

struct KernelFile {
  std::string name;  // "gemm-cublas.yaml"
  std::string yaml;
};

struct KernelCalibration {
  std::string device;  // name in configs/devices
  std::vector<std::string> libraries;
  std::vector<KernelInput> inputs;
  std::vector<std::string> warnings;  // "FILE:LINE: ..."
  std::vector<KernelLeftOut> left_out;
  std::vector<KernelFitRow> rows;
  std::vector<KernelRefused> refused;
  std::vector<KernelComparison> comparisons;
  std::vector<KernelFigure> figures;
  std::vector<KernelLayer> layers;
  std::vector<std::string> collectives;  // files with measured collectives, for `simulate calibrate nccl`
  std::vector<KernelFile> files;         // empty: nothing could be fitted
};

}  // namespace stepcast::result
