// One collective on the GPUs of this process, out of place.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "../harness/nccl_table.h"
#include "bench.h"
#include "collective_team.h"
#include "nccl.h"

namespace stepcast::harness::cuda {

class Collective {
 public:
  // Makes the communicator (or takes the kept one) and checks once for each operation that known
  // numbers give the right result. All processes of the team must call this. Throws Unsupported in
  // every process that takes part, and std::runtime_error for wrong results.
  Collective(Team& team, const interop::CollectiveCase& what, int channels, std::uint64_t seed);

  // Enqueues one collective. Call it from the slot's own thread.
  void launch(const Slot& slot, cudaStream_t stream) const;
  ncclComm_t of(const Slot& slot) const { return communicator_->of(slot); }

 private:
  interop::CollectiveCase what_;
  Communicator* communicator_ = nullptr;
  CollectiveCounts counts_;
  std::vector<Buffer> send_, receive_;  // by slot
};

// The communicator that a case needs.
CommunicatorKey key_of(const interop::CollectiveCase& what, int channels, const Team& team);

// Why NCCL can never run the case, as far as the harness knows: tree all-gathers, a forced
// algorithm for sends. "": it may be supported.
std::string never_supported(const interop::CollectiveCase& what);

}  // namespace stepcast::harness::cuda
