#include "sweep_finish.h"

#include <algorithm>
#include <map>

namespace stepcast::planner {
namespace {

using result::Sweep;
using result::SweepPoint;

// Points that differ along one axis only.
std::map<std::vector<std::size_t>, std::vector<SweepPoint*>> lines(Sweep& sweep, std::size_t axis) {
  std::map<std::vector<std::size_t>, std::vector<SweepPoint*>> out;
  for (SweepPoint& p : sweep.points) {
    if (p.ran) {
      std::vector<std::size_t> rest = p.at;
      rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(axis));
      out[rest].push_back(&p);
    }
  }
  return out;
}

bool changes_gpus(Sweep& sweep, std::size_t axis) {
  const auto all = lines(sweep, axis);
  return std::any_of(all.begin(), all.end(), [](const auto& line) {
    return std::any_of(line.second.begin(), line.second.end(),
                       [&](const SweepPoint* p) { return p->gpus != line.second.front()->gpus; });
  });
}

void fill_efficiency(Sweep& sweep, std::size_t axis) {
  for (auto& [at, line] : lines(sweep, axis)) {
    const SweepPoint* least = nullptr;
    for (const SweepPoint* p : line) {
      if (p->fits && (least == nullptr || p->gpus < least->gpus)) {
        least = p;
      }
    }
    for (SweepPoint* p : line) {
      if (least != nullptr) {
        p->efficiency = p->tokens_per_second_per_gpu.value / least->tokens_per_second_per_gpu.value;
      }
    }
  }
}

// By time for a token, then by what it costs: a batch that is varied changes what a step is.
void mark_front(Sweep& sweep) {
  std::vector<SweepPoint*> points;
  for (SweepPoint& p : sweep.points) {
    if (p.fits) {
      points.push_back(&p);
    }
  }
  std::stable_sort(points.begin(), points.end(), [](const SweepPoint* a, const SweepPoint* b) {
    return a->tokens_per_second != b->tokens_per_second
               ? a->tokens_per_second > b->tokens_per_second
               : a->gpu_hours_per_gigatoken < b->gpu_hours_per_gigatoken;
  });
  const SweepPoint* last = nullptr;  // point of the front: the cheapest of those as fast
  for (SweepPoint* p : points) {
    const bool alike = last != nullptr && p->tokens_per_second == last->tokens_per_second &&
                       p->gpu_hours_per_gigatoken == last->gpu_hours_per_gigatoken;
    if (last == nullptr || alike || p->gpu_hours_per_gigatoken < last->gpu_hours_per_gigatoken) {
      p->on_front = true;
      last = p;
    }
  }
}

}  // namespace

void finish(Sweep& sweep) {
  for (std::size_t i = 0; i < sweep.axes.size() && !sweep.scaling_axis; ++i) {
    if (changes_gpus(sweep, i)) {
      sweep.scaling_axis = i;
      fill_efficiency(sweep, i);
    }
  }
  mark_front(sweep);
}

}  // namespace stepcast::planner
