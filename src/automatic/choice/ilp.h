// Integer linear programs behind one function. Only ilp_cbc.cpp includes a solver's headers; it is
// a module of its own, which ilp_late.cpp opens.
#pragma once

#include <utility>
#include <vector>

#include "../infinity.h"

namespace stepcast::automatic {

// Minimises the sum of cost * x with lower <= row * x <= upper and 0 <= x <= 1.
struct Ilp {
  struct Variable {
    double cost = 0;
    bool integer = true;
  };
  struct Row {
    std::vector<std::pair<int, double>> terms;  // variable, coefficient
    double lower = -kInfinity;
    double upper = kInfinity;
  };
  std::vector<Variable> variables;
  std::vector<Row> rows;

  int add(double cost, bool integer) {
    variables.push_back({cost, integer});
    return static_cast<int>(variables.size()) - 1;
  }
};

struct IlpSolution {
  enum class Status { optimal, infeasible, stopped } status = Status::stopped;
  std::vector<double> values;  // empty if no solution was found
};

// False in a build without a solver: solve() must then not be called.
bool have_ilp_solver();

// Deterministic, since it uses one thread. Stops after `seconds` with the best solution found.
IlpSolution solve(const Ilp& program, double seconds = 600);

// The same, as the module `integer_programs` offers it.
using SolveIlp = void(const Ilp& program, double seconds, IlpSolution& out);

}  // namespace stepcast::automatic
