// Finds the best strategy by lower bounds alone: searches millions of combinations without
// simulation.
#include <algorithm>
#include <limits>

#include "enumerate.h"
#include "explain.h"
#include "stepcast/search/objective.h"
#include "stepcast/search/search.h"

namespace stepcast::search {
namespace {

// Keeps the few best items. The result does not depend on the order in which items are added.
class Best {
 public:
  explicit Best(std::size_t size) : size_(std::max<std::size_t>(1, size)) {}
  // The largest bound with which an item can still be among the best.
  double limit() const {
    return found_.size() < size_ ? std::numeric_limits<double>::infinity() : found_.front().bound;
  }
  void add(const Item& one) {
    if (found_.size() == size_) {
      if (!(one < found_.front())) {
        return;
      }
      std::pop_heap(found_.begin(), found_.end());
      found_.pop_back();
    }
    found_.push_back(one);
    std::push_heap(found_.begin(), found_.end());
  }
  std::vector<Item> sorted() const {
    auto out = found_;
    std::sort(out.begin(), out.end());
    return out;
  }

 private:
  std::size_t size_;
  std::vector<Item> found_;  // a heap with the worst in front
};

// Searches the candidates of one family: either all of them in order, or the layouts in the order
// of their smallest possible step time until that exceeds the best items found.
class FamilySearch {
 public:
  FamilySearch(const Family& family, std::uint32_t number, bound::Bound& bound,
               result::SearchCounts& counts, double& least_memory, Best& best)
      : family_(family),
        number_(number),
        bound_(bound),
        free_(family.inner.free()),
        counts_(counts),
        least_memory_(least_memory),
        best_(best) {}

  void exhaustive() {
    each_possible(
        [&](std::uint64_t index, const bound::Bound::Layout& layout) { evaluate(layout, index); });
  }

  void pruned() {
    struct Open {
      double least;
      std::uint64_t index;
    };
    std::vector<Open> open;
    each_possible([&](std::uint64_t index, const bound::Bound::Layout& layout) {
      const double least = to_seconds(bound::Bound::least(layout)) * family_.rate;
      if (least > best_.limit()) {
        counts_.time_pruned += static_cast<std::int64_t>(free_.size());
      } else {
        open.push_back({least, index});
      }
    });
    std::stable_sort(open.begin(), open.end(),
                     [](const Open& a, const Open& b) { return a.least < b.least; });
    for (const Open& one : open) {
      if (one.least > best_.limit()) {
        counts_.time_pruned += static_cast<std::int64_t>(free_.size());
      } else {
        const auto ranks = static_cast<int>(family_.gpus);
        evaluate(*bound_.layout(family_.inner.candidate(one.index, ranks)), one.index);
      }
    }
  }

 private:
  // Calls `visit` with every feasible layout and counts the others as impossible.
  template <class Visit>
  void each_possible(const Visit& visit) {
    each_layout(family_.inner, static_cast<int>(family_.gpus),
                [&](std::uint64_t index, const bound::Candidate& c) {
                  if (const auto* layout = c.data > 0 ? bound_.layout(c) : nullptr) {
                    visit(index, *layout);
                  } else {
                    counts_.impossible += static_cast<std::int64_t>(free_.size());
                  }
                });
  }

  void evaluate(const bound::Bound::Layout& layout, std::uint64_t index) {
    bound::Candidate c;
    const double capacity = family_.capacity;
    for (std::size_t n = 0; n < free_.size(); ++n) {
      family_.inner.take(free_[n], c);
      const bound::Result least = bound_.evaluate(layout, c);
      const auto memory = static_cast<double>(least.memory.count());
      least_memory_ = std::min(least_memory_, memory);
      ++counts_.bounded;
      if (memory > capacity) {
        ++counts_.memory_pruned;
        continue;
      }
      const double bound = to_seconds(least.step) * family_.rate;
      if (bound <= best_.limit()) {
        best_.add({bound, memory, number_, index * free_.size() + n});
      }
    }
  }

  const Family& family_;
  std::uint32_t number_;
  bound::Bound& bound_;
  std::vector<Free> free_;
  result::SearchCounts& counts_;
  double& least_memory_;
  Best& best_;
};

}  // namespace

result::Search search_bounds(const Request& request, const JobLoader& loader,
                             const std::filesystem::path& data_directory, bool exhaustive) {
  forecast::Forecaster forecaster(data_directory);
  result::Search out;
  out.objective = to_string(request.objective);
  out.bounds_only = true;
  Best best(static_cast<std::size_t>(request.ranking));
  std::vector<Family> families;
  Refusals refusals;
  double least_memory = std::numeric_limits<double>::infinity();
  std::int64_t asked = 0;
  const auto look = [&](Family&& family, forecast::Forecaster::Bounds&& bounds) {
    families.push_back(std::move(family));
    FamilySearch one(families.back(), static_cast<std::uint32_t>(families.size() - 1), bounds.of,
                     out.counts, least_memory, best);
    const std::int64_t before = out.counts.bounded + out.counts.time_pruned;
    exhaustive ? one.exhaustive() : one.pruned();
    if (out.counts.bounded + out.counts.time_pruned == before) {
      say_why(families.back(), bounds.of, asked, refusals);
    }
  };
  each_family(request, loader, forecaster, out.counts, refusals, look);
  if (out.counts.impossible == out.counts.candidates) {
    out.counts.asked = asked;
    ask_whole(request, loader, refusals, out.counts);
  }
  for (const Item& f : best.sorted()) {
    const Family& family = families[f.family];
    result::Strategy s;
    s.overrides = overrides_of(family, f.index);
    const double step = f.bound / family.rate;
    s.step_time = {step, step, step};
    s.peak = {f.memory, f.memory, f.memory};
    s.capacity = Bytes(static_cast<std::int64_t>(family.capacity));
    s.gpus = family.gpus;
    s.objective = f.bound;
    s.fits = {true, std::nullopt, s.capacity - Bytes(static_cast<std::int64_t>(f.memory))};
    out.ranking.push_back(std::move(s));
  }
  out.refusals = refusals.sorted();
  out.found = !out.ranking.empty();
  if (out.found) {
    out.best = out.ranking.front();
  } else {
    double capacity = 0;
    for (const Family& f : families) {
      capacity = std::max(capacity, f.capacity);
    }
    out.nearest = nothing_fits(out.counts, out.refusals, least_memory, capacity);
  }
  return out;
}

}  // namespace stepcast::search
