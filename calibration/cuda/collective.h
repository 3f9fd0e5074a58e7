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
  // Makes the communicator (or takes the kept one) and checks, once for each operation on it, that
  // known numbers come out right. Collective over the team. Throws Unsupported, in every process
  // that takes part; std::runtime_error at wrong results.
  Collective(Team& team, const interop::CollectiveCase& what, int channels, std::uint64_t seed);

  // Enqueues one; of a slot's own thread.
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

// What the harness knows NCCL not to have: tree all-gathers, a forced algorithm for sends. "": go.
std::string never_supported(const interop::CollectiveCase& what);

}  // namespace stepcast::harness::cuda
