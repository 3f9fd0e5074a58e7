// Devices with data sheet values for the kernel tests, and the path of the calibration files.
#pragma once

#include <filesystem>

#include "stepcast/job/job.h"

namespace stepcast::test {

inline const std::filesystem::path kCalibration =
    std::filesystem::path(STEPCAST_SOURCE_DIR) / "calibration";

inline job::Device device(const std::string& name, double cc, int sms, double tensor_tflops,
                          double fp32_tflops, double gbps, double l2_mb) {
  using job::DType;
  job::Device d;
  d.name = name;
  d.compute_capability = cc;
  d.sms = sms;
  d.peak[DType::fp32] = FlopRate(fp32_tflops * 1e12);
  d.peak[DType::tf32] = FlopRate(tensor_tflops / 2 * 1e12);
  d.peak[DType::bf16] = FlopRate(tensor_tflops * 1e12);
  d.peak[DType::fp16] = FlopRate(tensor_tflops * 1e12);
  if (cc > 8.5) {
    d.peak[DType::fp8] = FlopRate(2 * tensor_tflops * 1e12);
  }
  if (cc >= 10) {
    d.peak[DType::nvfp4] = FlopRate(4 * tensor_tflops * 1e12);
  }
  d.memory_bandwidth = Bandwidth(gbps * 1e9);
  d.l2 = Bytes(static_cast<std::int64_t>(l2_mb * 1e6));
  d.memory = Bytes(80'000'000'000);
  d.source = "data sheet";
  return d;
}

inline job::Device a100() { return device("a100-sxm-80", 8.0, 108, 312, 19.5, 2039, 40); }
inline job::Device a100_pcie() { return device("a100-pcie-80", 8.0, 108, 312, 19.5, 1935, 40); }
inline job::Device h100() { return device("h100-sxm", 9.0, 132, 989, 67, 3350, 50); }
inline job::Device h200() { return device("h200-sxm", 9.0, 132, 989, 67, 4800, 50); }
inline job::Device b200() { return device("b200-sxm", 10.0, 148, 2250, 80, 8000, 126); }
inline job::Device gb300() { return device("gb300", 10.3, 152, 2500, 80, 8000, 126); }
inline job::Device l40s() { return device("l40s", 8.9, 142, 362, 91.6, 864, 96); }
inline job::Device unheard_of() { return device("unheard-of", 9.0, 132, 1000, 60, 3000, 50); }

}  // namespace stepcast::test
