// Turns files of measured kernels into calibration files and a report on them. The fits are in
// cost/kernel_fit.h.
#include "stepcast/calibrate/gpu.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "gpu_compare.h"
#include "gpu_device.h"
#include "gpu_samples.h"
#include "stepcast/base/diagnostics.h"
#include "stepcast/cost/kernel_fit.h"

namespace stepcast::calibrate {
namespace {

std::string base_name(const std::string& file) {
  return std::filesystem::path(file).filename().string();
}

std::string source_of(const interop::GpuMeasurements& file) {
  const auto& s = file.sessions.back();
  std::string out = fmt::format("calibrate-gpu {} on {}", s.harness, s.gpu);
  const auto part = [&](const char* name, const std::string& version) {
    if (!version.empty()) {
      out += fmt::format(", {} {}", name, version);
    }
  };
  part("driver", s.driver);
  const bool amd = !s.architecture.empty();
  part(amd ? "HIP" : "CUDA", s.cuda);
  part(amd ? "hipBLASLt" : "cuBLAS", s.cublas);
  part(amd ? "MIOpen" : "cuDNN", s.cudnn);
  part(amd ? "RCCL" : "NCCL", s.nccl);
  if (s.power_limit > 0) {
    out += fmt::format(", {:.0f} W", s.power_limit);
  }
  return out + ", " + s.date.substr(0, 10);
}

result::KernelInput input_of(const KernelFile& file) {
  result::KernelInput out;
  if (const auto* harness = std::get_if<interop::GpuMeasurements>(&file)) {
    out.file = harness->file;
    out.gpu = harness->sessions.back().gpu;
    out.source = source_of(*harness);
    out.measurements = static_cast<int>(harness->measurements.size());
    return out;
  }
  const auto& table = std::get<interop::KernelTable>(file);
  out.file = table.file;
  for (const auto& [gpu, line] : table.gpus) {
    out.gpu += (out.gpu.empty() ? "" : ", ") + gpu;
  }
  out.source = table.source.empty() ? base_name(table.file) : table.source;
  for (const auto& [library, all] : table.measurements) {
    out.measurements += static_cast<int>(all.size());
  }
  return out;
}

bool holds_collectives(const KernelFile& file) {
  const auto* harness = std::get_if<interop::GpuMeasurements>(&file);
  return harness != nullptr &&
         std::any_of(harness->measurements.begin(), harness->measurements.end(), [](const auto& m) {
           const auto* c = std::get_if<interop::CollectiveCase>(&m.what);
           return c != nullptr && c->ranks > 1 && m.skipped.empty();
         });
}

// cuBLAS comes first: kernels without a library, such as attention, are fitted and compared with
// it.
std::vector<std::string> libraries_of(const std::vector<Measured>& cases) {
  std::set<std::string> names;
  for (const Measured& m : cases) {
    if (!m.library.empty()) {
      names.insert(m.library);
    }
  }
  std::vector<std::string> out(names.begin(), names.end());
  std::stable_partition(out.begin(), out.end(), [](const auto& name) { return name == "cublas"; });
  if (out.empty()) {
    out.emplace_back("cublas");
  }
  return out;
}

}  // namespace

result::KernelCalibration calibrate_gpu(const std::vector<KernelFile>& files,
                                        const GpuOptions& options,
                                        const std::filesystem::path& calibration_dir) {
  STEPCAST_CHECK(!files.empty(), "a calibration has files");
  const job::Device device = device_of(files, options.device);
  result::KernelCalibration out;
  out.device = device.name;
  std::string source;
  for (const KernelFile& file : files) {
    out.inputs.push_back(input_of(file));
    if (source.find(out.inputs.back().source) == std::string::npos) {
      source += (source.empty() ? "" : "; ") + out.inputs.back().source;
    }
    if (holds_collectives(file)) {
      out.collectives.push_back(out.inputs.back().file);
    }
  }
  Gathered all = gather(files, device, options.library);
  out.left_out = std::move(all.left_out);
  out.warnings = std::move(all.warnings);
  out.libraries = libraries_of(all.cases);
  for (std::size_t i = 0; i < out.libraries.size(); ++i) {
    const std::string& library = out.libraries[i];
    const auto samples = samples_of(all.cases, library, i == 0, device);
    cost::KernelFit fit = cost::fit_kernels(device, library, samples, source);
    for (auto& file : fit.files) {
      out.files.push_back({std::move(file.name), std::move(file.yaml)});
    }
    for (const auto& r : fit.rows) {
      const bool gemm = r.curve.starts_with("gemm") && out.libraries.size() > 1;
      out.rows.push_back({gemm ? r.curve + " " + library : r.curve, r.size, r.points, r.held_out,
                          r.median, r.p95, r.outliers});
    }
    for (auto& why : fit.refused) {
      out.refused.push_back({why.starts_with("gemm") ? library : "", std::move(why)});
    }
  }
  compare(all.cases, device, out.libraries, calibration_dir, out);
  return out;
}

}  // namespace stepcast::calibrate
