// Messages between pipeline stages: the forms that frameworks use, each a feature of its own, and
// what the forms share.
#pragma once

#include <vector>

#include "../stage/feature.h"

namespace stepcast::lower {

enum class Transport {
  none,                  // one stage
  blocking,              // messages hold the compute stream up (pipeline_blocking.cpp)
  interleaved_blocking,  // likewise, several at once (pipeline_interleaved.cpp)
  overlapped,            // interleaved, beside compute (pipeline_overlapped.cpp)
  any_order              // any order on any placement, beside compute (pipeline_order.cpp)
};
Transport transport_of(const strategy::Plan& plan);

struct Message {
  bool needed = false;
  program::Transfer transfer;
};
// Of an activation, or of the gradient that comes back for it, which a chunk of this rank sends or
// receives.
program::PriceKey message_price(const Stage& stage, int chunk, bool forward, bool sends);
// Of a slot's pass in Megatron-LM's own loops. Keys make a wrong pairing a detected fault: the
// receiving stage and the micro-batch.
Message receive_of(const Stage& stage, const schedule::Slot& slot);
Message send_of(const Stage& stage, const schedule::Slot& slot);
// Of this rank's slot `slot`; behind the last one there is nothing to receive.
Message receive_at(const Stage& stage, std::size_t slot);
// Messages that are posted together on the compute stream, as far as they are needed.
void exchange(Stage& stage, const std::vector<Message>& messages);
// SC21's scatter/gather optimisation: each tensor rank received 1/t of the message and gathers the
// rest over NVLink. Behind a whole gradient DeepSpeed gathers the pass's own result again, of which
// it kept 1/t (0.5.3, runtime/pipe/engine.py: _exec_recv_grads).
void after_receive(Stage& stage, const std::vector<Message>& messages);

// Beside compute, each on a stream of its own: a send behind the pass that made the message, a
// receive for a slot's pass behind what the compute stream was given so far.
void send_beside(Stage& stage, program::StreamIndex stream, const program::Transfer& transfer,
                 schedule::Pass pass);
Mark receive_beside(Stage& stage, program::StreamIndex stream, const program::Transfer& transfer,
                    const schedule::Slot& slot);
// The compute stream waits for a receive that was posted.
void await_received(Stage& stage, const Mark& received);

}  // namespace stepcast::lower
