#include "runs_prior.h"

#include <fmt/format.h>

#include <cmath>

namespace stepcast::calibrate {
namespace {

using cost::SiteParameter;

// Long-run levels of calibration files deviate by 3 to 10 % (long_run_deviation), kernel libraries
// by 4 to 5 % in bf16; kernels of a training framework that were not measured add a few per cent.
constexpr double kClock = 0.08;
// Hosts issue a kernel in 2 us (C++ runtimes, fast cores) to 20 us (eager Python, slow cores): 90 %
// of 5 us times exp(+-1.645 * 0.7) is 1.6 to 16 us.
constexpr double kLaunch = 0.7;
// Python and autograd time of one layer's pass that is not spent on launching its kernels: modules
// and hooks take tens of microseconds; saving and restoring random states for recomputation, or
// FSDP's hooks, take hundreds.
constexpr double kLayer = 300e-6;  // seconds
// The residual of slow-down curves without measurements of the device (cost/collectives.cpp).
constexpr double kOverlap = 0.5;
// Networks reach 0.5 to 1 of the calibration's bandwidth: residuals of network curves from 1 MiB on
// are 0.14 to 0.6 (calibration/nccl/*.yaml) and 0.33 over all InfiniBand, of which the operations
// of a site share 0.7.
constexpr double kFabric = 0.23;

}  // namespace

Priors::Priors(const job::System& system)
    : launch_(to_seconds(system.launch)), layer_(to_seconds(system.layer_overhead)) {
  // A host time of zero has no logarithm.
  launch_ = std::max(launch_, cost::range_of(SiteParameter::launch).low);
}

double Priors::deviation(SiteParameter p) const {
  switch (p) {
    case SiteParameter::clock:
      return kClock;
    case SiteParameter::launch:
      return kLaunch;
    case SiteParameter::layer:
      return kLayer;
    case SiteParameter::overlap:
      return kOverlap;
    case SiteParameter::fabric:
      return kFabric;
  }
  return 0;
}

double Priors::value(SiteParameter p, double x) const {
  return p == SiteParameter::layer    ? layer_ + kLayer * x
         : p == SiteParameter::launch ? launch_ * std::exp(kLaunch * x)
                                      : std::exp(deviation(p) * x);
}

std::string Priors::words(SiteParameter p) const {
  return p == SiteParameter::layer
             ? fmt::format("{:.0f} us + {:.0f} us", 1e6 * layer_, 1e6 * kLayer)
         : p == SiteParameter::launch
             ? fmt::format("{:.1f} us x/: {:.1f}", 1e6 * launch_, std::exp(kLaunch))
             : fmt::format("+-{:.0f} %", 100 * deviation(p));
}

void Priors::bounds(Vector& low, Vector& high) const {
  low.resize(cost::kSiteParameters);
  high.resize(cost::kSiteParameters);
  for (int i = 0; i < cost::kSiteParameters; ++i) {
    const auto p = static_cast<SiteParameter>(i);
    const auto range = cost::range_of(p);
    const auto x_of = [&](double value) {
      return p == SiteParameter::layer    ? (value - layer_) / kLayer
             : p == SiteParameter::launch ? std::log(value / launch_) / kLaunch
                                          : std::log(value) / deviation(p);
    };
    low[i] = x_of(range.low);
    high[i] = x_of(range.high);
  }
}

bool Priors::in_seconds(SiteParameter p) {
  return p == SiteParameter::launch || p == SiteParameter::layer;
}

}  // namespace stepcast::calibrate
