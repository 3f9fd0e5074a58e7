// What the whole run takes, for people and for machines.
#include <fmt/format.h>

#include "run_parts.h"
#include "stepcast/base/calendar.h"

namespace stepcast::report {
namespace {

using result::Estimate;
using result::RunCost;

void write(JsonWriter& out, const char* key, const std::optional<Estimate>& e) {
  out.key(key);
  if (!e) {
    out.null();
    return;
  }
  out.object(true).key("value").number(e->value);
  out.key("low").number(e->low).key("high").number(e->high).close();
}

void write(JsonWriter& out, const char* key, const std::string& text) {
  out.key(key);
  text.empty() ? out.null() : out.text(text);
}

// A unit in which a figure has few digits.
struct Unit {
  const char* name;
  double per;
};
Unit energy_unit(double joules) {
  return joules >= 1000 * kMegawattHour ? Unit{"GWh", 1e-3 / kMegawattHour}
         : joules >= kMegawattHour      ? Unit{"MWh", 1 / kMegawattHour}
                                        : Unit{"kWh", 1 / kKilowattHour};
}
Unit power_unit(double watts) { return watts >= 1e6 ? Unit{"MW", 1e-6} : Unit{"kW", 1e-3}; }
Unit count_unit(double value) {
  return value >= 1e6 ? Unit{"M ", 1e-6} : value >= 1e4 ? Unit{"k ", 1e-3} : Unit{"", 1};
}

}  // namespace

std::string money(double value) {
  return value >= 1e6   ? significant(value * 1e-6, 3) + " M"
         : value >= 1e3 ? significant(value * 1e-3, 3) + " k"
                        : significant(value, 3);
}

std::string tokens_text(double tokens) {
  return tokens >= 1e12  ? fmt::format("{:.4g}e12", tokens * 1e-12)
         : tokens >= 1e9 ? fmt::format("{:.4g}e9", tokens * 1e-9)
                         : thousands(static_cast<std::int64_t>(tokens));
}

std::string run_text(const RunCost& r, const Paint& paint, int width) {
  std::string out = paint("1", "The whole run") + "  " +
                    paint("2", fmt::format("{} tokens{}", tokens_text(r.tokens),
                                           r.at_least ? "; at least, as the step" : "")) +
                    "\n";
  const auto line = [&](const char* name, const Estimate& e, double per, const std::string& unit) {
    const std::string range = e.low == e.high ? ""
                                              : fmt::format("{} to {}", significant(e.low * per),
                                                            significant(e.high * per));
    out += "  " + pad_right(name, 18) + paint("1", pad_left(significant(e.value * per), 10)) + " " +
           pad_right(unit, 17) + paint("2", range);
    out.erase(out.find_last_not_of(' ') + 1);
    out += '\n';
  };
  const auto remark = [&](const std::string& text) {
    out += "    " + paint("2", wrap(text, width, 4)) + "\n";
  };
  line("Time to train", r.days, 1, "days");
  remark(r.operations.empty()
             ? "nothing fails: all of the wall clock trains"
             : fmt::format("{} of the wall clock trains: failures and checkpoints of operations {}",
                           percent(r.effective.value), r.operations));
  const Unit hours = count_unit(r.gpu_hours.value);
  line("GPU time", r.gpu_hours, hours.per, fmt::format("{}GPU-hours", hours.name));
  if (r.energy) {
    const Unit e = energy_unit(r.energy->value), p = power_unit(r.average_power);
    line("Energy", *r.energy, e.per, e.name);
    remark(fmt::format(
        "{} {} on average, {} at the peak; GPUs compute {} of a step and wait in "
        "communication {}; nodes as of the offer {}, PUE {:.4g}",
        significant(r.average_power * p.per, 3), p.name, significant(r.peak_power * p.per, 3),
        percent(r.busy), percent(r.communicating), r.offer, r.pue));
  } else {
    remark("no energy: " + r.no_energy);
  }
  if (r.cost) {
    const Unit m = count_unit(r.cost->value);
    line("Cost", *r.cost, m.per, m.name + r.currency);
    if (r.capital > 0) {
      remark(fmt::format("depreciation {}, electricity {}; bought for {}", money(r.depreciation),
                         money(r.electricity), money(r.capital)));
    }
  }
  if (r.carbon) {
    const bool tonnes = r.carbon->value >= 1e4;
    line("Carbon", *r.carbon, tonnes ? 1e-3 : 1, tonnes ? "t CO2e" : "kg CO2e");
  }
  return out;
}

void write_run(JsonWriter& out, const RunCost& r) {
  out.key("run").object();
  out.key("tokens").number(r.tokens).key("at_least").boolean(r.at_least);
  write(out, "operations", r.operations);
  write(out, "effective", r.effective);
  write(out, "days", r.days);
  write(out, "gpu_hours", r.gpu_hours);
  out.key("catalogue").text(r.catalogue);
  write(out, "offer", r.offer);
  write(out, "no_energy", r.no_energy);
  write(out, "energy", r.energy);
  if (r.energy) {
    out.key("average_power").number(r.average_power).key("peak_power").number(r.peak_power);
    out.key("pue").number(r.pue).key("busy").number(r.busy);
    out.key("communicating").number(r.communicating);
  }
  write(out, "cost", r.cost);
  if (r.cost) {
    out.key("currency").text(r.currency).key("rent").number(r.rent);
    out.key("depreciation").number(r.depreciation).key("electricity").number(r.electricity);
    out.key("capital").number(r.capital);
  }
  write(out, "carbon", r.carbon);
  out.key("figures").array();
  for (const result::PlanFigure& f : r.figures) {
    out.object(true).key("name").text(f.name).key("value").number(f.value);
    out.key("unit").text(f.unit).key("source").text(f.source).close();
  }
  out.close().close();
}

}  // namespace stepcast::report
