// Dynamic programming over the graph: the operator whose neighbours have the fewest combinations
// goes first, and leaves a table of what it costs at best under each of them.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "choice.h"

namespace stepcast::search {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

// Costs that hang on some operators' choices together; the last operator's choice runs fastest.
struct Factor {
  std::vector<int> nodes;
  std::vector<double> table;
};

struct Eliminated {
  int node = 0;
  std::vector<int> around;  // operators that its best choice hangs on
  std::vector<int> best;    // choice under each of their combinations
};

class Eliminator {
 public:
  explicit Eliminator(const ChoiceProblem& p) : p_(p) {
    for (std::size_t i = 0; i < p.nodes.size(); ++i) {
      kept_.push_back(worth_taking(p, static_cast<int>(i)));
      Factor f{{static_cast<int>(i)}, {}};
      for (const int c : kept_.back()) {
        f.table.push_back(p.nodes[i].cost[static_cast<std::size_t>(c)]);
      }
      factors_.push_back(std::move(f));
    }
    for (const ChoiceEdge& e : p.edges) {
      Factor f{{e.from}, {}};
      const std::size_t columns = p.nodes[at(e.to)].size();
      const auto cost = [&](int r, int c) { return e.cost[at(r) * columns + at(c)]; };
      if (e.from != e.to) {
        f.nodes.push_back(e.to);
      }
      for (const int r : kept_[at(e.from)]) {
        if (e.from == e.to) {
          f.table.push_back(cost(r, r));
          continue;
        }
        for (const int c : kept_[at(e.to)]) {
          f.table.push_back(cost(r, c));
        }
      }
      factors_.push_back(std::move(f));
    }
  }

  std::optional<Chosen> run() {
    std::vector<int> left(p_.nodes.size());
    std::iota(left.begin(), left.end(), 0);
    std::vector<Eliminated> order;
    while (!left.empty()) {
      std::size_t smallest = 0, least = 0;
      for (std::size_t k = 0; k < left.size(); ++k) {
        const std::size_t n = combinations(around(left[k])) * size(left[k]);
        if (k == 0 || n < least) {
          smallest = k;
          least = n;
        }
      }
      if (least > kLargestTable) {
        return std::nullopt;
      }
      order.push_back(eliminate(left[smallest]));
      left.erase(left.begin() + static_cast<std::ptrdiff_t>(smallest));
    }
    Chosen out;
    out.proven = true;
    double total = 0;
    for (const Factor& f : factors_) {
      total += f.table.empty() ? kNever : f.table.front();
    }
    if (total == kNever) {
      return out;
    }
    std::vector<int> chosen(p_.nodes.size(), 0);  // among those kept
    for (auto e = order.rbegin(); e != order.rend(); ++e) {
      std::size_t cell = 0;
      for (const int n : e->around) {
        cell = cell * size(n) + at(chosen[at(n)]);
      }
      chosen[at(e->node)] = e->best[cell];
    }
    out.feasible = true;
    for (std::size_t i = 0; i < chosen.size(); ++i) {
      out.choice.push_back(kept_[i][at(chosen[i])]);
    }
    out.cost = cost_of(p_, out.choice);
    out.memory = memory_of(p_, out.choice);
    return out;
  }

 private:
  static std::size_t at(int i) { return static_cast<std::size_t>(i); }
  std::size_t size(int node) const { return kept_[at(node)].size(); }

  std::vector<int> around(int node) const {
    std::vector<int> out;
    for (const Factor& f : factors_) {
      if (std::find(f.nodes.begin(), f.nodes.end(), node) != f.nodes.end()) {
        for (const int n : f.nodes) {
          if (n != node && std::find(out.begin(), out.end(), n) == out.end()) {
            out.push_back(n);
          }
        }
      }
    }
    return out;
  }

  std::size_t combinations(const std::vector<int>& nodes) const {
    std::size_t out = 1;
    for (const int n : nodes) {
      out = std::min(out * std::max<std::size_t>(1, size(n)), kLargestTable + 1);
    }
    return out;
  }

