// Candidates in the order of their refined bounds, refined no earlier than that order asks.
#pragma once

#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <queue>
#include <vector>

#include "enumerate.h"

namespace stepcast::search {

// What refining found, by place in the list.
struct Refinements {
  std::vector<double> bound;  // of the objective; below 0: not refined yet
  std::map<std::size_t, Infeasible> refused;
};

// Of one question: those whose least memory is at most `memory`.
class Queue {
 public:
  // `stop`: time is out. All outlive it.
  Queue(Enumerated& all, Refinements& refined, double memory, std::function<bool()> stop)
      : all_(all), refined_(refined), memory_(memory), stop_(std::move(stop)) {}

  // Place in the list of the n-th candidate; nothing: no more with a bound below `limit`, or time
  // is out.
  std::optional<std::size_t> at(std::size_t n, double limit);
  double bound(std::size_t i) const { return refined_.bound[i]; }
  // Nothing behind the first n has a bound below it.
  double least_behind(std::size_t n) const;

 private:
  double refine(std::size_t i);

  Enumerated& all_;
  Refinements& refined_;
  double memory_;
  std::function<bool()> stop_;
  std::size_t cursor_ = 0;  // of the list: what is behind it has not been looked at
  std::vector<std::size_t> order_;
  using Open = std::pair<double, std::size_t>;
  std::priority_queue<Open, std::vector<Open>, std::greater<>> open_;
};

}  // namespace stepcast::search
