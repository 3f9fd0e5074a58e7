// The GPUs of this process that take part in a case of several ranks, with one host thread each, as
// in training. A single thread would issue the launches one after another, and its delay would be
// measured (30 us and more for 8 GPUs). The first GPU's work runs on the calling thread; only this
// thread may communicate with other processes.
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
  int index = 0;  // index in the team
  int rank = 0;   // rank in the collective
  int gpu = 0;
  Context* context = nullptr;  // the caller's context if this is its GPU
  std::unique_ptr<Context> own;
  ~Slot();
};

class Team {
 public:
  // All processes must call this. Throws Unsupported in all of them if there are not enough GPUs.
  Team(Context& context, int ranks, int nodes);
  explicit Team(Context& context);  // only this GPU, even if there are other processes
  ~Team();                          // makes the caller's GPU current again
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  bool in() const { return !slots_.empty(); }  // false: only other processes take part
  std::size_t size() const { return slots_.size(); }
  int ranks() const { return ranks_; }
  const std::vector<int>& gpus() const { return gpus_; }  // in the order of the slots
  const Party& party() const { return *party_; }

  // Sets a function that is called after a failed run, before anything is released. It must end
  // work on a GPU that waits for a missing rank, since freeing memory would otherwise block
  // forever.
  void on_failure(std::function<void()> end) { on_failure_ = std::move(end); }

  // Calls `work` for each slot with its GPU current, and returns when all calls have ended. Throws
  // the first failure; slots that wait for a failed one are released.
  void run(const std::function<void(Slot&)>& work);
  // As run(), but Unsupported in any process is thrown in every process that takes part. `work`
  // must not call meet().
  void together(const std::function<void(Slot&)>& work);

  // Only inside run():
  void meet(const Slot& slot);  // barrier over all ranks of all processes
  // Waits until the stream is empty. `broken` is polled for the text of an error elsewhere.
  void wait(cudaStream_t stream, const std::function<std::string()>& broken = nullptr);

 private:
  void meet_here();

  int gpu_;  // of the caller
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
