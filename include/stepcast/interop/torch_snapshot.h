// PyTorch's memory snapshot, as torch.cuda.memory._dump_snapshot writes it and torch.cuda._memory_viz and its viewer read
// it.
#pragma once

#include <string>

#include "stepcast/result/memory.h"

namespace stepcast::interop {

// A pickle of {"segments", "device_traces", "allocator_settings", "external_annotations"}. Each pipeline stage is a device.
// Every block and event has the tensor's label as its innermost frame, the buffer that it is a part of as the next, and the
// stage as the outermost. An event's "category" is that of the buffer; the viewer colours events by it. Times are
// microseconds from the host's first allocation of the step. SOURCE: torch/csrc/cuda/memory_snapshot.cpp,
// torch/cuda/_memory_viz.py.
std::string torch_snapshot(const result::MemoryTimeline& memory);

}  // namespace stepcast::interop
