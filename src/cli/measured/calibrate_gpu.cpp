// simulate calibrate gpu: measured kernels to calibration files.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>

#include "../command_line/command_line.h"
#include "../command_line/terminal.h"
#include "../output/outputs.h"
#include "commands.h"
#include "stepcast/calibrate/gpu.h"
#include "stepcast/report/report.h"
#include "stepcast/text/document.h"

namespace stepcast::cli {
namespace {

namespace fs = std::filesystem;

struct CalibrateGpuOptions {
  std::vector<std::string> files;
  std::string device, library, output, json;
};

// A directory that is made if it is missing, and removed again if it stays empty.
class Folder {
 public:
  explicit Folder(const fs::path& path) : path_(path) {
    std::error_code error;
    if (fs::exists(path_, error) && !fs::is_directory(path_, error)) {
      throw option_fault("--output",
                         fmt::format("'{}' is a file; expected a directory", path_.string()));
    }
    made_ = fs::create_directories(path_, error);
    if (error) {
      throw option_fault("--output",
                         fmt::format("cannot make '{}': {}", path_.string(), error.message()));
    }
  }
  ~Folder() {
    std::error_code ignored;
    if (made_) {
      fs::remove(path_, ignored);  // only when nothing is in it
    }
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

 private:
  fs::path path_;
  bool made_ = false;
};

std::string advice(const fs::path& directory, const result::KernelCalibration& found) {
  std::string names;
  for (const auto& file : found.files) {
    names += (names.empty() ? "" : ", ") + file.name;
  }
  return fmt::format("\n{} written to {}; a job uses them with calibration: [auto, {}]\n", names,
                     directory.string(), directory.string());
}

int run_calibrate_gpu(const CalibrateGpuOptions& given) {
  if (given.files.empty()) {
    throw option_fault("calibrate gpu",
                       "missing files; expected those of calibrate-gpu, or tables of kernels");
  }
  if (!given.library.empty() && !is_plain_name(given.library, false)) {
    throw option_fault("--library",
                       fmt::format("'{}' is not a name; expected such as cublas", given.library));
  }
  const auto files = calibrate::read_kernel_files(given.files);
  const auto found = calibrate::calibrate_gpu(files, {given.device, given.library},
                                              text::data_directory() / "calibration");
  const fs::path directory = given.output.empty() ? "calibration-" + found.device : given.output;
  std::optional<Folder> folder;
  Outputs outputs;
  outputs.add("--json", given.json, report::json(found));
  if (!found.files.empty()) {
    folder.emplace(directory);
    for (const auto& file : found.files) {
      outputs.add("--output", directory / file.name, file.yaml);
    }
  }
  outputs.finish("calibrate gpu", [&] {
    return report::terminal(found, terminal_colour()) +
           (found.files.empty() ? "" : advice(directory, found));
  });
  if (found.files.empty()) {
    write_stderr("calibrate gpu: nothing could be fitted; no file is written\n");
    return cannot_run;
  }
  return done;
}

}  // namespace

Run add_calibrate_gpu(Command& app) {
  auto given = std::make_shared<CalibrateGpuOptions>();
  app.add_option("file", given->files,
                 "files of calibrate-gpu, or CSV tables of GEMMs, experts, attention or "
                 "memory-bound kernels, all measured on one GPU model")
      .type_name("FILE...");
  app.add_option("--device", given->device,
                 "the GPU, a name in configs/devices (by default the one that the files name)")
      .type_name("NAME");
  app.add_option("--library", given->library,
                 "library of the GEMMs (by default cublas for calibrate-gpu, and for a table the "
                 "library of its kernels)")
      .type_name("NAME");
  app.add_option("--output", given->output,
                 "directory for the calibration files (by default calibration-DEVICE)")
      .type_name("DIR");
  add_output(app, "--json", given->json, "write the report as JSON");
  app.footer =
      "Examples:\n"
      "  simulate calibrate gpu h200.jsonl\n"
      "  simulate calibrate gpu gemm.csv attention.csv --device h100-sxm --output my-h100\n"
      "Exit status 1: nothing could be fitted.";
  return [given] { return run_calibrate_gpu(*given); };
}

}  // namespace stepcast::cli
