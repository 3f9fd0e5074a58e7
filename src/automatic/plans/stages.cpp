#include "stages.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "../infinity.h"

namespace stepcast::automatic {
namespace {

std::size_t index(int i) { return static_cast<std::size_t>(i); }

class Planner {
 public:
  Planner(const StageProblem& p, bool exact) : p_(p) {
    // Devices are counted in units of the greatest common divisor of all shapes.
    unit_ = p.devices;
    for (const int n : p.shapes) {
      unit_ = std::gcd(unit_, n);
    }
    units_ = p.devices / unit_;
    // There are at most as many stages as blocks, and as smallest shapes that the devices provide.
    const int smallest = *std::min_element(p.shapes.begin(), p.shapes.end());
    max_stages_ = std::min({p.blocks, p.devices / smallest, p.most_stages});
    min_stages_ = std::max(1, p.stages);
    if (p.shapes.size() == 1) {
      // All devices are used, so their number fixes the number of stages and need not be counted.
      const int all = p.devices % smallest == 0 ? p.devices / smallest : 0;
      min_stages_ = std::max(1, all);
      max_stages_ = all > 0 && all <= max_stages_ && (p.stages == 0 || p.stages == all) ? all : 0;
      unit_ = p.devices + 1;
      units_ = 0;
    } else if (p.stages > 0) {
      max_stages_ = p.stages <= max_stages_ ? p.stages : 0;
    }
    fill(exact);
  }

  // The best plan by the times known so far.
  StagePlan best() {
    StagePlan out;
    out.latency = p_.limit;
    if (max_stages_ > 0) {
      least_slowest(out);
      if (p_.latency == StageProblem::Latency::sum_and_slowest) {
        least_sums(out);
      }
    }
    if (out.stages.empty()) {
      out.latency = kInfinity;
    }
    return out;
  }

  // Requests the times of a plan's stages. Returns false if all were known.
  bool ask(const StagePlan& plan) {
    bool any = false;
    for (std::size_t i = 0; i < plan.stages.size(); ++i) {
      const PlannedStage& s = plan.stages[i];
      const auto later = static_cast<int>(plan.stages.size() - 1 - i);
      const auto [begin, end] = ways(later + 1, s.first);
      for (const Way* w = begin; w != end; ++w) {
        if (w->last == s.last && w->shape == s.shape && !known_[index(w->time)]) {
          times_[index(w->time)] = p_.time(s.first, s.last, s.shape, later);
          known_[index(w->time)] = true;
          any = true;
        }
      }
    }
    return any;
  }

 private:
  // One possible stage that starts at a given block.
  struct Way {
    int last = 0;
    int shape = 0;
    int units = 0;
    int time = 0;  // index of its time
  };
  struct Cell {
    double value = kInfinity;
    int way = 0;
  };

  // The range [first, last) of `ways_`.
  std::pair<const Way*, const Way*> ways(int stages, int first) const {
    const std::size_t bucket = index(stages - 1) * index(p_.blocks) + index(first);
    return {ways_.data() + begin_[bucket], ways_.data() + begin_[bucket + 1]};
  }

  void fill(bool exact) {
    std::map<int, int> place;
    std::vector<std::pair<std::size_t, Way>> found;  // sorted by bucket
    for (int first = 0; first < p_.blocks; ++first) {
      for (int last = first + 1; last <= p_.blocks; ++last) {
        for (int n = 0; n < static_cast<int>(p_.shapes.size()); ++n) {
          // Every stage before and after needs at least one block and one device.
          const int front = first > 0 ? 1 : 0;
          const int behind = last < p_.blocks ? 1 : 0;
          // If the number of stages is fixed, the first stage has all the others after it.
          const int least = min_stages_ == max_stages_ && first == 0 ? max_stages_ - 1 : behind;
          for (int later = least; later <= std::min(p_.blocks - last, max_stages_ - 1 - front);
               ++later) {
            add(first, last, n, later, exact, place, found);
            if (last == p_.blocks) {
              break;
            }
          }
        }
      }
    }
    begin_.assign(index(max_stages_) * index(p_.blocks) + 1, 0);
    for (const auto& [bucket, way] : found) {
      ++begin_[bucket + 1];
    }
    std::partial_sum(begin_.begin(), begin_.end(), begin_.begin());
    ways_.resize(found.size());
    std::vector<std::size_t> next(begin_.begin(), begin_.end() - 1);
    for (const auto& [bucket, way] : found) {
      ways_[next[bucket]++] = way;
    }
  }

