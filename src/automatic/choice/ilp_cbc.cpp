// Solves integer programs with COIN-OR CBC through its C interface.
#include <coin/Cbc_C_Interface.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>

#include "ilp.h"

namespace stepcast::automatic {
namespace {

// A sparse matrix by columns, as CBC takes it: starts, row numbers and coefficients.
struct Columns {
  std::vector<CoinBigIndex> starts;
  std::vector<int> rows;
  std::vector<double> values;
};

Columns columns_of(const Ilp& p) {
  std::vector<std::vector<std::pair<int, double>>> by_column(p.variables.size());
  for (std::size_t r = 0; r < p.rows.size(); ++r) {
    for (const auto& [column, value] : p.rows[r].terms) {
      auto& entries = by_column[static_cast<std::size_t>(column)];
      if (!entries.empty() && entries.back().first == static_cast<int>(r)) {
        entries.back().second += value;  // CBC refuses a duplicate entry
      } else {
        entries.push_back({static_cast<int>(r), value});
      }
    }
  }
  Columns out;
  for (const auto& entries : by_column) {
    out.starts.push_back(static_cast<CoinBigIndex>(out.rows.size()));
    for (const auto& [row, value] : entries) {
      out.rows.push_back(row);
      out.values.push_back(value);
    }
  }
  out.starts.push_back(static_cast<CoinBigIndex>(out.rows.size()));
  return out;
}

IlpSolution solve_by_cbc(const Ilp& p, double seconds) {
  const auto free = [](Cbc_Model* m) { Cbc_deleteModel(m); };
  const std::unique_ptr<Cbc_Model, decltype(free)> model(Cbc_newModel(), free);
  const Columns columns = columns_of(p);
  // The solver's tolerances are absolute, so costs are scaled until the tolerances do not matter.
  constexpr double kLargest = 1e4;
  double largest = 0;
  for (const auto& v : p.variables) {
    largest = std::max(largest, std::abs(v.cost));
  }
  const double scale = largest > 0 ? kLargest / largest : 1;
  std::vector<double> low(p.variables.size(), 0.0), high(p.variables.size(), 1.0), cost;
  for (const auto& v : p.variables) {
    cost.push_back(v.cost * scale);
  }
  std::vector<double> row_low, row_high;
  for (const auto& r : p.rows) {
    row_low.push_back(r.lower);
    row_high.push_back(r.upper);
  }
  Cbc_setLogLevel(model.get(), 0);
  Cbc_loadProblem(model.get(), static_cast<int>(p.variables.size()),
                  static_cast<int>(p.rows.size()), columns.starts.data(), columns.rows.data(),
                  columns.values.data(), low.data(), high.data(), cost.data(), row_low.data(),
                  row_high.data());
  for (std::size_t i = 0; i < p.variables.size(); ++i) {
    if (p.variables[i].integer) {
      Cbc_setInteger(model.get(), static_cast<int>(i));
    }
  }
  Cbc_setParameter(model.get(), "seconds", std::to_string(seconds).c_str());
  Cbc_setParameter(model.get(), "logLevel", "0");
  // The preprocessing of CBC 2.10.8 strengthens rows so far that they cut off the best solution
  // (tests/unit/automatic/ilp_test.cpp finds such programs among a few hundred).
  Cbc_setParameter(model.get(), "preprocess", "off");
  Cbc_solve(model.get());
  IlpSolution out;
  if (Cbc_isProvenInfeasible(model.get()) != 0) {
    out.status = IlpSolution::Status::infeasible;
    return out;
  }
  const double* x = Cbc_bestSolution(model.get());
  if (x == nullptr) {  // the linear relaxation at the root was already integral
    x = Cbc_isProvenOptimal(model.get()) != 0 ? Cbc_getColSolution(model.get()) : nullptr;
  }
  if (x != nullptr) {
    out.values.assign(x, x + p.variables.size());
    out.status = Cbc_isProvenOptimal(model.get()) != 0 ? IlpSolution::Status::optimal
                                                       : IlpSolution::Status::stopped;
  } else if (Cbc_status(model.get()) == 0) {
    out.status = IlpSolution::Status::infeasible;
  }
  return out;
}

}  // namespace

extern "C" SolveIlp stepcast_solve_ilp;
extern "C" void stepcast_solve_ilp(const Ilp& program, double seconds, IlpSolution& out) {
  out = solve_by_cbc(program, seconds);
}

}  // namespace stepcast::automatic
