#include "stages.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace stepcast::search {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

std::size_t index(int i) { return static_cast<std::size_t>(i); }

class Planner {
 public:
  explicit Planner(const StageProblem& p) : p_(p) {
    // Devices count in the unit that divides all shapes.
    unit_ = p.devices;
    for (const int n : p.shapes) {
      unit_ = std::gcd(unit_, n);
    }
    units_ = p.devices / unit_;
    // No more stages than blocks, nor than the smallest shapes that the devices hold.
    const int smallest = *std::min_element(p.shapes.begin(), p.shapes.end());
    most_ = std::min({p.blocks, p.devices / smallest, p.most_stages});
    if (p.stages > 0) {
      most_ = p.stages <= most_ ? p.stages : 0;
    }
    fill();
  }

  StagePlan best() {
    if (most_ == 0) {
      return {};
    }
    std::vector<double> caps = times_;
    std::erase_if(caps, [](double t) { return std::isinf(t); });
    std::sort(caps.begin(), caps.end());
    caps.erase(std::unique(caps.begin(), caps.end()), caps.end());
    StagePlan out;
    for (const double cap : caps) {
      if (cap * p_.micro_batches >= out.latency) {
        break;  // the slowest stage alone takes longer
      }
      solve(cap);
      for (int s = std::max(1, p_.stages); s <= most_; ++s) {
        const double sum = at(s, 0, units_).sum;
        if (std::isinf(sum)) {
          continue;
        }
        StagePlan found{0, follow(s)};
        found.latency = latency_of(p_, found.stages);
        if (found.latency < out.latency) {
          out = std::move(found);
        }
      }
    }
    return out;
  }

 private:
  struct Cell {
    double sum = kNever;
    int last = 0;
    int shape = 0;
  };

  std::size_t time_index(int first, int last, int shape, int later) const {
    const auto blocks = index(p_.blocks);
    return ((index(first) * (blocks + 1) + index(last)) * p_.shapes.size() + index(shape)) *
               index(most_) +
           index(later);
  }

  void fill() {
    times_.assign(index(p_.blocks) * (index(p_.blocks) + 1) * p_.shapes.size() * index(most_),
                  kNever);
    for (int first = 0; first < p_.blocks; ++first) {
      for (int last = first + 1; last <= p_.blocks; ++last) {
        for (std::size_t n = 0; n < p_.shapes.size(); ++n) {
          // Every stage in front holds a block and a device more, and so does every one behind.
          const int front = first > 0 ? 1 : 0;
          const int behind = last < p_.blocks ? 1 : 0;
          // The first of so many has all the others behind it.
          const int least = p_.stages > 0 && first == 0 ? p_.stages - 1 : behind;
          for (int later = least; later <= std::min(p_.blocks - last, most_ - 1 - front); ++later) {
            times_[time_index(first, last, static_cast<int>(n), later)] =
                p_.time(first, last, static_cast<int>(n), later);
            if (last == p_.blocks) {
              break;
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

  void solve(double cap) {
    cells_.assign(index(most_ + 1) * index(p_.blocks + 1) * index(units_ + 1), Cell());
    at(0, p_.blocks, 0).sum = 0;
    for (int s = 1; s <= most_; ++s) {
      for (int first = p_.blocks - 1; first >= 0; --first) {
        for (int last = first + 1; last <= p_.blocks; ++last) {
          for (std::size_t n = 0; n < p_.shapes.size(); ++n) {
            const double t = times_[time_index(first, last, static_cast<int>(n), s - 1)];
            if (t > cap) {
              continue;
            }
            const int used = p_.shapes[n] / unit_;
            for (int units = used; units <= units_; ++units) {
              const double sum = t + at(s - 1, last, units - used).sum;
              Cell& cell = at(s, first, units);
              if (sum < cell.sum) {
                cell = {sum, last, static_cast<int>(n)};
              }
            }
          }
        }
      }
    }
  }

  std::vector<PlannedStage> follow(int stages) {
    std::vector<PlannedStage> out;
    int first = 0;
    int units = units_;
    for (int s = stages; s > 0; --s) {
      const Cell& c = at(s, first, units);
      out.push_back({first, c.last, c.shape, times_[time_index(first, c.last, c.shape, s - 1)]});
      units -= p_.shapes[index(c.shape)] / unit_;
      first = c.last;
    }
    return out;
  }

  const StageProblem& p_;
  int unit_ = 1;
  int units_ = 1;
  int most_ = 1;
  std::vector<double> times_;
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

StagePlan plan_stages(const StageProblem& problem) { return Planner(problem).best(); }

}  // namespace stepcast::search
