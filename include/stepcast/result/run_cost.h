// What the whole run of a job takes: time, energy and, where a price is known, money and carbon.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "stepcast/result/plan.h"
#include "stepcast/result/report.h"

namespace stepcast::result {

struct RunCost {
  double tokens = 0;                   // workload.tokens
  bool at_least = false;               // of a bound: nothing was simulated
  std::string operations;              // what fails (simulate goodput); "": nothing, `effective` is 1
  Estimate effective{1, 1, 1};         // share of the wall clock that trains
  Estimate days, gpu_hours;            // of wall clock
  std::string catalogue;               // whose power and prices these are
  std::string offer;                   // whose machines draw as these do; "": none, no energy is known
  std::string no_energy;               // why
  double busy = 0, communicating = 0;  // shares of a GPU's step: kernels; waiting in exposed communication
  double pue = 1;
  std::optional<Estimate> energy;            // J at the meter: PUE included
  double average_power = 0, peak_power = 0;  // W at the meter
  std::string currency;
  std::optional<Estimate> cost;                                     // the sum of these three, at its value
  double rent = 0, depreciation = 0, electricity = 0, capital = 0;  // currency
  std::optional<Estimate> carbon;   // kg CO2e; beside a cost, where the site states an intensity
  std::vector<PlanFigure> figures;  // of the catalogue
};

}  // namespace stepcast::result
