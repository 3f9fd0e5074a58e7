// The files of the amdgpu driver, in a folder made like sysfs.
#include <filesystem>
#include <fstream>

#include "catch.hpp"
#include "hip/amdgpu.h"
#include "support/folder.h"

using namespace stepcast::harness;
namespace fs = std::filesystem;

namespace {

void write(const fs::path& file, const char* text) {
  fs::create_directories(file.parent_path());
  std::ofstream(file) << text;
}

}  // namespace

TEST_CASE("an MI300X: power of the moment, junction temperature, the highest levels") {
  const stepcast::test::Folder folder;
  const fs::path device = folder.file("0000:05:00.0");
  write(device / "hwmon/hwmon4/freq1_input", "2093000000\n");
  write(device / "hwmon/hwmon4/power1_input", "749000000\n");
  write(device / "hwmon/hwmon4/power1_cap", "750000000\n");
  write(device / "hwmon/hwmon4/temp2_input", "71000\n");
  write(device / "pp_dpm_sclk", "0: 132Mhz\n1: 2100Mhz *\n");
  write(device / "pp_dpm_mclk", "0: 900Mhz\n1: 1300Mhz *\n2: 1100Mhz\n");
  const amdgpu::Readings now = amdgpu::read(device);
  CHECK(now.clock == 2.093e9);
  CHECK(now.power == Approx(749));
  CHECK(now.temperature == Approx(71));
  const amdgpu::Most most = amdgpu::most(device);
  CHECK(most.clock == Approx(2.1e9));
  CHECK(most.memory_clock == Approx(1.3e9));
  CHECK(most.power == Approx(750));
}

TEST_CASE("an MI250X: average power and edge temperature alone") {
  const stepcast::test::Folder folder;
  const fs::path device = folder.file("d");
  write(device / "hwmon/hwmon0/power1_average", "500000000\n");
  write(device / "hwmon/hwmon0/temp1_input", "50000\n");
  CHECK(amdgpu::read(device).power == Approx(500));
  CHECK(amdgpu::read(device).temperature == Approx(50));
}

TEST_CASE("what the driver does not show is zero, whatever stands in its files") {
  const stepcast::test::Folder folder;
  const fs::path device = folder.file("d");
  CHECK(amdgpu::read(device).power == 0);
  CHECK(amdgpu::most(device).clock == 0);
  CHECK(amdgpu::word_of(device / "version").empty());
  write(device / "hwmon/hwmon0/power1_input", "n/a\n");
  write(device / "hwmon/hwmon0/temp1_input", "-40000\n");
  write(device / "pp_dpm_sclk", "none\n0:\n: Mhz\n");
  write(device / "version", "6.10.5\n");
  CHECK(amdgpu::read(device).power == 0);
  CHECK(amdgpu::read(device).temperature == 0);
  CHECK(amdgpu::most(device).clock == 0);
  CHECK(amdgpu::word_of(device / "version") == "6.10.5");
}
