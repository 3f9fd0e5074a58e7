// The resources of the whole run, as text and JSON.
#include <fmt/format.h>

#include "expense_words.h"
#include "run_parts.h"
#include "stepcast/base/calendar.h"

namespace stepcast::report {
namespace {

using result::Estimate;
using result::RunCost;

// A unit in which a figure has few digits.
struct RunUnit {
  const char* name;
  double per;
};
RunUnit energy_unit(double joules) {
  return joules >= 1000 * kMegawattHour ? RunUnit{"GWh", 1e-3 / kMegawattHour}
         : joules >= kMegawattHour      ? RunUnit{"MWh", 1 / kMegawattHour}
                                        : RunUnit{"kWh", 1 / kKilowattHour};
}
RunUnit power_unit(double watts) {
  return watts >= 1e6 ? RunUnit{"MW", 1e-6} : RunUnit{"kW", 1e-3};
}
RunUnit count_unit(double value) {
  return value >= 1e6 ? RunUnit{"M ", 1e-6} : value >= 1e4 ? RunUnit{"k ", 1e-3} : RunUnit{"", 1};
}

}  // namespace

std::string tokens_text(double tokens) {
  return tokens >= 1e12  ? fmt::format("{:.4g}e12", tokens * 1e-12)
         : tokens >= 1e9 ? fmt::format("{:.4g}e9", tokens * 1e-9)
                         : thousands(static_cast<std::int64_t>(tokens));
}

std::string run_text(const RunCost& r, const Paint& paint, int width) {
  std::string out =
      paint("1", "The whole run") + "  " +
      paint("2", fmt::format("{} tokens{}", tokens_text(r.tokens),
                             r.at_least ? "; a lower bound, since the step time is one" : "")) +
      "\n";
  const auto line = [&](const char* name, const Estimate& e, double per, const std::string& unit) {
    out += figure_line(paint, name, significant(e.value * per), unit, range(e, per));
  };
  const auto remark = [&](const std::string& text) {
    out += "    " + paint("2", wrap(text, width, 4)) + "\n";
  };
  line("Time to train", r.days, 1, "days");
  remark(r.operations.empty() ? "goodput 100 % (no failures)"
                              : fmt::format("goodput {} (failures, checkpoints: operations/{})",
                                            percent(r.effective.value), r.operations));
  const RunUnit hours = count_unit(r.gpu_hours.value);
  line("GPU time", r.gpu_hours, hours.per, fmt::format("{}GPU-hours", hours.name));
  if (r.energy) {
    const RunUnit e = energy_unit(r.energy->value), p = power_unit(r.average_power);
    line("Energy", *r.energy, e.per, e.name);
    remark(fmt::format(
        "{} {} on average, {} at the peak; GPUs compute for {} of a step and wait for "
        "communication for {}; power of the nodes from the offer {}, PUE {:.4g}",
        significant(r.average_power * p.per, 3), p.name, significant(r.peak_power * p.per, 3),
        percent(r.busy), percent(r.communicating), r.offer, r.pue));
  } else {
    remark("no energy: " + r.no_energy);
  }
  if (r.cost) {
    const RunUnit m = count_unit(r.cost->value);
    line("Cost", *r.cost, m.per, m.name + r.currency);
    if (r.capital > 0) {
      remark(fmt::format("{}; bought for {}", expense_words(r.expenses), money(r.capital)));
    }
  }
  if (r.carbon) {
    const bool tonnes = r.carbon->value >= 1e4;
    line("Carbon", *r.carbon, tonnes ? 1e-3 : 1, tonnes ? "t CO2e" : "kg CO2e");
  }
  return out;
}

Record catalogue_fields(const result::PlanFigure& f) {
  return {{"name", f.name, "figure"},
          {"value", f.value, "value", Show::six},
          {"unit", f.unit, "unit"},
          {"source", f.source, "source", Show::prose}};
}

Record run_fields(const RunCost& r) {
  Record out = {{"tokens", r.tokens},
                {"at_least", r.at_least},
                {"operations", text_or_null(r.operations)},
                {"effective", r.effective},
                {"days", r.days},
                {"gpu_hours", r.gpu_hours},
                {"catalogue", r.catalogue},
                {"offer", text_or_null(r.offer)},
                {"no_energy", text_or_null(r.no_energy)},
                {"energy", r.energy}};
  if (r.energy) {
    append(out, {{"average_power", r.average_power},
                 {"peak_power", r.peak_power},
                 {"pue", r.pue},
                 {"busy", r.busy},
                 {"communicating", r.communicating}});
  }
  out.push_back({"cost", r.cost});
  if (r.cost) {
    append(out, {{"currency", r.currency}, {"capital", r.capital}});
    append(out, expense_fields(r.expenses));
  }
  append(out, {{"carbon", r.carbon}, {"figures", rows(r.figures, catalogue_fields)}});
  return out;
}

}  // namespace stepcast::report
