#include "choice.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "../infinity.h"
#include "ilp.h"

namespace stepcast::automatic {
namespace {

std::size_t index(int i) { return static_cast<std::size_t>(i); }

}  // namespace

std::vector<int> worth_taking(const ChoiceProblem& p, int node) {
  const ChoiceNode& n = p.nodes[index(node)];
  const bool bound_by_memory = std::isfinite(p.memory_limit);
  // For each choice, all numbers by which it is compared with others.
  std::vector<std::vector<double>> rows(n.size());
  for (std::size_t c = 0; c < n.size(); ++c) {
    rows[c].push_back(n.cost[c]);
    if (bound_by_memory) {
      rows[c].push_back(n.memory[c]);
    }
    for (const ChoiceEdge& e : p.edges) {
      const auto choice = static_cast<int>(c);
      if (e.from == node && e.to == node) {
        rows[c].push_back(edge_cost(p, e, choice, choice));
      } else if (e.from == node) {
        for (std::size_t o = 0; o < p.nodes[index(e.to)].size(); ++o) {
          rows[c].push_back(edge_cost(p, e, choice, static_cast<int>(o)));
        }
      } else if (e.to == node) {
        for (std::size_t o = 0; o < p.nodes[index(e.from)].size(); ++o) {
          rows[c].push_back(edge_cost(p, e, static_cast<int>(o), choice));
        }
      }
    }
  }
  std::vector<int> out;
  for (std::size_t c = 0; c < n.size(); ++c) {
    bool beaten = std::isinf(n.cost[c]);
    for (std::size_t o = 0; o < n.size() && !beaten; ++o) {
      bool as_good = o != c;
      bool same = true;
      for (std::size_t k = 0; k < rows[c].size() && as_good; ++k) {
        as_good = rows[o][k] <= rows[c][k];
        same = same && rows[o][k] == rows[c][k];
      }
      beaten = as_good && (!same || o < c);  // of two equal choices the first is kept
    }
    if (!beaten) {
      out.push_back(static_cast<int>(c));
    }
  }
  return out;
}

namespace {

// Groups the choices at one end for which an edge costs the same, whatever the choice at its other
// end.
std::vector<std::vector<int>> alike(const ChoiceProblem& p, const ChoiceEdge& e, bool rows,
                                    const std::vector<int>& mine, const std::vector<int>& others) {
  std::map<std::vector<double>, std::vector<int>> groups;
  for (const int c : mine) {
    std::vector<double> line;
    for (const int o : others) {
      line.push_back(rows ? edge_cost(p, e, c, o) : edge_cost(p, e, o, c));
    }
    groups[line].push_back(c);
  }
  std::vector<std::vector<int>> out;
  for (auto& [line, group] : groups) {
    out.push_back(std::move(group));
  }
  std::sort(out.begin(), out.end());
  return out;
}

class Program {
 public:
  explicit Program(const ChoiceProblem& problem) : p_(problem) {
    for (std::size_t i = 0; i < p_.nodes.size(); ++i) {
      kept_.push_back(worth_taking(p_, static_cast<int>(i)));
      first_.push_back(static_cast<int>(ilp_.variables.size()));
      Ilp::Row one{{}, 1, 1};
      for (const int c : kept_.back()) {
        one.terms.push_back({ilp_.add(p_.nodes[i].cost[index(c)], true), 1.0});
      }
      ilp_.rows.push_back(std::move(one));
    }
    for (const ChoiceEdge& e : p_.edges) {
      add_edge(e);
    }
    if (std::isfinite(p_.memory_limit)) {
      add_memory();
    }
  }

  const Ilp& ilp() const { return ilp_; }
  bool possible() const {
    return std::none_of(kept_.begin(), kept_.end(), [](const auto& k) { return k.empty(); });
  }

  std::vector<int> choice(const std::vector<double>& values) const {
    std::vector<int> out;
    for (std::size_t i = 0; i < kept_.size(); ++i) {
      const auto begin = values.begin() + first_[i];
      const auto largest =
          std::max_element(begin, begin + static_cast<std::ptrdiff_t>(kept_[i].size()));
      out.push_back(kept_[i][static_cast<std::size_t>(largest - begin)]);
    }
    return out;
  }

