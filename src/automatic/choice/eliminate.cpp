// Dynamic programming over the graph. The operator whose neighbours have the fewest combinations is
// eliminated first; it leaves a table with its smallest cost for each combination of them.
#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "../infinity.h"
#include "choice.h"

namespace stepcast::automatic {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

// A cost that depends jointly on the choices of several operators. Choices that the cost does not
// distinguish share a row: `place` maps a kind of an operator's choices to its row. In the table
// the last operator varies fastest.
struct Factor {
  std::vector<int> nodes;
  std::vector<std::vector<int>> place;  // for each kind of each node
  std::vector<std::size_t> size;        // number of rows of each node
  std::vector<double> table;
};

// The elimination of one operator: the factors that depend on it, and the factor that it leaves.
struct Step {
  int node = 0;
  std::vector<int> around;  // operators on which its best choice depends
  std::vector<int> taken;   // indices of factors
  // [factor][kind of `node`]: offset in the factor's table
  std::vector<std::vector<std::size_t>> own;
  // [factor][operator in `around`][row in `left`]: offset in the factor's table.
  std::vector<std::vector<std::vector<std::size_t>>> others;
  int left = 0;           // index of a factor
  std::vector<int> best;  // best kind for each combination of the operators in `around`
};

// Computes once what does not depend on the price of memory: kinds, elimination order and offsets.
class Eliminator {
 public:
  explicit Eliminator(const ChoiceProblem& p) : p_(p) {
    find_kinds();
    for (const ChoiceEdge& e : p.edges) {
      add_edge(e);
    }
    arrange();
  }

  // False: an intermediate table would have more than kLargestTable entries.
  bool possible() const { return possible_; }

  // Minimises the sum of cost + price x memory.
  Chosen run(double price) {
    Chosen out;
    out.proven = true;
    std::vector<std::vector<int>> best(p_.nodes.size());  // choice of each kind
    std::vector<std::vector<double>> cost(p_.nodes.size());
    for (std::size_t i = 0; i < p_.nodes.size(); ++i) {
      const ChoiceNode& n = p_.nodes[i];
      cost[i].assign(kinds_[i], kInfinity);
      best[i].assign(kinds_[i], -1);
      for (std::size_t c = 0; c < n.size(); ++c) {
        const double paid = n.cost[c] + (price > 0 ? price * n.memory[c] : 0);
        const std::size_t k = at(kind_[i][c]);
        if (paid < cost[i][k]) {
          cost[i][k] = paid;
          best[i][k] = static_cast<int>(c);
        }
      }
    }
    if (std::find(kinds_.begin(), kinds_.end(), 0U) != kinds_.end()) {
      return out;
    }
    double total = 0;
    for (Step& step : steps_) {
      play(step, cost[at(step.node)]);
      if (step.around.empty()) {
        total += factors_[at(step.left)].table.front();
      }
    }
    if (total == kInfinity) {
      return out;
    }
    std::vector<int> chosen(p_.nodes.size(), 0);  // kinds
    for (auto step = steps_.rbegin(); step != steps_.rend(); ++step) {
      const Factor& f = factors_[at(step->left)];
      std::size_t cell = 0;
      for (std::size_t u = 0; u < f.nodes.size(); ++u) {
        cell = cell * f.size[u] + at(f.place[u][at(chosen[at(f.nodes[u])])]);
      }
      chosen[at(step->node)] = step->best[cell];
    }
    out.feasible = true;
    for (std::size_t i = 0; i < chosen.size(); ++i) {
      out.choice.push_back(best[i][at(chosen[i])]);
    }
    out.cost = cost_of(p_, out.choice);
    out.memory = memory_of(p_, out.choice);
    return out;
  }

 private:
  // Choices of a node that no edge distinguishes are of one kind.
  void find_kinds() {
    for (std::size_t i = 0; i < p_.nodes.size(); ++i) {
      const auto node = static_cast<int>(i);
      std::map<std::vector<std::size_t>, int> known;
      kind_.emplace_back();
      for (std::size_t c = 0; c < p_.nodes[i].size(); ++c) {
        std::vector<std::size_t> seen;
        for (const ChoiceEdge& e : p_.edges) {
          if (e.from == node) {
            seen.push_back(e.row(static_cast<int>(c)));
          }
          if (e.to == node) {
            seen.push_back(e.column(static_cast<int>(c)));
          }
        }
        kind_[i].push_back(known.try_emplace(seen, static_cast<int>(known.size())).first->second);
      }
      kinds_.push_back(known.size());
    }
  }

