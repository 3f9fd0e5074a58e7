#include "enumerate.h"

#include <algorithm>

#include "alike.h"
#include "dimensions.h"

namespace stepcast::search {
namespace {

// At most this many candidates are kept for the engine: those with the smallest bounds.
constexpr std::size_t kKept = 1'000'000;

// Drops all but the items with the smallest bounds.
void trim(Enumerated& e) {
  if (e.items.size() <= kKept) {
    return;
  }
  std::nth_element(e.items.begin(), e.items.begin() + kKept, e.items.end());
  e.complete_below = std::min(e.complete_below, e.items[kKept].bound);
  e.items.resize(kKept);
}

}  // namespace

std::vector<std::string> Enumerated::overrides(const Item& item) const {
  return overrides_of(families[item.family], item.index);
}

bound::Candidate Enumerated::candidate(const Item& item) const {
  const Family& family = families[item.family];
  const std::vector<Free> free = family.inner.free();
  bound::Candidate c =
      family.inner.candidate(item.index / free.size(), static_cast<int>(family.gpus));
  family.inner.take(free[item.index % free.size()], c);
  return c;
}

Enumerated::Refined Enumerated::refine(const Item& item) {
  const Family& family = families[item.family];
  const bound::Candidate c = candidate(item);
  bound::Refined found = bounds[item.family].of.refine(c);
  return {std::max(item.bound, to_seconds(found.step) * family.rate),
          std::max(item.memory, static_cast<double>(found.memory.count())),
          std::move(found.refused)};
}

Enumerated enumerate(const Request& stated, const JobLoader& loader,
                     forecast::Forecaster& forecaster, double memory_limit, const Stop* stop) {
  Request request = stated;
  request.space = followed_space(stated.space, loader);
  Enumerated out;
  Refusals refusals;
  const auto stopped = [&] {
    if (stop != nullptr && out.complete_below > 0 && stop->asked()) {
      out.complete_below = 0;
    }
    return out.complete_below == 0;
  };
  const auto add = [&](Family&& made, forecast::Forecaster::Bounds&& bounds) {
    const auto number = static_cast<std::uint32_t>(out.families.size());
    made.kin = kin_of(made, out.families);
    out.families.push_back(std::move(made));
    out.bounds.push_back(std::move(bounds));
    bound::Bound& bound = out.bounds.back().of;
    const Family& family = out.families.back();
    out.capacity = std::max(out.capacity, family.capacity);
    const std::vector<Free> free = family.inner.free();
    each_own_layout(
        family, free.size(), out.bounds, out.counts, stopped,
        [&](std::uint64_t index, const bound::Candidate& c, const bound::Bound::Layout& layout) {
          bound::Candidate one = c;
          for (std::size_t n = 0; n < free.size(); ++n) {
            if (family.inner.first_free(n, c) != n) {
              ++out.counts.alike;
              continue;
            }
            family.inner.take(free[n], one);
            const bound::Result least = bound.evaluate(layout, one);
            const auto memory = static_cast<double>(least.memory.count());
            out.least_memory = std::min(out.least_memory, memory);
            if (memory > memory_limit * family.capacity) {
              ++out.counts.memory_pruned;
              continue;
            }
            out.items.push_back(
                {to_seconds(least.step) * family.rate, memory, number, index * free.size() + n});
          }
          if (out.items.size() >= 2 * kKept) {
            trim(out);
          }
        });
  };
  each_family(request, loader, forecaster, out.counts, refusals, add, stop);
  static_cast<void>(stopped());
  trim(out);
  std::sort(out.items.begin(), out.items.end());
  if (out.items.empty() && out.counts.memory_pruned == 0 && out.complete_below > 0) {
    for (std::size_t f = 0; f < out.families.size(); ++f) {
      say_why(out.families[f], out.bounds[f].of, out.counts.asked, refusals);
    }
    ask_whole(request, loader, refusals, out.counts);
  }
  out.refusals = refusals.sorted();
  return out;
}

}  // namespace stepcast::search
