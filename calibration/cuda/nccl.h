// NCCL's communicators. Only one is kept at a time: each needs hundreds of MB on every GPU, and the
// ranks of a node must destroy theirs together. Cases with the same ranks, nodes, algo and proto
// are best run consecutively.
#pragma once

#include <nccl.h>

#include <set>
#include <string>
#include <vector>

#include "bench.h"
#include "collective_team.h"

namespace stepcast::harness::cuda {

// Throws Unsupported if NCCL reports an invalid use, and std::runtime_error for other errors; both
// have NCCL's own text.
void check(ncclResult_t result, const char* what, ncclComm_t comm = nullptr);
// Text of an error on another rank or in the network; "": none.
std::string error_elsewhere(ncclComm_t comm);

// The settings that NCCL reads when a communicator is made.
struct CommunicatorKey {
  int ranks = 0, nodes = 1;
  std::string algo, proto;  // NCCL_ALGO and NCCL_PROTO; "": NCCL chooses
  int channels = 0;         // CTAs of each kernel; 0: NCCL chooses
  std::vector<int> gpus;    // of this process
  friend bool operator==(const CommunicatorKey&, const CommunicatorKey&) = default;
};

class Communicator {
 public:
  Communicator(Team& team, CommunicatorKey key);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  const CommunicatorKey& key() const { return key_; }
  ncclComm_t of(const Slot& slot) const { return comms_.at(static_cast<std::size_t>(slot.index)); }
  std::set<std::string> verified;  // operations whose results have been verified

 private:
  friend void abandon_communicator();
  CommunicatorKey key_;
  std::vector<ncclComm_t> comms_;  // for each slot of this process
  bool broken_ = false;
};

// Returns the kept communicator if it has the same key, otherwise a new one. Every process,
// including those that do not take part, must call end_communicator_unless(key) before, since the
// ranks of a node destroy theirs together.
Communicator& communicator(Team& team, const CommunicatorKey& key);
void end_communicator_unless(const CommunicatorKey& key);
void abandon_communicator();  // after a failure: aborts it without an orderly end
void close_collectives();

}  // namespace stepcast::harness::cuda
