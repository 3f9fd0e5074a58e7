// The file of measurements: JSON lines, each on disk before the next case starts.
#pragma once

#include <cstddef>
#include <filesystem>
#include <set>
#include <string>

#include "stepcast/interop/gpu_measurements.h"

namespace stepcast::harness {

// "measurements-h200.jsonl" of "NVIDIA H200".
std::string default_output(const std::string& gpu);

class Output {
 public:
  // Creates the file, or goes on with it: a last line without its end is cut off, a session is
  // appended. Throws InputError when it holds something else, or another GPU's measurements;
  // std::runtime_error when it cannot be written or another calibrate-gpu writes it.
  Output(std::filesystem::path file, const interop::GpuSession& session);
  ~Output();
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  bool has(const std::string& key) const { return keys_.contains(key); }
  std::size_t resumed() const { return resumed_; }  // cases found in it
  const std::filesystem::path& file() const { return file_; }

  // Returns when the line is on the disk. Throws std::runtime_error (disk full).
  void append(const interop::GpuMeasurement& measurement);

 private:
  void write(const std::string& line);

  std::filesystem::path file_;
  int descriptor_ = -1;
  std::set<std::string> keys_;
  std::size_t resumed_ = 0;
};

}  // namespace stepcast::harness
