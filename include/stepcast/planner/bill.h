// What a run costs: hours, money, energy, carbon, in closed form.
#pragma once

#include <map>
#include <optional>

#include "stepcast/planner/catalogue.h"
#include "stepcast/planner/goodput.h"
#include "stepcast/result/report.h"

namespace stepcast::planner {

// What a cluster does in a run.
struct Duty {
  Seconds training{0};       // of steps alone
  double effective = 1;      // share of the wall clock that these are
  double active = 1;         // share in which the GPUs work: with what is done again after failures
  double busy = 1;           // of a GPU's step: in kernels
  double communicating = 0;  // in collectives that nothing hides; else idle
};

struct Bill {
  Seconds wall{0};
  double gpu_hours = 0;
  double rent = 0, depreciation = 0, electricity = 0, capital = 0;  // currency
  double average_power = 0, peak_power = 0;                         // W at the meter
  double energy = 0;                                                // J at the meter
  double carbon = 0;                                                // kg
  double cost() const { return rent + depreciation + electricity; }
};

// LAW  wall = training / effective
//      node = GPUs x (load busy + communicating communicating + idle rest) + host load + network, at work; all idle else
//      energy = wall x nodes x (active node + (1 - active) node idle) x PUE
//      rent = GPUs x hours x price; depreciation = nodes x price x wall / lifetime; electricity = kWh x price (if bought)
struct Rates {
  DevicePower device;
  HostPower host;
  Site site;
  Offer offer;
};
Bill bill(const Rates& rates, int nodes, int gpus_per_node, const Duty& duty);

// What a strategy does to the clock.
struct Pace {
  result::Estimate step;                           // seconds
  result::Estimate effective{1, 1, 1};             // share of the wall clock
  double active = 1, busy = 1, communicating = 0;  // as in Duty
};

// Of a forecast job; shares of a step are means over its stages. operations: nullptr: nothing fails.
Pace pace_of(const job::Job& job, const result::Report& report, const Operations* operations);

// A run of so many tokens, where a step takes `step` seconds and `effective` of the wall clock trains.
Bill bill(const Rates& rates, const job::Job& job, int nodes, double tokens, const Pace& pace, double step,
          double effective);

// Share of the wall clock that any job of this model trains at most on so many nodes, by the same simulated runs as
// pace_of. These know of a step its wait for data (left out here) and that checkpoints are no closer than steps (so that
// longer steps train no larger share). LAW  where steps do not wait for data and are shorter than the best interval
// between checkpoints, pace_of's share is this one, to the rounding of that interval.
class MostEffective {
 public:
  MostEffective(const Operations* operations, const job::Job& job);  // `job` outlives it; nullptr: nothing fails
  double on(int nodes);

 private:
  std::optional<Operations> operations_;
  const job::Job& job_;
  std::map<int, double> known_;  // by nodes
};

}  // namespace stepcast::planner
