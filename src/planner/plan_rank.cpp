#include "plan_rank.h"

#include <algorithm>
#include <utility>

#include "stepcast/model/count.h"

namespace stepcast::planner {
namespace {

constexpr double kDay = 86400;
// The mean of simulated runs scatters around the renewal formula, by which bounds count failures,
// by less than this share of the wall clock.
constexpr double kScatter = 0.005;

}  // namespace

void shares_of(const result::Report& report, Pace& pace) {
  Time busy{0}, communicating{0}, all{0};
  for (const auto& s : report.breakdown) {
    const Time kernels = s.compute + s.recompute + s.slowdown + s.optimizer;
    const Time waits = s.tensor + s.pipeline + s.data + s.context + s.expert + s.offload + s.other;
    busy += kernels;
    communicating += waits;
    all += kernels + waits + s.bubble + s.host + s.stall;
  }
  pace.busy = all.count() > 0 ? to_seconds(busy) / to_seconds(all) : 1;
  pace.communicating = all.count() > 0 ? to_seconds(communicating) / to_seconds(all) : 0;
}

Ranking::Ranking(const PlanRequest& request, const Offer& offer, job::Job job)
    : request_(request), job_(std::move(job)) {
  const Catalogue& c = request.catalogue;
  rates_ = {c.devices.at(job_.cluster.device.name), c.hosts.at(offer.host), c.sites.at(offer.site),
            offer};
  if (!request.start.empty() && !offer.available.empty()) {
    const long wait = parse_date(offer.available) - parse_date(request.start);
    wait_days_ = static_cast<double>(std::max(0L, wait));
  }
  flops_ = model::training_flops(job_, static_cast<double>(job_.workload.global_batch)).count();
}

Bill Ranking::bill_at(const Pace& pace, int nodes, double step, double effective) const {
  const auto tokens =
      static_cast<double>(job_.workload.global_batch * job_.workload.sequence_length);
  Duty duty;
  duty.training = Seconds(request_.tokens / tokens * step);
  duty.effective = effective;
  duty.active = pace.active;
  duty.busy = pace.busy;
  duty.communicating = pace.communicating;
  return bill(rates_, nodes, gpus(), duty);
}

Bill Ranking::bill_of(const Pace& pace, int nodes) const {
  return bill_at(pace, nodes, pace.step.value, pace.effective.value);
}
Bill Ranking::least_bill(const Pace& pace, int nodes) const {
  return bill_at(pace, nodes, pace.step.low, pace.effective.high);
}
Bill Ranking::most_bill(const Pace& pace, int nodes) const {
  return bill_at(pace, nodes, pace.step.high, pace.effective.low);
}

Rank Ranking::rank_of(const Bill& b, double misfit) const {
  const result::PlanLimits& limits = request_.limits;
  Rank out{misfit, 0, 0};
  const auto limit = [&](double value, double most) {
    if (most > 0) {
      out.violation = std::max(out.violation, value / most - 1);
    }
  };
  limit(b.wall.count() / kDay + wait_days_, limits.days);
  limit(b.cost(), limits.budget);
  limit(b.peak_power, limits.watts);
  switch (request_.objective) {
    case PlanObjective::cost:
      out.objective = b.cost();
      break;
    case PlanObjective::time:
      out.objective = b.wall.count() + wait_days_ * kDay;
      break;
    case PlanObjective::energy:
      out.objective = b.energy;
      break;
    case PlanObjective::carbon:
      out.objective = b.carbon;
      break;
  }
  return out;
}

double Ranking::effective_at_most(int nodes, double step) const {
  if (request_.operations == nullptr) {
    return 1;
  }
  job::Job job = job_;
  job.cluster.nodes = nodes;
  const Operations& o = *request_.operations;
  const Campaign c = campaign_of(job, Seconds(step));
  return std::min(1.0, kScatter + expected_share(o, c, best_interval(o, c)));
}

// Kernels are busy for at least as long as the roof; all else is idle.
Rank Ranking::least_rank(int nodes, double step) const {
  Pace pace;
  const double effective = effective_at_most(nodes, step);
  pace.busy = std::min(1.0, roof(nodes) / step);
  pace.active = effective;
  return rank_of(bill_at(pace, nodes, step, effective), 0);
}

double Ranking::roof(int nodes) const {
  double peak = 0;
  for (const auto& [type, rate] : job_.cluster.device.peak) {
    peak = std::max(peak, rate.count());
  }
  return flops_ / (peak * nodes * gpus());
}

}  // namespace stepcast::planner
