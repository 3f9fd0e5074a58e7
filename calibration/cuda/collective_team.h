// The GPUs of this process that take part in a case of several ranks, one host thread each, as
// training runs them: one thread for all would issue the launches one after another and be timed
// for it (8 GPUs: 30 us and more). The first GPU's work runs on the calling thread, which alone may
// talk to other processes.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bench.h"
#include "mpi.h"

namespace stepcast::harness::cuda {

struct Slot {
  int index = 0;  // in the team
  int rank = 0;   // of the collective
  int gpu = 0;
  Context* context = nullptr;  // the caller's on its own GPU
  std::unique_ptr<Context> own;
  ~Slot();
};

class Team {
 public:
  // Collective over all processes. Throws Unsupported, in all of them, where there are fewer GPUs.
  Team(Context& context, int ranks, int nodes);
  explicit Team(Context& context);  // this GPU alone, whatever other processes there are
  ~Team();                          // the caller's GPU is the current one again
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  bool in() const { return !slots_.empty(); }  // else another process's affair
  std::size_t size() const { return slots_.size(); }
  int ranks() const { return ranks_; }
  const std::vector<int>& gpus() const { return gpus_; }  // in the order of the slots
  const Party& party() const { return *party_; }

  // Called when a run has failed, before anything is given back: what still runs on a GPU and waits
  // for a rank that will not come must end first, or freeing its memory would wait for ever.
  void on_failure(std::function<void()> end) { on_failure_ = std::move(end); }

  // Calls `work` for each slot, its GPU current, and returns when all are through. The first
  // failure is thrown; slots that wait for one that failed are freed.
  void run(const std::function<void(Slot&)>& work);
  // The same; Unsupported anywhere is thrown in every process that takes part. `work` must not
  // meet().
  void together(const std::function<void(Slot&)>& work);

  // Inside run():
  void meet(const Slot& slot);  // all ranks of all processes are here
  // The stream is empty. `broken` is asked now and then for the text of an error elsewhere.
  void wait(cudaStream_t stream, const std::function<std::string()>& broken = nullptr);

 private:
  void meet_here();

  int gpu_;  // the caller's
  int ranks_;
  std::vector<std::unique_ptr<Slot>> slots_;
  std::vector<int> gpus_;
  std::unique_ptr<Party> party_;
  std::function<void()> on_failure_;
  std::atomic<bool> failed_{false};
  std::atomic<int> waiting_{0};
  std::atomic<unsigned> round_{0};
};

}  // namespace stepcast::harness::cuda
