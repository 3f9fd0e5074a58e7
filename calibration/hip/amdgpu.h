// What the amdgpu driver shows of a GPU in files, which need no library and no rights: Linux's
// documentation, "GPU Driver Documentation: amdgpu, GPU Power/Thermal Controls and Monitoring".
// Nothing here needs HIP.
#pragma once

#include <filesystem>
#include <string>

namespace stepcast::harness::amdgpu {

struct Readings {          // zeros where the driver has no such file
  double clock = 0;        // Hz, of the compute units
  double power = 0;        // W
  double temperature = 0;  // Celsius
};

struct Most {
  double clock = 0;         // Hz
  double memory_clock = 0;  // Hz
  double power = 0;         // W, the enforced cap
};

// `device`: /sys/bus/pci/devices/<bus id>.
Readings read(const std::filesystem::path& device);
Most most(const std::filesystem::path& device);

// The first word of a file, such as /sys/module/amdgpu/version; "": there is none.
std::string word_of(const std::filesystem::path& file);

}  // namespace stepcast::harness::amdgpu
