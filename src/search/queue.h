// Yields candidates in the order of their refined bounds, and refines no more bounds than that
// order needs.
#pragma once

#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <queue>
#include <vector>

#include "enumerate.h"

namespace stepcast::search {

// Refined bounds, indexed by position in the list of candidates.
struct Refinements {
  std::vector<double> bound;   // of the objective; below 0: not refined yet
  std::vector<double> memory;  // of the fullest GPU's bytes
  std::map<std::size_t, Infeasible> refused;
};

// The candidates whose lower bound of memory is at most `memory`.
class Queue {
 public:
  // `stop` returns true when the time limit is reached. All arguments must outlive the queue.
  Queue(Enumerated& all, Refinements& refined, double memory, std::function<bool()> stop)
      : all_(all), refined_(refined), memory_(memory), stop_(std::move(stop)) {}

  // Position in the list of the n-th candidate. Returns nothing if no further candidate has a bound
  // below `limit`, or the time limit is reached.
  std::optional<std::size_t> at(std::size_t n, double limit);
  double bound(std::size_t i) const { return refined_.bound[i]; }
  // A lower bound of all candidates after the first n.
  double least_behind(std::size_t n) const;

 private:
  double refine(std::size_t i);

  Enumerated& all_;
  Refinements& refined_;
  double memory_;
  std::function<bool()> stop_;
  std::size_t cursor_ = 0;  // position in the list; candidates from here on have not been examined
  std::vector<std::size_t> order_;
  using Open = std::pair<double, std::size_t>;
  std::priority_queue<Open, std::vector<Open>, std::greater<>> open_;
};

}  // namespace stepcast::search
