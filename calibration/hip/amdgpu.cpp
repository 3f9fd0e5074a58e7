#include "amdgpu.h"

#include <algorithm>
#include <fstream>
#include <sstream>

namespace stepcast::harness::amdgpu {
namespace {

namespace fs = std::filesystem;

// A whole number in a file, times `unit`; 0: none.
double number(const fs::path& file, double unit) {
  std::ifstream in(file);
  double value = 0;
  return in >> value && value > 0 ? value * unit : 0;
}

// The device's only monitor, hwmon/hwmon<n>.
fs::path monitor(const fs::path& device) {
  std::error_code missing;
  for (const auto& entry : fs::directory_iterator(device / "hwmon", missing)) {
    return entry.path();
  }
  return device / "hwmon";
}

// The highest of the levels "1: 2100Mhz *".
double highest_level(const fs::path& file) {
  std::ifstream in(file);
  double highest = 0;
  for (std::string line; std::getline(in, line);) {
    const std::size_t colon = line.find(':');
    std::istringstream rest(colon == std::string::npos ? std::string() : line.substr(colon + 1));
    double megahertz = 0;
    if (rest >> megahertz) {
      highest = std::max(highest, megahertz * 1e6);
    }
  }
  return highest;
}

}  // namespace

Readings read(const fs::path& device) {
  constexpr double kMicro = 1e-6;
  const fs::path from = monitor(device);
  Readings now;
  now.clock = number(from / "freq1_input", 1);
  // MI300 states the power of the moment alone, earlier devices an average.
  now.power = number(from / "power1_input", kMicro);
  if (now.power == 0) {
    now.power = number(from / "power1_average", kMicro);
  }
  // The junction's is the one that limits; an edge sensor is not in every device.
  now.temperature = number(from / "temp2_input", 1e-3);
  if (now.temperature == 0) {
    now.temperature = number(from / "temp1_input", 1e-3);
  }
  return now;
}

Most most(const fs::path& device) {
  return {highest_level(device / "pp_dpm_sclk"), highest_level(device / "pp_dpm_mclk"),
          number(monitor(device) / "power1_cap", 1e-6)};
}

std::string word_of(const fs::path& file) {
  std::ifstream in(file);
  std::string word;
  in >> word;
  return word;
}

}  // namespace stepcast::harness::amdgpu
