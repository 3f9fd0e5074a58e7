// Traces made up for tests, in the form that PyTorch's profiler writes.
#pragma once

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "support/folder.h"

namespace stepcast::test {

// Times are in microseconds.
class MadeTrace {
 public:
  // A kernel of a stream, which the host launched at `launched`; below 0: the trace does not say.
  MadeTrace& kernel(const std::string& name, double start, double duration, int stream = 7,
                    double launched = -1, const std::string& more = "") {
    ++correlation_;
    if (launched >= 0) {
      events.push_back(fmt::format(
          R"({{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": {}, "dur": 1,
    "args": {{"External id": {}, "correlation": {}}}}})",
          start_ + launched, correlation_, correlation_));
    }
    events.push_back(fmt::format(
        R"({{"ph": "X", "cat": "kernel", "name": "{}", "pid": {}, "tid": {}, "ts": {}, "dur": {},
    "args": {{"device": {}, "stream": {}, "correlation": {}{}}}}})",
        name, device, stream, start_ + start, duration, device, stream, correlation_, more));
    return *this;
  }
  MadeTrace& step(int number, double start, double duration) {
    events.push_back(fmt::format(
        R"({{"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#{}", "pid": 1, "tid": 1, "ts": {}, "dur": {}}})",
        number, start_ + start, duration));
    return *this;
  }
  MadeTrace& op(const std::string& name, double start, double duration, const std::string& dims,
                const std::string& types) {
    events.push_back(fmt::format(
        R"({{"ph": "X", "cat": "cpu_op", "name": "{}", "pid": 1, "tid": 1, "ts": {}, "dur": {},
    "args": {{"External id": 5, "Input Dims": {}, "Input type": {}}}}})",
        name, start_ + start, duration, dims, types));
    return *this;
  }

  std::string text() const {
    return fmt::format("{{\n\"schemaVersion\": 1,\n{}\"traceEvents\": [\n{}\n]}}\n", head,
                       fmt::join(events, ",\n"));
  }

  int device = 0;
  std::string head;  // further members: "\"distributedInfo\": {...},\n"
  std::vector<std::string> events;

 private:
  static constexpr double start_ = 1000000;
  int correlation_ = 100;
};

inline std::filesystem::path file_of(const Folder& folder, const std::string& name,
                                     const std::string& text) {
  const std::filesystem::path path = folder / name;
  std::ofstream(path, std::ios::binary) << text;
  return path;
}

}  // namespace stepcast::test
