// Sensors of an AMD GPU.
#include "cuda/sensors.h"

#include <algorithm>
#include <cctype>
#include <filesystem>

#include "amdgpu.h"

namespace stepcast::harness::cuda {
namespace {

std::filesystem::path device_of(int gpu) {
  char bus[32] = {};
  if (gpu < 0 || hipDeviceGetPCIBusId(bus, sizeof bus, gpu) != hipSuccess) {
    (void)hipGetLastError();  // clears the error, which the next check would report
    return {};
  }
  std::string name = bus;  // sysfs has lower case
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return std::filesystem::path("/sys/bus/pci/devices") / name;
}

}  // namespace

Sensors read_sensors(int gpu) {
  const amdgpu::Readings now = amdgpu::read(device_of(gpu));
  return {now.clock, now.power, now.temperature};
}

Limits read_limits(int gpu) {
  const amdgpu::Most most = amdgpu::most(device_of(gpu));
  return {most.clock, most.memory_clock, most.power, amdgpu::word_of("/sys/module/amdgpu/version")};
}

bool has_sensors(int gpu) {
  std::error_code ignored;
  const auto device = device_of(gpu);
  return !device.empty() && std::filesystem::exists(device / "hwmon", ignored);
}

}  // namespace stepcast::harness::cuda
