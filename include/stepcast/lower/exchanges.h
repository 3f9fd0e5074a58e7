// Which messages between neighbouring stages are posted together.
#pragma once

#include <cstddef>
#include <vector>

#include "stepcast/strategy/plan.h"

namespace stepcast::lower {

// Messages that the compute stream posts at once and waits for, all of them.
struct Exchange {
  struct Message {
    std::size_t slot = 0;  // of the rank
    bool sends = false;    // what this slot has made; else the input of this slot is received
  };
  std::size_t behind = 0;  // so many of the rank's slots have run
  std::vector<Message> messages;
};

// Megatron-LM's interleaved 1F1B without overlap (megatron-core 0.16.1, pipeline_parallel/schedules.py,
// forward_backward_pipelining_with_interleaving): behind each warm-up forward the send and the next receive go together; in
// the steady phase all four messages behind each pair of a forward and a backward pass. Messages that the first and the last
// stage do not have are left out.
std::vector<Exchange> interleaved_exchanges(const strategy::Plan& plan, int rank);

}  // namespace stepcast::lower
