// Finds the device of configs/ that corresponds to a GPU.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "stepcast/calibrate/gpu.h"
#include "stepcast/job/job.h"

namespace stepcast::calibrate {

// The devices of configs/ that `printed` may mean; only one if the name is unambiguous: "NVIDIA
// H100 80GB HBM3" and "h100_sxm" are h100-sxm. `memory`: bytes that the driver reports; 0: not
// known.
std::vector<std::string> devices_named(const std::string& printed, std::int64_t memory = 0);

// The one device that all files measured. Throws InputError with the files and lines of each if
// there are several devices, or none that is in configs/devices.
job::Device device_of(const std::vector<KernelFile>& files, const std::string& option);

}  // namespace stepcast::calibrate