  // For each kind of a node, the row that its choices have in an edge.
  template <class RowOf>
  std::vector<int> rows(int node, RowOf&& row_of) const {
    std::vector<int> out(kinds_[at(node)], 0);
    for (std::size_t c = 0; c < kind_[at(node)].size(); ++c) {
      out[at(kind_[at(node)][c])] = static_cast<int>(row_of(static_cast<int>(c)));
    }
    return out;
  }

  void add_edge(const ChoiceEdge& e) {
    Factor f;
    f.nodes = {e.from};
    if (e.from == e.to) {
      f.place.emplace_back(kinds_[at(e.from)]);
      std::iota(f.place[0].begin(), f.place[0].end(), 0);
      f.size = {kinds_[at(e.from)]};
      f.table.assign(f.size[0], kInfinity);
      for (std::size_t c = 0; c < kind_[at(e.from)].size(); ++c) {
        const auto choice = static_cast<int>(c);
        f.table[at(kind_[at(e.from)][c])] = edge_cost(p_, e, choice, choice);
      }
    } else {
      f.nodes.push_back(e.to);
      f.place = {rows(e.from, [&](int c) { return e.row(c); }),
                 rows(e.to, [&](int c) { return e.column(c); })};
      const std::size_t columns = e.columns > 0 ? at(e.columns) : p_.nodes[at(e.to)].size();
      f.size = {columns > 0 ? e.cost.size() / columns : 0, columns};
      f.table = e.cost;
    }
    factors_.push_back(std::move(f));
  }

  std::vector<int> hanging_on(int node, const std::vector<int>& factors) const {
    std::vector<int> out;
    for (const int f : factors) {
      const auto& nodes = factors_[at(f)].nodes;
      if (std::find(nodes.begin(), nodes.end(), node) != nodes.end()) {
        out.push_back(f);
      }
    }
    return out;
  }

  // The factor that an eliminated node leaves, without its table. For each neighbour it
  // distinguishes the kinds that the eliminated factors distinguish.
  Factor remainder(int node, const std::vector<int>& taken) const {
    std::map<int, std::vector<const std::vector<int>*>> places;
    std::vector<int> order;
    for (const int f : taken) {
      const Factor& factor = factors_[at(f)];
      for (std::size_t u = 0; u < factor.nodes.size(); ++u) {
        if (factor.nodes[u] != node) {
          auto& list = places[factor.nodes[u]];
          if (list.empty()) {
            order.push_back(factor.nodes[u]);
          }
          list.push_back(&factor.place[u]);
        }
      }
    }
    Factor out;
    out.nodes = order;
    for (const int u : order) {
      std::map<std::vector<int>, int> known;
      std::vector<int> place;
      for (std::size_t k = 0; k < kinds_[at(u)]; ++k) {
        std::vector<int> seen;
        for (const auto* list : places[u]) {
          seen.push_back((*list)[k]);
        }
        place.push_back(known.try_emplace(seen, static_cast<int>(known.size())).first->second);
      }
      out.place.push_back(std::move(place));
      out.size.push_back(known.size());
    }
    return out;
  }

  static std::size_t cells(const Factor& f) {
    std::size_t out = 1;
    for (const std::size_t n : f.size) {
      out = std::min(out * std::max<std::size_t>(1, n), kLargestTable + 1);
    }
    return out;
  }

  void arrange() {
    std::vector<int> factors(factors_.size());
    std::iota(factors.begin(), factors.end(), 0);
    // For each node, the factors that its elimination would remove and add. An elimination changes
    // this only for its neighbours.
    struct Turn {
      std::vector<int> taken;
      Factor left;
      std::size_t work = 0;
    };
    std::map<int, Turn> turns;
    const auto look = [&](int node) {
      Turn t;
      t.taken = hanging_on(node, factors);
      t.left = remainder(node, t.taken);
      t.work =
          std::min(cells(t.left) * std::max<std::size_t>(1, kinds_[at(node)]), kLargestTable + 1);
      turns[node] = std::move(t);
    };
    for (std::size_t i = 0; i < p_.nodes.size(); ++i) {
      look(static_cast<int>(i));
    }
    while (!turns.empty()) {
      auto next = turns.begin();
      for (auto t = turns.begin(); t != turns.end(); ++t) {
        next = t->second.work < next->second.work ? t : next;
      }
      if (next->second.work > kLargestTable) {
        possible_ = false;
        return;
      }
      const std::vector<int> around = next->second.left.nodes;
      std::erase_if(factors, [&](int f) {
        const auto& taken = next->second.taken;
        return std::find(taken.begin(), taken.end(), f) != taken.end();
      });
      add_step(next->first, next->second.taken, std::move(next->second.left));
      factors.push_back(steps_.back().left);
      turns.erase(next);
      for (const int u : around) {
        look(u);
      }
    }
  }

