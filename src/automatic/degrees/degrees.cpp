#include "degrees.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <random>

namespace stepcast::automatic {
namespace {

class Seen {
 public:
  Seen(const DegreeProblem& problem, int budget) : problem_(problem), budget_(budget) {}
  double operator()(const Genome& g) {
    const auto [at, fresh] = values_.try_emplace(g, 0.0);
    ++asked_;
    if (fresh) {
      at->second = problem_.fitness(g);
    }
    return at->second;
  }
  bool spent() const { return asked_ >= budget_; }
  DegreeAnswer answer(int keep) const {
    DegreeAnswer out;
    out.evaluated = static_cast<std::int64_t>(values_.size());
    for (const auto& [genome, value] : values_) {
      if (!std::isinf(value)) {
        out.best.push_back({value, genome});
      }
    }
    std::sort(out.best.begin(), out.best.end());
    if (out.best.size() > static_cast<std::size_t>(keep)) {
      out.best.resize(static_cast<std::size_t>(keep));
    }
    return out;
  }

 private:
  const DegreeProblem& problem_;
  int budget_;
  int asked_ = 0;
  std::map<Genome, double> values_;
};

struct Dice {
  std::mt19937_64 random;
  int below(std::size_t n) { return static_cast<int>(random() % n); }
  double unit() { return static_cast<double>(random() >> 11) * 0x1p-53; }
};

Genome any(const DegreeProblem& p, Dice& dice) {
  Genome g;
  for (const int n : p.sizes) {
    g.push_back(dice.below(static_cast<std::size_t>(n)));
  }
  return g;
}

void mutate(Genome& g, const DegreeProblem& p, Dice& dice) {
  const auto d = static_cast<std::size_t>(dice.below(g.size()));
  g[d] = dice.below(static_cast<std::size_t>(p.sizes[d]));
}

}  // namespace

DegreeAnswer evolve(const DegreeProblem& p, const DegreeSearch& search) {
  constexpr std::size_t kPopulation = 64;
  Dice dice{std::mt19937_64(search.seed)};
  Seen seen(p, search.evaluations);
  std::vector<std::pair<double, Genome>> population;
  // Most points of a space are infeasible, so the first generation is drawn until it has enough
  // feasible ones.
  while (population.size() < kPopulation && !seen.spent()) {
    Genome g = any(p, dice);
    if (const double v = seen(g); !std::isinf(v)) {
      population.push_back({v, std::move(g)});
    }
  }
  if (population.empty()) {
    return seen.answer(search.keep);
  }
  const auto parent = [&]() -> const Genome& {
    const auto& a = population[static_cast<std::size_t>(dice.below(population.size()))];
    const auto& b = population[static_cast<std::size_t>(dice.below(population.size()))];
    return std::min(a, b).second;
  };
  while (!seen.spent()) {
    std::vector<std::pair<double, Genome>> children;
    for (std::size_t i = 0; i < kPopulation; ++i) {
      Genome child = parent();
      const Genome& other = parent();
      for (std::size_t d = 0; d < child.size(); ++d) {
        child[d] = dice.unit() < 0.5 ? child[d] : other[d];
      }
      // At least one change. Sizes whose product must be the number of ranks need two at once.
      do {
        mutate(child, p, dice);
      } while (dice.unit() < 0.5);
      children.push_back({seen(child), std::move(child)});
    }
    population.insert(population.end(), children.begin(), children.end());
    std::sort(population.begin(), population.end());
    population.erase(std::unique(population.begin(), population.end()), population.end());
    population.resize(std::min(population.size(), kPopulation));
  }
  return seen.answer(search.keep);
}

DegreeAnswer anneal(const DegreeProblem& p, const DegreeSearch& search) {
  constexpr int kStarts = 8;
  constexpr double kHot = 0.3, kCold = 1e-3;  // temperatures relative to the present value
  Dice dice{std::mt19937_64(search.seed)};
  Seen seen(p, search.evaluations);
  for (int start = 0; start < kStarts && !seen.spent(); ++start) {
    Genome now = any(p, dice);
    double value = seen(now);
    const int moves = search.evaluations / kStarts;
    for (int m = 0; m < moves && !seen.spent(); ++m) {
      const double temperature = kHot * std::pow(kCold / kHot, static_cast<double>(m) / moves);
      Genome next = now;
      if (std::isinf(value)) {
        next = any(p, dice);
      } else {
        do {
          mutate(next, p, dice);
        } while (dice.unit() < 0.5);
      }
      const double then = seen(next);
      const double luck = dice.unit();
      if (then <= value ||
          (!std::isinf(then) && luck < std::exp((value - then) / (temperature * value)))) {
        now = std::move(next);
        value = then;
      }
    }
  }
  return seen.answer(search.keep);
}

}  // namespace stepcast::automatic