 private:
  int variable(int node, int choice) const {
    const auto& kept = kept_[index(node)];
    const auto at = std::lower_bound(kept.begin(), kept.end(), choice);
    return first_[index(node)] + static_cast<int>(at - kept.begin());
  }

  void add_edge(const ChoiceEdge& e) {
    if (e.from == e.to) {
      for (const int c : kept_[index(e.from)]) {
        const double cost = edge_cost(p_, e, c, c);
        if (std::isinf(cost)) {
          forbid(variable(e.from, c));
        } else {
          ilp_.variables[index(variable(e.from, c))].cost += cost;
        }
      }
      return;
    }
    const auto& mine = kept_[index(e.from)];
    const auto& theirs = kept_[index(e.to)];
    const auto rows = alike(p_, e, true, mine, theirs);
    const auto columns = alike(p_, e, false, theirs, mine);
    std::vector<Ilp::Row> row_sums(rows.size(), {{}, 0, 0}),
        column_sums(columns.size(), {{}, 0, 0});
    for (std::size_t r = 0; r < rows.size(); ++r) {
      for (std::size_t c = 0; c < columns.size(); ++c) {
        const double cost = edge_cost(p_, e, rows[r].front(), columns[c].front());
        if (std::isinf(cost)) {
          continue;  // no variable: these two choices exclude each other
        }
        const int v = ilp_.add(cost, false);  // integral whenever the choices are
        row_sums[r].terms.push_back({v, 1.0});
        column_sums[c].terms.push_back({v, 1.0});
      }
      for (const int choice : rows[r]) {
        row_sums[r].terms.push_back({variable(e.from, choice), -1.0});
      }
    }
    for (std::size_t c = 0; c < columns.size(); ++c) {
      for (const int choice : columns[c]) {
        column_sums[c].terms.push_back({variable(e.to, choice), -1.0});
      }
    }
    std::move(row_sums.begin(), row_sums.end(), std::back_inserter(ilp_.rows));
    std::move(column_sums.begin(), column_sums.end(), std::back_inserter(ilp_.rows));
  }

  void forbid(int v) { ilp_.rows.push_back({{{v, 1.0}}, 0, 0}); }

  void add_memory() {
    // Memory is expressed as a fraction of the limit, as the solver's tolerances are absolute.
    const double scale = p_.memory_limit > 0 ? 1 / p_.memory_limit : 1;
    Ilp::Row row{{}, -kInfinity, p_.memory_limit * scale};
    for (std::size_t i = 0; i < p_.nodes.size(); ++i) {
      for (const int c : kept_[i]) {
        row.terms.push_back(
            {variable(static_cast<int>(i), c), p_.nodes[i].memory[index(c)] * scale});
      }
    }
    ilp_.rows.push_back(std::move(row));
  }

  const ChoiceProblem& p_;
  Ilp ilp_;
  std::vector<std::vector<int>> kept_;
  std::vector<int> first_;
};

}  // namespace

double cost_of(const ChoiceProblem& p, const std::vector<int>& choice) {
  double sum = 0;
  for (std::size_t i = 0; i < p.nodes.size(); ++i) {
    sum += p.nodes[i].cost[index(choice[i])];
  }
  for (const ChoiceEdge& e : p.edges) {
    sum += edge_cost(p, e, choice[index(e.from)], choice[index(e.to)]);
  }
  return sum;
}

double memory_of(const ChoiceProblem& p, const std::vector<int>& choice) {
  double sum = 0;
  for (std::size_t i = 0; i < p.nodes.size(); ++i) {
    sum += p.nodes[i].memory[index(choice[i])];
  }
  return sum;
}

Chosen choose_by_ilp(const ChoiceProblem& problem, double seconds) {
  Chosen out;
  const Program program(problem);
  if (!program.possible()) {
    out.proven = true;
    return out;
  }
  const IlpSolution solution = solve(program.ilp(), seconds);
  out.proven = solution.status != IlpSolution::Status::stopped;
  if (solution.values.empty()) {
    return out;
  }
  out.feasible = true;
  out.choice = program.choice(solution.values);
  out.cost = cost_of(problem, out.choice);
  out.memory = memory_of(problem, out.choice);
  return out;
}

}  // namespace stepcast::automatic
