// NCCL's communicators. One at a time is kept: each holds hundreds of MB on every GPU, and ranks of
// a node destroy theirs together. Cases that share ranks, nodes, algo and proto are best run one
// after another.
#pragma once

#include <nccl.h>

#include <set>
#include <string>
#include <vector>

#include "bench.h"
#include "collective_team.h"

namespace stepcast::harness::cuda {

// Unsupported where NCCL says that this cannot be asked of it, else std::runtime_error; with NCCL's
// own words.
void check(ncclResult_t result, const char* what, ncclComm_t comm = nullptr);
// Text of an error that other ranks or the network had; "": none.
std::string error_elsewhere(ncclComm_t comm);

// What NCCL reads when a communicator is made.
struct CommunicatorKey {
  int ranks = 0, nodes = 1;
  std::string algo, proto;  // NCCL_ALGO, NCCL_PROTO; "": its choice
  int channels = 0;         // CTAs of each kernel; 0: its choice
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
  std::set<std::string> verified;  // operations whose results were found right

 private:
  friend void abandon_communicator();
  CommunicatorKey key_;
  std::vector<ncclComm_t> comms_;  // of this process, by slot
  bool broken_ = false;
};

// The kept one where its key is the same, else a new one. Every process, also one that does not
// take part, calls end_communicator_unless(key) before: the ranks of a node end theirs together.
Communicator& communicator(Team& team, const CommunicatorKey& key);
void end_communicator_unless(const CommunicatorKey& key);
void abandon_communicator();  // after a failure: aborted, not ended in order
void close_collectives();

}  // namespace stepcast::harness::cuda
