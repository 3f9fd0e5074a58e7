// What a run costs: hours, money, energy, carbon, in closed form.
#pragma once

#include <map>
#include <optional>

#include "stepcast/planner/catalogue.h"
#include "stepcast/planner/goodput.h"
#include "stepcast/result/expenses.h"
#include "stepcast/result/report.h"

namespace stepcast::planner {

// How a cluster spends the time of a run.
struct Duty {
  Seconds training{0};       // the sum of the steps alone
  double effective = 1;      // share of the wall clock that these steps are
  double active = 1;         // share of the wall clock in which GPUs work, work repeated after failures included
  double busy = 1;           // share of a GPU's step spent in kernels
  double communicating = 0;  // share spent in collectives that no kernel hides; a GPU is idle in the rest
};

struct Bill {
  Seconds wall{0};
  double gpu_hours = 0;
  result::Expenses expenses;
  double capital = 0;                        // purchase, in currency
  double average_power = 0, peak_power = 0;  // W at the electricity meter
  double energy = 0;                         // J at the electricity meter
  double carbon = 0;                         // kg
  double cost() const { return expenses.sum(); }
};

// LAW  wall = training / effective
//      node = GPUs x (load busy + communicating communicating + idle rest) + host load + network, at work; all idle else
//      energy = wall x nodes x (active node + (1 - active) node idle) x PUE
//      rent = GPUs x hours x price. If bought: electricity = kWh x price, and for held = wall / utilisation,
//      depreciation = nodes x price x held / lifetime; interest = nodes x price / 2 x rate x held;
//      colocation = peak power x price x held; staff = nodes x price x held
struct Rates {
  DevicePower device;
  HostPower host;
  Site site;
  Offer offer;
};
Bill bill(const Rates& rates, int nodes, int gpus_per_node, const Duty& duty);

// How fast a strategy trains.
struct Pace {
  result::Estimate step;                           // seconds
  result::Estimate effective{1, 1, 1};             // share of the wall clock that trains
  double active = 1, busy = 1, communicating = 0;  // as in Duty
};

// The pace of a forecast job. Shares of a step are means over its stages. `operations`: null if nothing fails.
Pace pace_of(const job::Job& job, const result::Report& report, const Operations* operations);

// The bill of a run over `tokens` tokens in which a step takes `step` seconds and the share `effective` of the wall clock
// trains.
Bill bill(const Rates& rates, const job::Job& job, int nodes, double tokens, const Pace& pace, double step,
          double effective);

// An upper bound on the share of the wall clock that any job of this model trains on a number of nodes, from the same
// simulated runs as pace_of. Those runs depend on the step in two ways: it may wait for data, which is left out here, and
// checkpoints are no closer than a step, so that longer steps never train a larger share.
// LAW  where steps do not wait for data and are shorter than the best interval between checkpoints, the share of pace_of
//      equals this bound, to the rounding of that interval.
class MostEffective {
 public:
  // `operations`: null if nothing fails. `job` must outlive this.
  MostEffective(const Operations* operations, const job::Job& job);
  double on(int nodes);

 private:
  std::optional<Operations> operations_;
  const job::Job& job_;
  std::map<int, double> known_;  // by nodes
};

}  // namespace stepcast::planner
