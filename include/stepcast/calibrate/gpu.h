// Calibration from measured kernels of one device: files of calibrate-gpu, or tables others
// published.
#pragma once

#include <filesystem>
#include <string>
#include <variant>
#include <vector>

#include "stepcast/interop/gpu_csv.h"
#include "stepcast/interop/gpu_measurements.h"
#include "stepcast/result/kernel_calibration.h"

namespace stepcast::calibrate {

using KernelFile = std::variant<interop::GpuMeasurements, interop::KernelTable>;

// JSON lines or CSV, told apart by their first character. Throws InputError with all files' faults.
std::vector<KernelFile> read_kernel_files(const std::vector<std::string>& files);

struct GpuOptions {
  std::string device;   // as configs name it; "": by what the files name
  std::string library;  // of every GEMM; "": cublas of calibrate-gpu, what a table's kernels are
};

// Throws InputError: files of several devices, or of none that configs know.
result::KernelCalibration calibrate_gpu(const std::vector<KernelFile>& files, const GpuOptions& options,
                                        const std::filesystem::path& calibration_dir);

}  // namespace stepcast::calibrate
