// Estimates active, reserved and process memory from the bytes that a framework allocates.
#pragma once

#include "stepcast/base/quantity.h"

namespace stepcast::memory {

struct Request {
  Bytes allocated;  // peak of live blocks
  Bytes outside;    // context, libraries, NCCL
  bool expandable_segments = false;
  bool several_streams = false;  // buffers on communication streams too, as FSDP has
};

struct Amounts {
  Bytes active, reserved, process;
};

// LAW: reserved = factor x active, process = reserved + outside. A rule of thumb for searches, which
// do not replay the allocator (replay.h). SOURCE: torchtitan and Megatron runs (active 22.7, 49.5 GiB
// against reserved 31.0, 59.4 GiB under FSDP; 26,257 against 30,156 MiB in a pipeline). VALID:
// within some 10 %.
Amounts amounts(const Request& request);

}  // namespace stepcast::memory
