// Calibration from measured kernels of one device: files of calibrate-gpu, or published tables.
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

// Reads files of JSON lines or CSV, which their first character distinguishes. Throws InputError with the faults of all
// files.
std::vector<KernelFile> read_kernel_files(const std::vector<std::string>& files);

struct GpuOptions {
  std::string device;   // its name in configs; "": the device that the files name
  std::string library;  // of every GEMM; "": cublas for files of calibrate-gpu, the library of its kernels for a table
};

// Throws InputError where the files are of several devices, or of one that configs lack.
result::KernelCalibration calibrate_gpu(const std::vector<KernelFile>& files, const GpuOptions& options,
                                        const std::filesystem::path& calibration_dir);

}  // namespace stepcast::calibrate