  void add(int first, int last, int shape, int later, bool exact, std::map<int, int>& place,
           std::vector<std::pair<std::size_t, Way>>& out) {
    auto at = static_cast<int>(times_.size());
    bool fresh = true;
    if (p_.alike && (exact || p_.least)) {
      const auto [found, is_new] = place.try_emplace(p_.alike(first, last, shape, later), at);
      at = found->second;
      fresh = is_new;
    }
    if (fresh) {
      times_.push_back(exact ? p_.time(first, last, shape, later)
                             : p_.least(first, last, shape, later));
      known_.push_back(exact);
    }
    if (!std::isinf(times_[index(at)])) {
      out.push_back({index(later) * index(p_.blocks) + index(first),
                     {last, shape, p_.shapes[index(shape)] / unit_, at}});
    }
  }

  // Fills f[s, first, units]; `join` combines a stage's time with the value of the stages after it.
  template <class Join>
  void solve(double cap, Join&& join) {
    cells_.assign(index(max_stages_ + 1) * index(p_.blocks + 1) * index(units_ + 1), Cell());
    at(0, p_.blocks, 0).value = 0;
    for (int s = 1; s <= max_stages_; ++s) {
      for (int first = p_.blocks - 1; first >= 0; --first) {
        Cell* here = &at(s, first, 0);
        const auto [begin, end] = ways(s, first);
        for (const Way* w = begin; w != end; ++w) {
          const double t = times_[index(w->time)];
          if (t > cap) {
            continue;
          }
          const Cell* there = &at(s - 1, w->last, 0);
          for (int units = w->units; units <= units_; ++units) {
            const double value = join(t, there[units - w->units].value);
            if (value < here[units].value) {
              here[units] = {value, static_cast<int>(w - ways_.data())};
            }
          }
        }
      }
    }
  }

  Cell& at(int stages, int first, int units) {
    return cells_[(index(stages) * index(p_.blocks + 1) + index(first)) * index(units_ + 1) +
                  index(units)];
  }

  std::vector<PlannedStage> follow(int stages) {
    std::vector<PlannedStage> out;
    int first = 0;
    int units = units_;
    for (int s = stages; s > 0; --s) {
      const Way& w = ways_[index(at(s, first, units).way)];
      out.push_back({first, w.last, w.shape, times_[index(w.time)]});
      units -= w.units;
      first = w.last;
    }
    return out;
  }

  // Takes from the table the plan of each number of stages if it is better. Returns the slowest
  // stage of any plan.
  double take(StagePlan& out) {
    double slowest = -kInfinity;
    for (int s = min_stages_; s <= max_stages_; ++s) {
      if (std::isinf(at(s, 0, units_).value)) {
        continue;
      }
      StagePlan found{0, follow(s)};
      found.latency = latency_of(p_, found.stages);
      for (const PlannedStage& stage : found.stages) {
        slowest = std::max(slowest, stage.time);
      }
      if (found.latency < out.latency) {
        out = std::move(found);
      }
    }
    return slowest;
  }

  // For each number of stages, the plan whose slowest stage is fastest: nnScaler's answer.
  void least_slowest(StagePlan& out) {
    solve(out.latency / p_.micro_batches, [](double t, double rest) { return std::max(t, rest); });
    take(out);
  }

  void least_sums(StagePlan& out) {
    double cap = out.latency / p_.micro_batches;
    while (cap > 0) {
      solve(cap, [](double t, double rest) { return t + rest; });
      const double slowest = take(out);
      cap = std::min(std::nextafter(slowest, -kInfinity), out.latency / p_.micro_batches);
    }
  }

  const StageProblem& p_;
  int unit_ = 1;
  int units_ = 1;
  int min_stages_ = 1;
  int max_stages_ = 1;
  std::vector<double> times_;
  std::vector<char> known_;         // false: the time is a lower bound
  std::vector<Way> ways_;           // by number of stages from here on, then by first block
  std::vector<std::size_t> begin_;  // start of each bucket
  std::vector<Cell> cells_;
};

}  // namespace

double latency_of(const StageProblem& problem, const std::vector<PlannedStage>& stages) {
  double sum = 0;
  double slowest = 0;
  for (const PlannedStage& s : stages) {
    sum += s.time;
    slowest = std::max(slowest, s.time);
  }
  const double waited = problem.latency == StageProblem::Latency::slowest
                            ? slowest * (static_cast<double>(stages.size()) - 1)
                            : sum - slowest;
  return problem.micro_batches * slowest + waited / problem.virtual_stages;
}

StagePlan plan_stages(const StageProblem& problem) {
  Planner planner(problem, !problem.least);
  StagePlan out = planner.best();
  while (planner.ask(out)) {
    out = planner.best();
  }
  return out;
}

double least_latency(const StageProblem& problem) { return Planner(problem, false).best().latency; }

}  // namespace stepcast::automatic
