// The workers of rank 0: its own threads and those of the other processes of a world. Orders and answers are texts, so that
// it makes no difference which worker gets an order.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "stepcast/search/world.h"

namespace stepcast::search {

// Computes the answer to an order. It must be a pure function; the text of an exception becomes Answer::error.
using Work = std::function<std::string(const std::string& order)>;
// Called once on each worker thread. `start`: the text that rank 0 sends to all workers first.
using MakeWork = std::function<Work(const std::string& start)>;

struct Answer {
  std::uint64_t id = 0;
  std::string text;
  std::string error;  // text of an exception, which is a bug of this program; empty: none
};

class Workers {
 public:
  // `threads`: of this process. `world`: null for this process alone.
  Workers(World* world, int threads, const std::string& start, const MakeWork& make);
  // Waits for the orders that its own threads have begun and drops the others.
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  // Number of orders that keeps all workers busy.
  int capacity() const;
  int in_flight() const;
  // Gives an order to the worker with the fewest orders.
  void submit(std::uint64_t id, std::string order);
  // The next answer; nullopt where none comes within `patience`.
  std::optional<Answer> take(std::chrono::microseconds patience = std::chrono::milliseconds(200));

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// What every rank above 0 does: it works on the orders of rank 0's Workers until the world ends. Unfinished orders run on
// until the process ends.
void serve(World& world, int threads, const MakeWork& make);

}  // namespace stepcast::search
