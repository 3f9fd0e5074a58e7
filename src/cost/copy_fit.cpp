#include "copy_fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <stdexcept>

#include "folds.h"
#include "least_squares.h"

namespace stepcast::cost {
namespace {

constexpr std::size_t kMinCopySizes = 6;
constexpr double kCopyHuber = 0.1;
constexpr double kShortest = 0.3e-6;
constexpr double kLongest = 1e-3;

std::vector<double> log_ratios(const CopyCurve& curve, const std::vector<CopySample>& samples) {
  std::vector<double> r;
  r.reserve(samples.size());
  for (const CopySample& s : samples) {
    r.push_back(std::log(copy_seconds(curve, s.bytes) / s.seconds));
  }
  return r;
}

CopyCurve fit_once(const std::vector<CopySample>& samples) {
  double fastest = 0;
  double soonest = kLongest;
  for (const CopySample& s : samples) {
    fastest = std::max(fastest, s.bytes / s.seconds);
    soonest = std::min(soonest, s.seconds);
  }
  Eigen::VectorXd start = Eigen::VectorXd::Zero(2);
  Bounds bounds{start, start};
  start << std::log(std::max(soonest, kShortest)), std::log(fastest);
  bounds.low << std::log(kShortest), std::log(0.2 * fastest);
  bounds.high << std::log(kLongest), std::log(2 * fastest);
  const auto unpack = [](const Eigen::VectorXd& x) {
    CopyCurve c;
    c.latency = std::exp(x[0]);
    c.bandwidth = std::exp(x[1]);
    return c;
  };
  return unpack(
      least_squares(start, bounds, kCopyHuber, [&](const Eigen::VectorXd& y) -> Eigen::VectorXd {
        const std::vector<double> r = log_ratios(unpack(y), samples);
        return Eigen::Map<const Eigen::VectorXd>(r.data(), static_cast<Eigen::Index>(r.size()));
      }));
}

}  // namespace

double copy_seconds(const CopyCurve& curve, double bytes) {
  return curve.latency + bytes / curve.bandwidth;
}

CopyFit fit_copy(const std::vector<CopySample>& samples) {
  std::set<double> sizes;
  for (const CopySample& s : samples) {
    sizes.insert(s.bytes);
  }
  if (sizes.size() < kMinCopySizes) {
    throw std::invalid_argument(fmt::format(
        "{} sizes are too few for a fit: at least {} are needed", sizes.size(), kMinCopySizes));
  }
  if (*sizes.rbegin() < kMinSpan * *sizes.begin()) {
    throw std::invalid_argument(
        fmt::format("sizes from {:g} to {:g} bytes do not determine both a latency and a "
                    "bandwidth: they must span a factor of {:g}",
                    *sizes.begin(), *sizes.rbegin(), kMinSpan));
  }
  std::vector<double> unseen;
  for (int f = 0; f < kFolds; ++f) {
    std::vector<CopySample> seen;
    std::vector<CopySample> held;
    for (const CopySample& s : samples) {
      (fold_of({static_cast<std::int64_t>(s.bytes)}) == f ? held : seen).push_back(s);
    }
    if (!held.empty() && !seen.empty()) {
      const auto r = log_ratios(fit_once(seen), held);
      unseen.insert(unseen.end(), r.begin(), r.end());
    }
  }
  CopyFit fit;
  fit.held_out = summary(unseen);
  fit.curve = fit_once(samples);
  fit.curve.residual = fit.held_out.deviation;
  fit.outliers = count_outliers(log_ratios(fit.curve, samples));
  return fit;
}

}  // namespace stepcast::cost
