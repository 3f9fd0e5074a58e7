// The command line of calibrate-gpu.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace stepcast::harness {

struct Options {
  std::string output;  // "": by the GPU's name
  double minutes = 5;
  std::vector<std::string> only, models;
  std::string device;  // a data sheet, for --dry-run
  int gpu = 0;
  int gpus = 0;  // of the node that collectives run over; 0: all
  std::uint64_t seed = 1;
  bool dry_run = false, nccl_table = false, quiet = false, list = false;
  std::string help;  // --help or --version was given: what to print
};

struct UsageError : std::runtime_error {  // one line
  using std::runtime_error::runtime_error;
};

Options parse_options(int argc, const char* const* argv);

}  // namespace stepcast::harness
