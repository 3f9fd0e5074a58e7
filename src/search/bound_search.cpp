// Finds the best strategy by lower bounds alone: searches millions of combinations without
// simulation.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string>

#include "alike.h"
#include "dimensions.h"
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
  bool takes(const Item& one) const { return found_.size() < size_ || one < found_.front(); }
  // An item that it takes.
  void add(const Item& one) {
    if (found_.size() == size_) {
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

// No bound depends on the other free values.
bool same_bound(const Free& a, const Free& b) {
  return a.offload == b.offload && a.grad_reduce == b.grad_reduce;
}

// What the list leaves out for that; empty: nothing.
std::string unlisted(const std::vector<Family>& families) {
  const auto several = [&](const Choices<char> Inner::*choices) {
    return std::any_of(families.begin(), families.end(), [&](const Family& family) {
      return (family.inner.*choices).values.size() > 1;
    });
  };
  const bool gather = several(&Inner::param_gather);
  const bool stages = several(&Inner::pipeline_overlap);
  return !gather && !stages
             ? ""
             : fmt::format(
                   "no bound depends on {}{}{}: of strategies that differ in nothing else the "
                   "first is listed",
                   gather ? "parallelism.overlap.param_gather" : "",
                   gather && stages ? " and " : "", stages ? "parallelism.overlap.pipeline" : "");
}

// Searches the candidates of one family: either all of them in order, or the layouts in the order
// of their smallest possible step time until that exceeds the best items found.
class FamilySearch {
 public:
  // `bounds`: of all families up to this one, its own last.
  FamilySearch(const Family& family, std::uint32_t number,
               std::vector<forecast::Forecaster::Bounds>& bounds, Refusals& refusals,
               result::SearchCounts& counts, double& least_memory, Best& best)
      : family_(family),
        number_(number),
        bounds_(bounds),
        bound_(bounds.back().of),
        free_(family.inner.free()),
        refusals_(refusals),
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
  template <class Visit>
  void each_possible(const Visit& visit) {
    each_own_layout(
        family_, free_.size(), bounds_, counts_, [] { return false; },
        [&](std::uint64_t index, const bound::Candidate&, const bound::Bound::Layout& layout) {
          visit(index, layout);
        });
  }

  void evaluate(const bound::Bound::Layout& layout, std::uint64_t index) {
    bound::Candidate c;
    const double capacity = family_.capacity;
    bool listed = false;  // one of those that this bound stands for
    for (std::size_t n = 0; n < free_.size(); ++n) {
      listed = listed && same_bound(free_[n - 1], free_[n]);
      family_.inner.take(free_[n], c);
      const bound::Result least = bound_.evaluate(layout, c);
      const auto memory = static_cast<double>(least.memory.count());
      least_memory_ = std::min(least_memory_, memory);
      ++counts_.bounded;
      if (memory > capacity) {
        ++counts_.memory_pruned;
        continue;
      }
      const Item item = {to_seconds(least.step) * family_.rate, memory, number_,
                         index * free_.size() + n};
      if (!listed && best_.takes(item) && is_job(index, n)) {
        best_.add(item);
        listed = true;
      }
    }
  }

  // Sizes that divide may still be refused: only those that would be listed are asked.
  bool is_job(std::uint64_t index, std::size_t n) {
    bound::Candidate c = family_.inner.candidate(index, static_cast<int>(family_.gpus));
    family_.inner.take(free_[n], c);
    const auto why = bound_.refused(c);
    if (why) {
      refusals_.add(*why, 1);
    }
    return !why;
  }

  const Family& family_;
  std::uint32_t number_;
  std::vector<forecast::Forecaster::Bounds>& bounds_;
  bound::Bound& bound_;
  std::vector<Free> free_;
  Refusals& refusals_;
  result::SearchCounts& counts_;
  double& least_memory_;
  Best& best_;
};

}  // namespace

result::Search search_bounds(const Request& stated, const JobLoader& loader,
                             const std::filesystem::path& data_directory, bool exhaustive) {
  Request request = stated;
  request.space = followed_space(stated.space, loader);
  forecast::Forecaster forecaster(data_directory);
  result::Search out;
  out.objective = to_string(request.objective);
  out.bounds_only = true;
  Best best(static_cast<std::size_t>(request.ranking));
  std::vector<Family> families;
  std::vector<forecast::Forecaster::Bounds> all_bounds;
  Refusals refusals;
  double least_memory = std::numeric_limits<double>::infinity();
  std::int64_t asked = 0;
  const auto look = [&](Family&& family, forecast::Forecaster::Bounds&& bounds) {
    family.kin = kin_of(family, families);
    families.push_back(std::move(family));
    all_bounds.push_back(std::move(bounds));
    FamilySearch one(families.back(), static_cast<std::uint32_t>(families.size() - 1), all_bounds,
                     refusals, out.counts, least_memory, best);
    const result::SearchCounts& c = out.counts;
    const std::int64_t before = c.bounded + c.time_pruned + c.alike;
    exhaustive ? one.exhaustive() : one.pruned();
    if (c.bounded + c.time_pruned + c.alike == before) {
      say_why(families.back(), all_bounds.back().of, asked, refusals);
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
    out.why = unlisted(families);
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
