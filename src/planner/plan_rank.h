// What a strategy on so many nodes of an offer comes to, and how that ranks.
#pragma once

#include "plan_cluster.h"

namespace stepcast::planner {

// What a strategy does to the clock.
struct Pace {
  result::Estimate step;       // seconds
  result::Estimate effective;  // share of the wall clock
  double active = 1, busy = 1, communicating = 0;
};

// Shares of a step, as means over its stages.
void shares_of(const result::Report& report, Pace& pace);

// `job`: on one node of the offer's cluster.
class Ranking {
 public:
  Ranking(const PlanRequest& request, const Offer& offer, job::Job job);

  const Rates& rates() const { return rates_; }
  const job::Job& job() const { return job_; }
  int gpus() const { return job_.cluster.node.gpus; }  // of a node
  double wait_days() const { return wait_days_; }      // from --start until it is there

  Bill bill_of(const Pace& pace, int nodes) const;
  Bill least_bill(const Pace& pace, int nodes) const;  // at the ends of the intervals
  Bill most_bill(const Pace& pace, int nodes) const;
  Rank rank_of(const Bill& bill, double misfit) const;

  // The least that a strategy comes to whose step lasts `step` seconds or longer.
  Rank least_rank(int nodes, double step) const;
  // Seconds of a step with every GPU at its highest peak throughout.
  double roof(int nodes) const;

 private:
  Bill bill_at(const Pace& pace, int nodes, double step, double effective) const;
  double effective_at_most(int nodes, double step) const;

  const PlanRequest& request_;
  job::Job job_;
  Rates rates_;
  double wait_days_ = 0;
  double flops_ = 0;  // of a step
};

}  // namespace stepcast::planner
