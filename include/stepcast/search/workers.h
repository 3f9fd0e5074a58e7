// Everyone who works for rank 0: its own threads, and those of the other processes of a world. An order and its answer are
// texts, so that it is the same who gets it.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "stepcast/search/world.h"

namespace stepcast::search {

// From an order to its answer: a pure function. What it throws becomes Answer::error.
using Work = std::function<std::string(const std::string& order)>;
// Called once on each thread that works. `start`: what rank 0 says to all.
using MakeWork = std::function<Work(const std::string& start)>;

struct Answer {
  std::uint64_t id = 0;
  std::string text;
  std::string error;  // our bug: what was thrown
};

class Workers {
 public:
  // `threads` of this process. `world` may be null: this process alone.
  Workers(World* world, int threads, const std::string& start, const MakeWork& make);
  // Waits for the orders that its own threads have begun, and drops the others.
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  // Orders that keep all busy.
  int capacity() const;
  int in_flight() const;
  // To whoever has least to do.
  void submit(std::uint64_t id, std::string order);
  // One answer; nullopt when none comes so soon.
  std::optional<Answer> take(std::chrono::microseconds patience = std::chrono::milliseconds(200));

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// What every rank above 0 does: works on what rank 0's Workers hand out, until the world ends. What is unfinished then runs
// on until the process ends.
void serve(World& world, int threads, const MakeWork& make);

}  // namespace stepcast::search
