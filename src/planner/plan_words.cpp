#include "plan_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace stepcast::planner {

std::vector<result::PlanBasis> basis_of(const result::Report& report) {
  double all = 0;
  for (const result::CurveShare& c : report.curves) {
    all += c.seconds;
  }
  std::vector<result::PlanBasis> out;
  for (const result::CurveShare& c : report.curves) {
    auto at = std::find_if(out.begin(), out.end(), [&](const auto& b) { return b.file == c.file; });
    if (at == out.end()) {
      at = out.insert(out.end(), {c.file, 0, 0, ""});
    }
    at->share += all > 0 ? c.seconds / all : 0;
  }
  for (result::PlanBasis& b : out) {
    for (const result::CalibrationUse& use : report.calibration) {
      if (use.file == b.file) {
        b.residual = std::max(b.residual, use.residual);
        b.provenance = use.provenance;
      }
    }
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const auto& a, const auto& b) { return a.share > b.share; });
  return out;
}

std::vector<result::PlanFigure> figures(const Rates& rates, const std::string& currency) {
  std::vector<result::PlanFigure> out;
  const auto add = [&](const char* name, const Figure& f, const std::string& unit) {
    out.push_back({name, f.value, unit, f.source});
  };
  const auto maybe = [&](const char* name, const std::optional<Figure>& f,
                         const std::string& unit) {
    if (f) {
      add(name, *f, unit);
    }
  };
  const auto& [device, host, site, offer] = rates;
  add("nodes", offer.nodes, "");
  maybe("rent", offer.rent, currency + "/GPU-hour");
  if (!offer.rent && !offer.purchase) {
    out.push_back({"rent", 0, "not known: yours to fill in", offer.unpriced});
  }
  maybe("purchase", offer.purchase, currency + "/node");
  maybe("fabric", offer.fabric, currency + "/node");
  maybe("lifetime", offer.lifetime, "years");
  add("GPU idle", device.idle, "W");
  add("GPU communicating", device.communicating, "W");
  add("GPU load", device.load, "W");
  add("host idle", host.idle, "W");
  add("host load", host.load, "W");
  add("host peak", host.peak, "W");
  add("network", host.network, "W/node");
  add("PUE", site.pue, "");
  maybe("carbon", site.carbon, "g/kWh");
  maybe("electricity", site.electricity, currency + "/kWh");
  if (offer.purchase) {
    maybe("utilisation", site.utilisation, "of the lifetime");
    maybe("interest", site.interest, "a year");
    maybe("colocation", site.colocation, currency + "/kW/month");
    maybe("staff", site.staff, currency + "/node/year");
  }
  return out;
}

std::vector<result::Shortfall> shortfalls(const result::PlannedCluster& c,
                                          const result::PlanLimits& limits,
                                          const std::string& currency) {
  std::vector<result::Shortfall> out;
  const auto add = [&](result::PlanLimit limit, double by, std::string text) {
    if (by > 0) {
      out.push_back({limit, by, std::move(text)});
    }
  };
  if (!c.fits) {
    const auto capacity = static_cast<double>(c.capacity.count());
    const double by = c.peak_memory.value - capacity;
    add(result::PlanLimit::memory, by,
        fmt::format("does not fit: {:.1f} GiB too much on a GPU of {:.1f} GiB", by / 0x1p30,
                    capacity / 0x1p30));
  }
  const double late = limits.days > 0 ? c.days.value + c.wait_days - limits.days : 0;
  add(result::PlanLimit::deadline, late,
      fmt::format("{:.1f} days over{}", late,
                  c.wait_days > 0 ? fmt::format(": there after {:.0f}", c.wait_days) : ""));
  const double dear = limits.budget > 0 ? c.cost.value - limits.budget : 0;
  add(result::PlanLimit::budget, dear, fmt::format("{:.3g} M {} over", dear * 1e-6, currency));
  const double hot = limits.watts > 0 ? c.peak_power - limits.watts : 0;
  add(result::PlanLimit::power, hot, fmt::format("{:.3g} MW over", hot * 1e-6));
  return out;
}

}  // namespace stepcast::planner
