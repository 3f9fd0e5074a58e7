// A request that a computation end early, made from outside or by a deadline. The computation checks it between phases and
// in long loops, and ends by throwing Stopped.
#pragma once

#include <atomic>
#include <chrono>
#include <exception>
#include <optional>

namespace stepcast {

struct Stopped : std::exception {
  const char* what() const noexcept override { return "stopped"; }
};

class Stop {
 public:
  using Clock = std::chrono::steady_clock;

  Stop() = default;
  explicit Stop(Clock::time_point deadline) : deadline_(deadline) {}

  void ask() noexcept { asked_.store(true, std::memory_order_relaxed); }
  bool asked() const { return asked_.load(std::memory_order_relaxed) || (deadline_ && Clock::now() >= *deadline_); }
  // Throws Stopped.
  void check() const {
    if (asked()) {
      throw Stopped();
    }
  }

 private:
  std::atomic<bool> asked_{false};
  std::optional<Clock::time_point> deadline_;
};

// For computations whose Stop is optional.
inline void check(const Stop* stop) {
  if (stop != nullptr) {
    stop->check();
  }
}

}  // namespace stepcast
