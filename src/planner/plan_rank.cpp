#include "plan_rank.h"

#include <algorithm>
#include <utility>

#include "stepcast/base/calendar.h"
#include "stepcast/model/count.h"

namespace stepcast::planner {
namespace {

constexpr double kUnpriced = 1e15;  // more than any run costs

}  // namespace

Ranking::Ranking(const PlanRequest& request, const Offer& offer, job::Job job)
    : request_(request), job_(std::move(job)), most_effective_(request.operations, job_) {
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
  return bill(rates_, job_, nodes, request_.tokens, pace, step, effective);
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
      // Without a price: behind all that have one, the fewest GPU-hours first.
      out.objective = rates_.offer.unpriced.empty() ? b.cost() : kUnpriced + b.gpu_hours;
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

// Kernels are busy for at least as long as at peak rate; GPUs are idle in the rest.
Rank Ranking::least_rank(int nodes, double step) {
  Pace pace;
  const double effective = most_effective_.on(nodes);
  pace.busy = std::min(1.0, roof(nodes) / step);
  pace.active = effective;
  return rank_of(bill_at(pace, nodes, step, effective), 0);
}

double Ranking::roof(int nodes) const {
  // No matrix product has narrower operands than the job's precision.
  const job::Device& device = job_.cluster.device;
  const job::DType precision = job_.workload.precision;
  double peak = job::peak_of(device, precision).count();
  for (const auto& [type, rate] : device.peak) {
    if (peak <= 0 || job::bytes_per_element(type) >= job::bytes_per_element(precision)) {
      peak = std::max(peak, rate.count());
    }
  }
  return flops_ / (peak * nodes * gpus());
}

}  // namespace stepcast::planner
