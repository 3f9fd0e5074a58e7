// Evaluates orders on the threads of one process.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "stepcast/search/workers.h"

namespace stepcast::search {

class Threads {
 public:
  Threads(int count, std::string start, MakeWork make);
  // Waits for running orders and drops the others.
  ~Threads();
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

  void submit(std::uint64_t id, std::string order);
  // Returns a finished answer. Waits for one at most `patience`.
  std::optional<Answer> take(std::chrono::microseconds patience);

 private:
  struct Order {
    std::uint64_t id = 0;
    std::string text;
  };
  void work();
  std::string start_;
  MakeWork make_;  // a copy, because detached threads outlive the caller's object
  std::mutex mutex_;
  std::condition_variable ordered_, finished_;
  std::deque<Order> orders_;
  std::deque<Answer> answers_;
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace stepcast::search