  Eliminated eliminate(int node) {
    Eliminated out{node, around(node), {}};
    std::vector<Factor> mine;
    for (std::size_t f = 0; f < factors_.size();) {
      const auto& nodes = factors_[f].nodes;
      if (std::find(nodes.begin(), nodes.end(), node) != nodes.end()) {
        mine.push_back(std::move(factors_[f]));
        factors_.erase(factors_.begin() + static_cast<std::ptrdiff_t>(f));
      } else {
        ++f;
      }
    }
    // For each factor, how far a choice of each operator around, and of this one, moves in it.
    std::vector<std::vector<std::size_t>> strides;
    for (const Factor& f : mine) {
      std::vector<std::size_t> s(out.around.size() + 1, 0);
      std::size_t step = 1;
      for (auto n = f.nodes.rbegin(); n != f.nodes.rend(); ++n) {
        const auto place = static_cast<std::size_t>(
            std::find(out.around.begin(), out.around.end(), *n) - out.around.begin());
        s[place] = step;  // this operator itself comes behind those around it
        step *= size(*n);
      }
      strides.push_back(std::move(s));
    }
    Factor left{out.around, {}};
    std::vector<std::size_t> choice(out.around.size(), 0);
    const std::size_t cells = combinations(out.around);
    const auto own = out.around.size();
    for (std::size_t cell = 0; cell < cells; ++cell) {
      double best = kNever;
      int best_choice = 0;
      for (std::size_t c = 0; c < size(node); ++c) {
        double sum = 0;
        for (std::size_t f = 0; f < mine.size(); ++f) {
          std::size_t place = c * strides[f][own];
          for (std::size_t k = 0; k < choice.size(); ++k) {
            place += choice[k] * strides[f][k];
          }
          sum += mine[f].table[place];
        }
        if (sum < best) {
          best = sum;
          best_choice = static_cast<int>(c);
        }
      }
      left.table.push_back(best);
      out.best.push_back(best_choice);
      for (std::size_t k = choice.size(); k-- > 0;) {
        if (++choice[k] < size(out.around[k])) {
          break;
        }
        choice[k] = 0;
      }
    }
    factors_.push_back(std::move(left));
    return out;
  }

  const ChoiceProblem& p_;
  std::vector<std::vector<int>> kept_;
  std::vector<Factor> factors_;
};

}  // namespace

std::optional<Chosen> choose_by_elimination(const ChoiceProblem& problem) {
  return Eliminator(problem).run();
}

std::optional<Relaxed> choose_by_relaxation(const ChoiceProblem& problem) {
  // Prices are sought to a factor of the last step's ratio: from one that buys as much memory as
  // time, up until something fits, and then between.
  constexpr double kStep = 4;
  constexpr int kUp = 12, kBetween = 6;
  Relaxed out;
  out.bound = -kNever;
  const auto at_price = [&](double price) -> std::optional<bool> {
    ChoiceProblem priced = problem;
    priced.memory_limit = kNever;
    for (ChoiceNode& n : priced.nodes) {
      for (std::size_t c = 0; c < n.size(); ++c) {
        n.cost[c] += price * n.memory[c];
      }
    }
    auto found = choose_by_elimination(priced);
    if (!found) {
      return std::nullopt;
    }
    if (!found->feasible) {
      out.bound = kNever;
      return false;
    }
    out.bound = std::max(out.bound, found->cost - price * problem.memory_limit);
    if (found->memory > problem.memory_limit) {
      return false;
    }
    found->cost = cost_of(problem, found->choice);
    if (!out.chosen.feasible || found->cost < out.chosen.cost) {
      out.chosen = std::move(*found);
    }
    return true;
  };
  auto fits = at_price(0);
  double low = 0;
  double high = std::max(out.bound, 1e-12) / problem.memory_limit / kStep;
  for (int i = 0; i < kUp && fits && !*fits && out.bound < kNever; ++i) {
    low = high;
    high *= kStep;
    fits = at_price(high);
  }
  if (!fits) {
    return std::nullopt;
  }
  for (int i = 0; i < kBetween && *fits && low > 0 && out.bound < out.chosen.cost; ++i) {
    const double middle = std::sqrt(low * high);
    const auto there = at_price(middle);
    if (!there) {
      return std::nullopt;
    }
    (*there ? high : low) = middle;
  }
  out.chosen.proven = out.chosen.feasible && out.bound >= out.chosen.cost;
  return out;
}

}  // namespace stepcast::search
