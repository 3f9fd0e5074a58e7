// Sensors of an NVIDIA GPU.
#include <dlfcn.h>

#include <vector>

#include "sensors.h"

namespace stepcast::harness::cuda {
namespace {

// The part of NVML's interface that is used here (its header is not in every toolkit). It is stable
// since version 2 of the library. Every function returns 0 on success.
using NvmlDevice = void*;
constexpr unsigned kClockSm = 1;   // NVML_CLOCK_SM
constexpr unsigned kClockMem = 2;  // NVML_CLOCK_MEM
constexpr unsigned kTemperatureGpu = 0;

struct Nvml {
  int (*init)() = nullptr;
  int (*driver_version)(char*, unsigned) = nullptr;
  int (*by_bus)(const char*, NvmlDevice*) = nullptr;
  int (*clock)(NvmlDevice, unsigned, unsigned*) = nullptr;
  int (*max_clock)(NvmlDevice, unsigned, unsigned*) = nullptr;
  int (*power)(NvmlDevice, unsigned*) = nullptr;
  int (*power_limit)(NvmlDevice, unsigned*) = nullptr;
  int (*temperature)(NvmlDevice, unsigned, unsigned*) = nullptr;
  bool works = false;

  Nvml() {
    void* library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      return;
    }
    const auto find = [library](auto& function, const char* name) {
      function =
          reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
    };
    find(init, "nvmlInit_v2");
    find(driver_version, "nvmlSystemGetDriverVersion");
    find(by_bus, "nvmlDeviceGetHandleByPciBusId_v2");
    find(clock, "nvmlDeviceGetClockInfo");
    find(max_clock, "nvmlDeviceGetMaxClockInfo");
    find(power, "nvmlDeviceGetPowerUsage");
    find(power_limit, "nvmlDeviceGetEnforcedPowerLimit");
    find(temperature, "nvmlDeviceGetTemperature");
    works = init != nullptr && init() == 0;
  }
};

const Nvml& nvml() {
  static const Nvml library;
  return library;
}

NvmlDevice handle(int gpu) {
  if (!nvml().works || nvml().by_bus == nullptr) {
    return nullptr;
  }
  char bus[32] = {};
  NvmlDevice device = nullptr;
  if (cudaDeviceGetPCIBusId(bus, sizeof bus, gpu) != cudaSuccess ||
      nvml().by_bus(bus, &device) != 0) {
    return nullptr;
  }
  return device;
}

double megahertz(int (*function)(NvmlDevice, unsigned, unsigned*), NvmlDevice device,
                 unsigned which) {
  unsigned value = 0;
  return function != nullptr && function(device, which, &value) == 0 ? value * 1e6 : 0;
}

double watts(int (*function)(NvmlDevice, unsigned*), NvmlDevice device) {
  unsigned milliwatts = 0;
  return function != nullptr && function(device, &milliwatts) == 0 ? milliwatts * 1e-3 : 0;
}

Sensors read(NvmlDevice device) {
  Sensors now;
  if (device == nullptr) {
    return now;
  }
  now.sm_clock = megahertz(nvml().clock, device, kClockSm);
  now.power = watts(nvml().power, device);
  unsigned celsius = 0;
  if (nvml().temperature != nullptr && nvml().temperature(device, kTemperatureGpu, &celsius) == 0) {
    now.temperature = celsius;
  }
  return now;
}

// Looking up a handle takes longer than a short kernel.
NvmlDevice cached_handle(int gpu) {
  static thread_local std::vector<NvmlDevice> handles;
  static thread_local std::vector<bool> known;
  if (gpu < 0) {
    return nullptr;
  }
  const auto index = static_cast<std::size_t>(gpu);
  if (known.size() <= index) {
    handles.resize(index + 1, nullptr);
    known.resize(index + 1, false);
  }
  if (!known[index]) {
    handles[index] = handle(gpu);
    known[index] = true;
  }
  return handles[index];
}

}  // namespace

Sensors read_sensors(int gpu) { return read(cached_handle(gpu)); }

Limits read_limits(int gpu) {
  Limits limits;
  const NvmlDevice device = cached_handle(gpu);
  char version[96] = {};
  if (nvml().works && nvml().driver_version != nullptr &&
      nvml().driver_version(version, sizeof version) == 0) {
    limits.driver = version;
  }
  if (device != nullptr) {
    limits.sm_clock = megahertz(nvml().max_clock, device, kClockSm);
    limits.memory_clock = megahertz(nvml().max_clock, device, kClockMem);
    limits.power = watts(nvml().power_limit, device);
  }
  return limits;
}

bool has_sensors(int gpu) { return cached_handle(gpu) != nullptr; }

}  // namespace stepcast::harness::cuda
