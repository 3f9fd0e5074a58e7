// A GPU of this process; other processes are not involved.
#pragma once

#include <memory>

#include "../harness/device.h"

namespace stepcast::harness::cuda {

// Throws NoDevice with a one-line message if there is no usable GPU.
std::unique_ptr<Device> open_local(int gpu);

}  // namespace stepcast::harness::cuda
