// Time, cost and energy of a strategy on a number of nodes of an offer, and how they rank.
#pragma once

#include "stepcast/planner/plan.h"

namespace stepcast::planner {

// By how much a strategy exceeds the limits, and the value that ranks it among those that exceed
// them alike. It is within all limits where `misfit` and `violation` are 0.
struct Rank {
  double misfit = 0;     // memory above the capacity, over the capacity
  double violation = 0;  // the worst of the limits, over the limit
  double objective = 0;
  auto operator<=>(const Rank&) const = default;
};

// `job` lies on one node of the offer's cluster.
class Ranking {
 public:
  Ranking(const PlanRequest& request, const Offer& offer, job::Job job);
  Ranking(const Ranking&) = delete;

  const Rates& rates() const { return rates_; }
  const job::Job& job() const { return job_; }
  int gpus() const { return job_.cluster.node.gpus; }  // of a node
  double wait_days() const { return wait_days_; }      // from --start until it is there

  Bill bill_of(const Pace& pace, int nodes) const;
  Bill least_bill(const Pace& pace, int nodes) const;  // at the ends of the intervals
  Bill most_bill(const Pace& pace, int nodes) const;
  Rank rank_of(const Bill& bill, double misfit) const;

  // A lower bound of the rank of any strategy whose step lasts at least `step` seconds.
  Rank least_rank(int nodes, double step);
  // Seconds of a step in which every GPU computes at its highest peak for the job's precision.
  double roof(int nodes) const;

 private:
  Bill bill_at(const Pace& pace, int nodes, double step, double effective) const;

  const PlanRequest& request_;
  job::Job job_;
  Rates rates_;
  double wait_days_ = 0;
  double flops_ = 0;  // of a step
  MostEffective most_effective_;
};

}  // namespace stepcast::planner
