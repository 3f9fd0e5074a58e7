// A forecast's step as traces that PyTorch's profiler could have written, and as Chakra's execution traces.
#pragma once

#include <cstdint>

#include "stepcast/base/output_file.h"
#include "stepcast/result/report.h"

namespace stepcast::trace {

struct KinetoOptions {
  int steps = 3;            // the steady step so often; a reader leaves out the last
  std::int64_t rank = 0;    // as the file states it
  int world_size = 0;       // likewise
  std::string device = "";  // likewise; "": not stated
};

// The step of rank `rank` of Report::trace's world as Kineto's JSON: kernels with their launches, phases of the host, and
// what NCCL records of collectives. Names of kernels say what they compute and are no library's.
void write_kineto(const result::Report& report, std::uint32_t rank, const KinetoOptions& options, OutputFile& file);

}  // namespace stepcast::trace
