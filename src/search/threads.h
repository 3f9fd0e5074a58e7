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
  // At most `count` threads: fewer where the process may have no more. Without any, take() does the
  // work itself.
  Threads(int count, std::string start, MakeWork make);
  // Waits for running orders and drops the others.
  ~Threads();
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

  int count() const { return static_cast<int>(threads_.size()); }

  void submit(std::uint64_t id, std::string order);
  // Returns a finished answer. Waits for one at most `patience`.
  std::optional<Answer> take(std::chrono::microseconds patience);

 private:
  struct Order {
    std::uint64_t id = 0;
    std::string text;
  };
  void work();
  // The answer to an order. `mine`: what the thread works with, made for its first order.
  Answer answer_to(const Order& order, Work& mine) const;
  std::optional<Answer> take_without_threads();

  std::string start_;
  MakeWork make_;  // a copy, because detached threads outlive the caller's object
  std::mutex mutex_;
  std::condition_variable ordered_, finished_;
  std::deque<Order> orders_;
  std::deque<Answer> answers_;
  bool stop_ = false;
  Work own_;  // of take_without_threads
  std::vector<std::thread> threads_;
};

}  // namespace stepcast::search
