#include "stepcast/planner/bill.h"

#include <algorithm>

#include "stepcast/base/calendar.h"

namespace stepcast::planner {
namespace {

double value_of(const std::optional<Figure>& f) { return f ? f->value : 0; }

// A cap on the device's power lowers what it draws.
Rates capped(const Rates& rates, Power cap) {
  Rates out = rates;
  for (Figure* drawn : {&out.device.load, &out.device.communicating, &out.device.idle}) {
    drawn->value = cap.count() > 0 ? std::min(drawn->value, cap.count()) : drawn->value;
  }
  return out;
}

}  // namespace

Bill bill(const Rates& rates, int nodes, int gpus_per_node, const Duty& duty) {
  const DevicePower& d = rates.device;
  const HostPower& h = rates.host;
  const double pue = rates.site.pue.value;
  const double rest = 1 - duty.busy - duty.communicating;
  const double gpu =
      d.load.value * duty.busy + d.communicating.value * duty.communicating + d.idle.value * rest;
  const double working = gpus_per_node * gpu + h.load.value + h.network.value;
  const double waiting = gpus_per_node * d.idle.value + h.idle.value + h.network.value;

  Bill out;
  out.wall = Seconds(duty.training.count() / duty.effective);
  const double seconds = out.wall.count();
  out.gpu_hours = seconds / kHour * nodes * gpus_per_node;
  out.average_power = nodes * (duty.active * working + (1 - duty.active) * waiting) * pue;
  out.peak_power = nodes * (gpus_per_node * d.load.value + h.peak.value + h.network.value) * pue;
  out.energy = out.average_power * seconds;
  const double kilowatt_hours = out.energy / kKilowattHour;
  out.expenses.rent = out.gpu_hours * value_of(rates.offer.rent);
  if (rates.offer.purchase) {
    out.capital = nodes * (rates.offer.purchase->value + value_of(rates.offer.fabric));
    // Machines are paid for while they wait for the next job as well.
    const double held =
        seconds / (rates.site.utilisation ? rates.site.utilisation->value : 1) / kYear;
    constexpr double kMonths = 12;        // of a year
    constexpr double kMeanCapital = 0.5;  // of a purchase that is paid back evenly
    result::Expenses& e = out.expenses;
    e.depreciation = out.capital * held / rates.offer.lifetime->value;
    e.interest = out.capital * kMeanCapital * value_of(rates.site.interest) * held;
    e.electricity = kilowatt_hours * value_of(rates.site.electricity);
    e.colocation = out.peak_power * 1e-3 * value_of(rates.site.colocation) * kMonths * held;
    e.staff = nodes * value_of(rates.site.staff) * held;
  }
  out.carbon = kilowatt_hours * value_of(rates.site.carbon) * 1e-3;
  return out;
}

Bill bill(const Rates& rates, const job::Job& job, int nodes, double tokens, const Pace& pace,
          double step, double effective) {
  const auto of_step =
      static_cast<double>(job.workload.global_batch * job.workload.sequence_length);
  Duty duty;
  duty.training = Seconds(tokens / of_step * step);
  duty.effective = effective;
  duty.active = pace.active;
  duty.busy = pace.busy;
  duty.communicating = pace.communicating;
  return bill(capped(rates, job.cluster.device.power), nodes, job.cluster.node.gpus, duty);
}

}  // namespace stepcast::planner
