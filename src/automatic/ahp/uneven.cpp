#include "uneven.h"

#include <algorithm>
#include <numeric>

#include "../infinity.h"

namespace stepcast::automatic {
namespace {

// Stage times that differ by less than this fraction count as one cap.
constexpr double kAlike = 1e-9;

std::size_t at(int i) { return static_cast<std::size_t>(i); }

class Cutter {
 public:
  explicit Cutter(const UnevenProblem& p)
      : p_(p),
        stages_(static_cast<int>(p.layer.size())),
        units_(static_cast<int>(p.layer.front().size()) / p.grain) {
    for (const auto& layers : p.layer) {
      std::vector<double> sums = {0};
      std::partial_sum(layers.begin(), layers.end(), std::back_inserter(sums));
      before_.push_back(std::move(sums));
    }
  }

  UnevenLayers best() {
    UnevenLayers out;
    if (static_cast<int>(p_.layer.front().size()) % p_.grain != 0) {
      return out;
    }
    const std::vector<double> caps = this->caps();
    // Finds the smallest cap that memory and the number of layers allow: a larger cap is feasible
    // as well.
    const auto first = std::partition_point(caps.begin(), caps.end(),
                                            [&](double cap) { return solve(cap).empty(); });
    const std::vector<int> free = solve(kInfinity);
    if (free.empty()) {
      return out;
    }
    const double least_sum = sum_of(free);
    for (auto cap = first; cap != caps.end(); ++cap) {
      if (least_sum + (p_.micro_batches - 1) * *cap >= out.step) {
        break;
      }
      std::vector<int> layers = solve(*cap);
      const double step = step_of(p_, layers);
      if (step < out.step) {
        out = {step, std::move(layers)};
      }
    }
    return out;
  }

 private:
  double time(int stage, int first, int last) const {
    return p_.ends[at(stage)] + before_[at(stage)][at(last * p_.grain)] -
           before_[at(stage)][at(first * p_.grain)];
  }

  std::vector<double> caps() const {
    std::vector<double> out;
    for (int s = 0; s < stages_; ++s) {
      for (int i = 0; i < units_; ++i) {
        for (int j = i + 1; j <= units_; ++j) {
          out.push_back(time(s, i, j));
        }
      }
    }
    std::sort(out.begin(), out.end());
    // Of nearly equal times the largest is kept, so that rounding excludes none of them.
    std::vector<double> kept;
    for (const double t : out) {
      if (!kept.empty() && t <= kept.back() * (1 + kAlike)) {
        kept.back() = t;
      } else {
        kept.push_back(t);
      }
    }
    return kept;
  }

  double sum_of(const std::vector<int>& layers) const {
    double sum = 0;
    for (int s = 0, first = 0; s < stages_; ++s) {
      const int last = first + layers[at(s)] / p_.grain;
      sum += time(s, first, last);
      first = last;
    }
    return sum;
  }

  // Returns the split with the smallest sum in which no stage exceeds the cap; empty: there is
  // none.
  std::vector<int> solve(double cap) const {
    // least[s][n] is the smallest sum if stages 0..s-1 have the first n units; took[s][n] is the
    // number of units of the last of them.
    std::vector<std::vector<double>> least(at(stages_ + 1),
                                           std::vector<double>(at(units_ + 1), kInfinity));
    std::vector<std::vector<int>> took(at(stages_ + 1), std::vector<int>(at(units_ + 1), 0));
    least[0][0] = 0;
    for (int s = 0; s < stages_; ++s) {
      const int most = p_.most[at(s)] / p_.grain;
      for (int n = s + 1; n <= units_; ++n) {
        for (int k = 1; k <= std::min(most, n); ++k) {
          const double before = least[at(s)][at(n - k)];
          const double t = time(s, n - k, n);
          if (t > cap) {
            break;  // more units take even longer
          }
          if (before + t < least[at(s + 1)][at(n)]) {
            least[at(s + 1)][at(n)] = before + t;
            took[at(s + 1)][at(n)] = k;
          }
        }
      }
    }
    if (least[at(stages_)][at(units_)] == kInfinity) {
      return {};
    }
    std::vector<int> out(at(stages_));
    for (int s = stages_, n = units_; s > 0; --s) {
      const int k = took[at(s)][at(n)];
      out[at(s - 1)] = k * p_.grain;
      n -= k;
    }
    return out;
  }

  const UnevenProblem& p_;
  int stages_;
  int units_;
  std::vector<std::vector<double>> before_;
};

}  // namespace

double step_of(const UnevenProblem& p, const std::vector<int>& layers) {
  double sum = 0, slowest = 0;
  std::size_t first = 0;
  for (std::size_t s = 0; s < layers.size(); ++s) {
    double t = p.ends[s];
    for (int n = 0; n < layers[s]; ++n) {
      t += p.layer[s][first++];
    }
    sum += t;
    slowest = std::max(slowest, t);
  }
  return sum + (p.micro_batches - 1) * slowest;
}

UnevenLayers cut_layers(const UnevenProblem& problem) { return Cutter(problem).best(); }

}  // namespace stepcast::automatic
