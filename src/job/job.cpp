#include "stepcast/job/job.h"

namespace stepcast::job {

double bytes_per_element(DType t) {
  switch (t) {
    case DType::fp32:
    case DType::tf32:
      return 4;
    case DType::bf16:
    case DType::fp16:
      return 2;
    case DType::fp8:
    case DType::fp8_block:
    case DType::mxfp8:
    case DType::int8:
      return 1;
    case DType::nvfp4:
      return 0.5;
  }
  return 0;
}

const char* to_string(DType t) {
  switch (t) {
    case DType::fp32:
      return "fp32";
    case DType::tf32:
      return "tf32";
    case DType::bf16:
      return "bf16";
    case DType::fp16:
      return "fp16";
    case DType::fp8:
      return "fp8";
    case DType::fp8_block:
      return "fp8_block";
    case DType::mxfp8:
      return "mxfp8";
    case DType::nvfp4:
      return "nvfp4";
    case DType::int8:
      return "int8";
  }
  return "";
}

FlopRate peak_of(const Device& device, DType type) {
  if (const auto stated = device.peak.find(type); stated != device.peak.end()) {
    return stated->second;
  }
  const double needed = type == DType::fp8_block ? 9.0 : type == DType::mxfp8 ? 10.0 : 1e9;
  const auto fp8 = device.peak.find(DType::fp8);
  return fp8 != device.peak.end() && device.compute_capability >= needed ? fp8->second
                                                                         : FlopRate(0);
}

}  // namespace stepcast::job
