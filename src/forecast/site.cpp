#include "site.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report.h"

namespace stepcast::forecast {

using cost::SiteParameter;

namespace {

constexpr std::size_t at(SiteParameter p) { return static_cast<std::size_t>(p); }

// A parameter that the file does not change is not applied, and needs no note.
bool silent(const cost::SiteValue& v) { return !v.determined && v.deviation <= 0; }

}  // namespace

SiteUse use_of(const cost::Site* site, const job::Job& job) {
  SiteUse use;
  use.site = site;
  if (site == nullptr) {
    return use;
  }
  const std::string& device = job.cluster.device.name;
  if (!site->devices.empty() &&
      std::find(site->devices.begin(), site->devices.end(), device) == site->devices.end()) {
    throw InputError(Fault{{site->file, 0, 0},
                           fmt::format("the site calibration is for {}, not for device '{}'",
                                       fmt::join(site->devices, ", "), device)});
  }
  use.applies.fill(true);
  const auto leave = [&](SiteParameter p, std::string why) {
    use.applies[at(p)] = false;
    if (!silent((*site)[p])) {
      use.notes.push_back(
          fmt::format("{}: {} is not applied: {}", site->file, describe(p), std::move(why)));
    }
  };
  const job::System& system = job.system;
  for (const auto& [p, stated] : {std::pair(SiteParameter::launch, system.launch_stated),
                                  std::pair(SiteParameter::layer, system.layer_overhead_stated)}) {
    if (stated) {
      leave(p, fmt::format("the job states system.{}",
                           p == SiteParameter::launch ? "launch" : "layer_overhead"));
    } else if (system.name != site->system) {
      leave(p, fmt::format("it is for system '{}', not for '{}'", site->system, system.name));
    }
  }
  if (job.cluster.fabric.name != site->fabric) {
    leave(SiteParameter::fabric, fmt::format("it is for fabric '{}', not for '{}'", site->fabric,
                                             job.cluster.fabric.name));
  }
  return use;
}

job::Job at_site(const SiteUse& use, const job::Job& job) {
  job::Job out = job;
  if (use.site == nullptr) {
    return out;
  }
  // A parameter that is not determined keeps the value of the job's training system, whatever the
  // prior was.
  const auto set = [&](SiteParameter p) { return use.has(p) && (*use.site)[p].determined; };
  if (set(SiteParameter::launch)) {
    out.system.launch = seconds(use.value(SiteParameter::launch));
  }
  if (set(SiteParameter::layer)) {
    out.system.layer_overhead = seconds(use.value(SiteParameter::layer));
  }
  if (set(SiteParameter::fabric)) {
    // The share of the line rate is at most 1; a larger factor raises the line rate itself.
    const double share = out.cluster.fabric.efficiency * use.value(SiteParameter::fabric);
    out.cluster.fabric.efficiency = std::min(1.0, share);
    out.cluster.node.nic = Bandwidth(out.cluster.node.nic.count() * std::max(1.0, share));
  }
  return out;
}

void scale_slowdowns(program::World& world, double factor) {
  for (program::Slowdown& s : world.slowdowns) {
    if (s.curve == program::kNoCurve) {
      continue;
    }
    for (std::int64_t& speed : s.speed) {
      speed =
          std::max(1L, std::lround(1e6 / (1 + (1e6 / static_cast<double>(speed) - 1) * factor)));
    }
  }
}

std::vector<bool> overlap_curves(const program::World& world) {
  std::vector<bool> found(world.curves.size(), false);
  for (const program::Slowdown& s : world.slowdowns) {
    if (s.curve >= world.curves.size()) {
      continue;
    }
    found[s.curve] = true;
    for (const auto& [curve, share] : world.curves[s.curve].parts) {
      found[curve] = true;
    }
  }
  return found;
}

std::vector<cost::Curve> sharpen(const SiteUse& use, const std::vector<cost::Curve>& curves,
                                 program::World& world) {
  std::vector<cost::Curve> out = curves;
  if (use.site == nullptr) {
    return out;
  }
  const auto overlap = overlap_curves(world);
  for (std::size_t i = 0; i < out.size() && i < world.curves.size(); ++i) {
    cost::Curve& c = out[i];
    // Steps were measured, so the clock's deviation and the scatter of steps include the errors of
    // the curves of kernels.
    if (use.sure(SiteParameter::clock) && c.common == cost::Common::clock) {
      c.residual = 0;
    }
    if (use.sure(SiteParameter::fabric) && c.common == cost::Common::fabric) {
      c.residual = std::sqrt(std::max(0.0, c.residual * c.residual - c.shared * c.shared));
    }
    if (overlap[i] && use.sure(SiteParameter::overlap)) {
      c.residual = 0;
    }
    world.curves[i].residual = c.residual;
  }
  return out;
}

std::array<double, cost::kSiteParameters> parameter_seconds(
    const SiteUse& use, const std::vector<cost::Curve>& curves, const program::World& world,
    const std::vector<double>& curve_seconds) {
  std::array<double, cost::kSiteParameters> out{};
  if (use.site == nullptr) {
    return out;
  }
  const auto overlap = overlap_curves(world);
  for (const std::size_t i : used_curves(curves, curve_seconds)) {
    if (overlap[i]) {
      out[at(SiteParameter::overlap)] += curve_seconds[i];
    } else if (curves[i].common == cost::Common::clock) {
      out[at(SiteParameter::clock)] -= curve_seconds[i];
    } else if (curves[i].common == cost::Common::fabric) {
      out[at(SiteParameter::fabric)] -= curve_seconds[i];
    }
  }
  return out;
}

double deviation(const SiteUse& use, const std::array<double, cost::kSiteParameters>& added,
                 double scattered) {
  double variance = 0;
  for (std::size_t a = 0; a < added.size(); ++a) {
    for (std::size_t b = 0; b < added.size(); ++b) {
      if (use.applies[a] && use.applies[b]) {
        variance += added[a] * added[b] * use.site->correlation[a][b];
      }
    }
  }
  return std::sqrt(std::max(0.0, variance) + scattered * scattered);
}

}  // namespace stepcast::forecast
