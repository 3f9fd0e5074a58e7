// A wish that a computation end early: asked of it from outside, or by a point in time. Whoever
// computes looks between its phases and in long loops, and unwinds by throwing.
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

// Of a computation that may have none.
inline void check(const Stop* stop) {
  if (stop != nullptr) {
    stop->check();
  }
}

}  // namespace stepcast
