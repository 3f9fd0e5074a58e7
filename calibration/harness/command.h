// calibrate-gpu without its GPU: what main hands the CUDA side to, and tests a fake.
#pragma once

#include <functional>
#include <memory>
#include <ostream>
#include <vector>

#include "harness/device.h"

namespace stepcast::harness {

struct Hooks {
  std::function<std::unique_ptr<Device>(int gpu)> open;
  // After open: GPUs that the processes of each node bring; empty: one node, the visible ones.
  std::function<std::vector<int>()> gpus_per_node;
  std::function<bool()> stop;     // SIGINT has come
  std::function<double()> clock;  // seconds
};

// Exit status: 0; 1 the device or the disk failed; 2 bad options, bad file, no usable GPU; 130
// interrupted.
int command(int argc, const char* const* argv, const Hooks& hooks, std::ostream& out,
            std::ostream& err, bool terminal);

}  // namespace stepcast::harness
