#include "queue.h"

#include <algorithm>

namespace stepcast::search {

double Queue::refine(std::size_t i) {
  double& bound = refined_.bound[i];
  if (bound < 0) {
    auto found = all_.refine(all_.items[i]);
    bound = found.bound;
    refined_.memory[i] = found.memory;
    if (found.refused) {
      refined_.refused.emplace(i, std::move(*found.refused));
    }
  }
  return bound;
}

std::optional<std::size_t> Queue::at(std::size_t n, double limit) {
  while (order_.size() <= n) {
    const bool more = cursor_ < all_.items.size() && all_.items[cursor_].bound < limit;
    if (more && (open_.empty() || all_.items[cursor_].bound <= open_.top().first)) {
      if (stop_()) {
        return std::nullopt;
      }
      if (all_.items[cursor_].memory <= memory_) {
        const double bound = refine(cursor_);
        if (refined_.memory[cursor_] <= memory_) {
          open_.emplace(bound, cursor_);
        }
      }
      ++cursor_;
    } else if (open_.empty() || open_.top().first >= limit) {
      return std::nullopt;
    } else {
      order_.push_back(open_.top().second);
      open_.pop();
    }
  }
  return order_[n];
}

double Queue::least_behind(std::size_t n) const {
  double out = cursor_ < all_.items.size() ? all_.items[cursor_].bound
                                           : std::numeric_limits<double>::infinity();
  out = n < order_.size() ? std::min(out, bound(order_[n])) : out;
  return open_.empty() ? out : std::min(out, open_.top().first);
}

}  // namespace stepcast::search
