#include "max_min.h"

#include <algorithm>
#include <numeric>

#include "stepcast/program/program.h"

namespace stepcast::engine {

void MaxMin::clear() {
  cap.clear();
  first.assign(1, 0);
  uses.clear();
  capacity.clear();
}

void MaxMin::index() {
  start_.assign(capacity.size() + 1, 0);
  for (const Use& u : uses) {
    ++start_[u.resource + 1];
  }
  std::partial_sum(start_.begin(), start_.end(), start_.begin());
  by_resource_.resize(uses.size());
  for (std::uint32_t i = 0; i + 1 < first.size(); ++i) {
    for (std::uint32_t k = first[i]; k < first[i + 1]; ++k) {
      by_resource_[start_[uses[k].resource]++] = i;
    }
  }
  for (std::size_t j = capacity.size(); j > 0; --j) {
    start_[j] = start_[j - 1];
  }
  start_[0] = 0;
}

void MaxMin::freeze(std::uint32_t activity, std::int64_t at) {
  rate[activity] = std::max<std::int64_t>(at, 1);
  for (std::uint32_t k = first[activity]; k < first[activity + 1]; ++k) {
    State& s = state_[uses[k].resource];
    s.residual -= Int128{at} * uses[k].weight;
    s.rising -= uses[k].weight;
  }
}

void MaxMin::solve() {
  const std::size_t n = cap.size();
  rate.assign(n, 0);
  state_.assign(capacity.size(), State{});
  for (std::size_t j = 0; j < capacity.size(); ++j) {
    state_[j].residual = Int128{capacity[j]} * program::kWeightOne;
  }
  for (const Use& u : uses) {
    state_[u.resource].rising += u.weight;
  }
  index();
  by_cap_.resize(n);
  std::iota(by_cap_.begin(), by_cap_.end(), 0U);
  std::sort(by_cap_.begin(), by_cap_.end(),
            [this](std::uint32_t a, std::uint32_t b) { return cap[a] < cap[b]; });
  std::size_t next = 0;
  std::vector<std::uint32_t> full;
  while (next < n) {
    if (rate[by_cap_[next]] != 0) {
      ++next;
      continue;
    }
    bool bound = false;
    Int128 level = 0;
    full.clear();
    for (std::uint32_t j = 0; j < state_.size(); ++j) {
      if (state_[j].rising > 0) {
        const Int128 l = state_[j].residual > 0 ? state_[j].residual / state_[j].rising : 0;
        if (!bound || l < level) {
          level = l;
          bound = true;
          full.clear();
        }
        if (l == level) {
          full.push_back(j);
        }
      }
    }
    if (!bound || Int128{cap[by_cap_[next]]} <= level) {
      while (next < n && (!bound || Int128{cap[by_cap_[next]]} <= level)) {
        if (rate[by_cap_[next]] == 0) {
          freeze(by_cap_[next], cap[by_cap_[next]]);
        }
        ++next;
      }
      continue;
    }
    for (const std::uint32_t j : full) {
      for (std::uint32_t k = start_[j]; k < start_[j + 1]; ++k) {
        if (rate[by_resource_[k]] == 0) {
          freeze(by_resource_[k], static_cast<std::int64_t>(level));
        }
      }
    }
  }
}

}  // namespace stepcast::engine
