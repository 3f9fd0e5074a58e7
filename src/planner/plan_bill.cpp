// What a run costs: hours, money, energy, carbon.
#include <fmt/format.h>

#include <cmath>
#include <stdexcept>

#include "stepcast/base/number.h"
#include "stepcast/planner/plan.h"

namespace stepcast::planner {
namespace {

constexpr double kHour = 3600, kDay = 24 * kHour;
constexpr double kYear = 365.25 * kDay;
constexpr double kKilowattHour = 3.6e6;  // J

double value_of(const std::optional<Figure>& f) { return f ? f->value : 0; }

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
  out.rent = out.gpu_hours * value_of(rates.offer.rent);
  if (rates.offer.purchase) {
    out.capital = nodes * (rates.offer.purchase->value + value_of(rates.offer.fabric));
    out.depreciation = out.capital * seconds / (rates.offer.lifetime->value * kYear);
    out.electricity = kilowatt_hours * value_of(rates.site.electricity);
  }
  out.carbon = kilowatt_hours * value_of(rates.site.carbon) * 1e-3;
  return out;
}

const char* to_string(PlanObjective objective) {
  switch (objective) {
    case PlanObjective::cost:
      return "cost";
    case PlanObjective::time:
      return "time";
    case PlanObjective::energy:
      return "energy";
    case PlanObjective::carbon:
      return "carbon";
  }
  return "";
}

Seconds parse_duration(const std::string& text) {
  const std::size_t length = number_length(text);
  const std::size_t unit = text.find_first_not_of(" \t", length);
  if (length > 0 && unit != std::string::npos && text.substr(unit) == "d") {
    const double days = parse_number(std::string_view(text).substr(0, length));
    if (!(days >= 0)) {
      throw std::invalid_argument(
          fmt::format("'{}' is negative; expected a time such as '60 d'", text));
    }
    return Seconds(days * kDay);
  }
  return Seconds(to_seconds(parse_time(text)));
}

}  // namespace stepcast::planner
