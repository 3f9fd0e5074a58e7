// PyTorch's memory snapshot: what torch.cuda.memory._dump_snapshot writes, and its viewer and torch.cuda._memory_viz read.
#pragma once

#include <string>

#include "stepcast/result/memory.h"

namespace stepcast::interop {

// A pickle of {"segments", "device_traces", "allocator_settings", "external_annotations"}; a device is a pipeline stage.
// Every block and event carries our label as its innermost frame, the buffer that it is a part of as the next, and the
// stage as the outermost; an event's "category" is the buffer's, which the viewer colours by. Times are microseconds from
// the host's first allocation of the step. SOURCE: torch/csrc/cuda/memory_snapshot.cpp, torch/cuda/_memory_viz.py.
std::string torch_snapshot(const result::MemoryTimeline& memory);

}  // namespace stepcast::interop