  void add_step(int node, const std::vector<int>& taken, Factor&& left) {
    Step step;
    step.node = node;
    step.around = left.nodes;
    step.taken = taken;
    for (const int f : taken) {
      const Factor& factor = factors_[at(f)];
      std::vector<std::size_t> own(kinds_[at(node)], 0);
      std::vector<std::vector<std::size_t>> others(left.nodes.size());
      std::size_t stride = 1;
      for (std::size_t u = factor.nodes.size(); u-- > 0;) {
        const auto& place = factor.place[u];
        if (factor.nodes[u] == node) {
          for (std::size_t k = 0; k < own.size(); ++k) {
            own[k] = at(place[k]) * stride;
          }
        } else {
          const auto v = static_cast<std::size_t>(
              std::find(left.nodes.begin(), left.nodes.end(), factor.nodes[u]) -
              left.nodes.begin());
          others[v].assign(left.size[v], 0);
          for (std::size_t k = 0; k < place.size(); ++k) {
            others[v][at(left.place[v][k])] = at(place[k]) * stride;
          }
        }
        stride *= factor.size[u];
      }
      step.own.push_back(std::move(own));
      step.others.push_back(std::move(others));
    }
    left.table.assign(cells(left), kInfinity);
    step.best.assign(left.table.size(), 0);
    step.left = static_cast<int>(factors_.size());
    factors_.push_back(std::move(left));
    steps_.push_back(std::move(step));
  }

  void play(Step& step, const std::vector<double>& cost) {
    Factor& left = factors_[at(step.left)];
    std::vector<std::size_t> row(step.around.size(), 0);
    std::vector<const double*> base(step.taken.size());
    for (std::size_t cell = 0; cell < left.table.size(); ++cell) {
      for (std::size_t f = 0; f < base.size(); ++f) {
        base[f] = factors_[at(step.taken[f])].table.data();
        for (std::size_t u = 0; u < row.size(); ++u) {
          base[f] += step.others[f][u].empty() ? 0 : step.others[f][u][row[u]];
        }
      }
      double best = kInfinity;
      int best_kind = 0;
      for (std::size_t k = 0; k < cost.size(); ++k) {
        double sum = cost[k];
        for (std::size_t f = 0; f < base.size(); ++f) {
          sum += base[f][step.own[f][k]];
        }
        if (sum < best) {
          best = sum;
          best_kind = static_cast<int>(k);
        }
      }
      left.table[cell] = best;
      step.best[cell] = best_kind;
      for (std::size_t u = row.size(); u-- > 0;) {
        if (++row[u] < left.size[u]) {
          break;
        }
        row[u] = 0;
      }
    }
  }

  const ChoiceProblem& p_;
  std::vector<std::vector<int>> kind_;  // kind of each node's choices
  std::vector<std::size_t> kinds_;
  std::vector<Factor> factors_;
  std::vector<Step> steps_;
  bool possible_ = true;
};

}  // namespace

std::optional<Chosen> choose_by_elimination(const ChoiceProblem& problem) {
  Eliminator eliminator(problem);
  if (!eliminator.possible()) {
    return std::nullopt;
  }
  return eliminator.run(0);
}

std::optional<Relaxed> choose_by_relaxation(const ChoiceProblem& problem, double limit) {
  // The price is searched for up to the ratio of the last step. The search starts where memory
  // costs as much as time, raises the price until a choice fits, and then bisects.
  constexpr double kStep = 4;
  constexpr int kUp = 12, kBetween = 6;
  Eliminator eliminator(problem);
  if (!eliminator.possible()) {
    return std::nullopt;
  }
  Relaxed out;
  out.bound = -kInfinity;
  // Whether the optimum at a price fits in memory.
  const auto at_price = [&](double price) {
    Chosen found = eliminator.run(price);
    if (!found.feasible) {
      out.bound = kInfinity;
      return false;
    }
    out.bound = std::max(out.bound, found.cost + price * (found.memory - problem.memory_limit));
    if (found.memory > problem.memory_limit) {
      return false;
    }
    if (!out.chosen.feasible || found.cost < out.chosen.cost) {
      out.chosen = std::move(found);
    }
    return true;
  };
  bool fits = at_price(0);
  double low = 0;
  double high = std::max(out.bound, 1e-12) / problem.memory_limit / kStep;
  for (int i = 0; i < kUp && !fits && out.bound < limit; ++i) {
    low = high;
    high *= kStep;
    fits = at_price(high);
  }
  for (int i = 0;
       i < kBetween && fits && low > 0 && out.bound < out.chosen.cost && out.bound < limit; ++i) {
    const double middle = std::sqrt(low * high);
    (at_price(middle) ? high : low) = middle;
  }
  out.chosen.proven = out.chosen.feasible && out.bound >= out.chosen.cost;
  return out;
}

}  // namespace stepcast::automatic
