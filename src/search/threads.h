// Evaluates on the threads of one process.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <filesystem>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "evaluation.h"

namespace stepcast::search {

class Threads {
 public:
  Threads(int count, Objective objective, const JobLoader& loader,
          const std::filesystem::path& data_directory);
  // Waits for the evaluations that run, and drops the others.
  ~Threads();
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

  void submit(Order order);
  // One that is finished; waits for it at most so long.
  std::optional<Answer> take(std::chrono::microseconds patience);

 private:
  void work();
  Objective objective_;
  JobLoader loader_;  // its own: threads that are left behind outlast the caller's
  std::filesystem::path data_;
  std::mutex mutex_;
  std::condition_variable ordered_, finished_;
  std::deque<Order> orders_;
  std::deque<Answer> answers_;
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace stepcast::search
