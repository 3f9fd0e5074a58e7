// Finds the device of configs/ that a GPU is.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "stepcast/calibrate/gpu.h"
#include "stepcast/job/job.h"

namespace stepcast::calibrate {

// Devices of configs/ that `printed` may mean; just one where the name is unambiguous: "NVIDIA H100
// 80GB HBM3" and "h100_sxm" are h100-sxm. `memory`: bytes that the driver states; 0: not known.
std::vector<std::string> devices_named(const std::string& printed, std::int64_t memory = 0);

// The one device of all files. Throws InputError with the files and lines of each where there are
// several devices, or none that is in configs/devices.
job::Device device_of(const std::vector<KernelFile>& files, const std::string& option);

}  // namespace stepcast::calibrate
