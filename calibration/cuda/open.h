// A GPU of this process alone, whatever other processes there are.
#pragma once

#include <memory>

#include "../harness/device.h"

namespace stepcast::harness::cuda {

// Throws NoDevice: one line for each way of having no usable GPU.
std::unique_ptr<Device> open_local(int gpu);

}  // namespace stepcast::harness::cuda
