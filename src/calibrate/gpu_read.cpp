// Detects the kind of each file and reads it.
#include <fstream>
#include <set>

#include "stepcast/base/diagnostics.h"
#include "stepcast/calibrate/gpu.h"
#include "stepcast/text/map.h"

namespace stepcast::calibrate {
namespace {

KernelFile read(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  char first = 0;
  while (in.get(first) && (first == ' ' || first == '\t' || first == '\r' || first == '\n' ||
                           static_cast<unsigned char>(first) > 0x7f)) {
  }
  std::error_code error;
  if (in.is_open() && !in && !std::filesystem::is_directory(file, error)) {
    throw InputError(
        Fault{{file, 1, 1}, "is empty; expected a file of calibrate-gpu, or a table of kernels"});
  }
  if (first == '{' || first == '[') {
    auto read = interop::read_gpu_measurements(file);
    if (read.measurements.empty()) {
      throw InputError(
          Fault{{file, 1, 1}, "holds no measurements; expected those of calibrate-gpu"});
    }
    return read;
  }
  if (const auto kind = std::filesystem::path(file).extension();
      kind == ".yaml" || kind == ".yml") {
    throw InputError(Fault{{file, 1, 1},
                           "is YAML; expected a file of calibrate-gpu, or a table of kernels (the "
                           "description of a table is read from the YAML file next to it)"});
  }
  return interop::read_kernel_csv(file);
}

}  // namespace

std::vector<KernelFile> read_kernel_files(const std::vector<std::string>& files) {
  std::vector<KernelFile> out;
  text::Faults faults;
  std::set<std::string> seen;
  for (const std::string& file : files) {
    std::error_code unknown;
    const auto real = std::filesystem::weakly_canonical(file, unknown);
    if (!seen.insert(unknown ? file : real.string()).second) {
      faults.add({file, 1, 1}, "is given twice; expected each file once");
      continue;
    }
    faults.guarded([&] { out.push_back(read(file)); });
  }
  faults.done();
  return out;
}

}  // namespace stepcast::calibrate
