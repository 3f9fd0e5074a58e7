// Resources of the whole run of a job: time, energy and, where prices are known, money and carbon.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "stepcast/result/plan.h"
#include "stepcast/result/report.h"

namespace stepcast::result {

struct RunCost {
  double tokens = 0;                   // workload.tokens
  bool at_least = false;               // from a lower bound: nothing was simulated
  std::string operations;              // file of failure rates (simulate goodput); "": nothing fails, and `effective` is 1
  Estimate effective{1, 1, 1};         // share of the wall clock that trains
  Estimate days, gpu_hours;            // of wall clock
  std::string catalogue;               // file of power and prices
  std::string offer;                   // offer whose power figures are used; "": none, and no energy is known
  std::string no_energy;               // why no energy is known
  double busy = 0, communicating = 0;  // shares of a GPU's step: kernels; waiting in exposed communication
  double pue = 1;
  std::optional<Estimate> energy;            // J at the meter: PUE included
  double average_power = 0, peak_power = 0;  // W at the meter
  std::string currency;
  std::optional<Estimate> cost;  // currency; at its value the sum of
  Expenses expenses;
  double capital = 0;               // purchase
  std::optional<Estimate> carbon;   // kg CO2e; beside a cost, where the site states an intensity
  std::vector<PlanFigure> figures;  // of the catalogue
};

}  // namespace stepcast::result
