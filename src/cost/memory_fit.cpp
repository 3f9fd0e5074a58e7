#include "memory_fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <stdexcept>

#include "folds.h"
#include "least_squares.h"

namespace stepcast::cost {
namespace {

constexpr int kMinMemoryPoints = 20;
constexpr std::size_t kMinMemorySizes = 8;
constexpr double kMemoryHuber = 0.1;
// A term must cut the mean held-out error by this share to be kept.
constexpr double kTermGain = 0.1;
constexpr double kMaxRamp = 8;
// Bytes that few SMs move: from a quarter of one block of 65,536 elements to some of every SM.
constexpr double kLeastStart = 5e5;
constexpr double kMostStart = 128e6;
constexpr double kMaxGain = 10;  // bandwidth of L2 over HBM, which is 2 to 4 on A100 to B200

struct Terms {
  bool ramp = false;
  double l2 = 0;       // bytes; 0: no resident part
  bool start = false;  // bytes that few SMs move
  double moved = 0;    // share of the bytes under the law of rows; 0: without it
  double row = 0;      // the usual row
};

std::vector<double> log_ratios(const MemoryCurve& curve, double bandwidth,
                               const std::vector<MemoryPoint>& points) {
  std::vector<double> r;
  r.reserve(points.size());
  for (const MemoryPoint& p : points) {
    r.push_back(std::log(memory_seconds(curve, bandwidth, p.bytes, p.row) / p.seconds));
  }
  return r;
}

// Parameters: ln fixed, ln share; then ln ramp; then ln resident, ln gain; then ln start,
// ln start_rate; then ln wide.
MemoryCurve unpack(const Eigen::VectorXd& x, Terms terms) {
  MemoryCurve c;
  c.fixed = std::exp(x[0]);
  c.share = std::exp(x[1]);
  Eigen::Index i = 2;
  if (terms.ramp) {
    c.ramp = std::exp(x[i++]);
  }
  if (terms.l2 > 0) {
    c.resident = std::exp(x[i]);
    c.gain = std::exp(x[i + 1]);
    i += 2;
  }
  if (terms.start) {
    c.start = std::exp(x[i]);
    c.start_rate = std::exp(x[i + 1]);
    i += 2;
  }
  if (terms.moved > 0) {
    c.row = terms.row;
    c.moved = terms.moved;
    c.wide = std::exp(x[i]);
  }
  return c;
}

MemoryCurve fit_once(const std::vector<MemoryPoint>& points, double bandwidth, double shortest,
                     Terms terms) {
  const Eigen::Index count = 2 + (terms.ramp ? 1 : 0) + (terms.l2 > 0 ? 2 : 0) +
                             (terms.start ? 2 : 0) + (terms.moved > 0 ? 1 : 0);
  Eigen::VectorXd start = Eigen::VectorXd::Zero(count);
  Bounds bounds{start, start};
  start.head(2) << std::log(3e-6), std::log(0.7);
  bounds.low.head(2) << std::log(shortest), std::log(0.02);
  bounds.high.head(2) << std::log(30e-6), 0;
  Eigen::Index i = 2;
  if (terms.ramp) {
    // Blocks of a fixed size overlap with the transfer of the others; a mere launch hardly does.
    start[i] = std::log(terms.start ? 3.0 : 1.5);
    bounds.low[i] = 0;
    bounds.high[i++] = std::log(kMaxRamp);
  }
  if (terms.l2 > 0) {
    start.segment(i, 2) << std::log(terms.l2 / 2), std::log(2.0);
    bounds.low.segment(i, 2) << std::log(terms.l2 / 16), 0;
    bounds.high.segment(i, 2) << std::log(terms.l2), std::log(kMaxGain);
    i += 2;
  }
  if (terms.start) {
    start.segment(i, 2) << std::log(8e6), std::log(0.1 * bandwidth);
    bounds.low.segment(i, 2) << std::log(kLeastStart), std::log(0.005 * bandwidth);
    bounds.high.segment(i, 2) << std::log(kMostStart), std::log(bandwidth);
    i += 2;
  }
  if (terms.moved > 0) {
    start[i] = std::log(0.3);
    bounds.low[i] = std::log(1e-3);
    bounds.high[i] = std::log(10.0);
  }
  const Eigen::VectorXd x =
      least_squares(start, bounds, kMemoryHuber, [&](const Eigen::VectorXd& y) -> Eigen::VectorXd {
        const std::vector<double> r = log_ratios(unpack(y, terms), bandwidth, points);
        return Eigen::Map<const Eigen::VectorXd>(r.data(), static_cast<Eigen::Index>(r.size()));
      });
  return unpack(x, terms);
}

std::int64_t truncated(double x) { return static_cast<std::int64_t>(x); }

bool is_held_out(const MemoryPoint& p) {
  return is_held_out(GemmPoint{truncated(p.bytes), 1, 1, 1, p.seconds});
}

// Least time of a kernel that does nothing, in tables timed from the host or by events.
constexpr double kHostShortest = 1e-6;
constexpr double kDeviceShortest = 0.3e-6;

// Log ratios of every point under a fit that did not see it.
std::vector<double> cross_validated(const std::vector<MemoryPoint>& points, double bandwidth,
                                    Terms terms) {
  std::vector<double> all;
  for (int fold = 0; fold < kFolds; ++fold) {
    std::vector<MemoryPoint> seen;
    std::vector<MemoryPoint> held;
    for (const MemoryPoint& p : points) {
      (fold_of({truncated(p.bytes)}) == fold ? held : seen).push_back(p);
    }
    if (held.empty() || seen.empty()) {
      continue;
    }
    const auto r = log_ratios(fit_once(seen, bandwidth, kDeviceShortest, terms), bandwidth, held);
    all.insert(all.end(), r.begin(), r.end());
  }
  return all;
}

double mean_size(const std::vector<double>& x) {
  double sum = 0;
  for (const double v : x) {
    sum +=
        std::min(std::abs(v), 3 * kMemoryHuber);  // no single outlier decides which law is chosen
  }
  return sum / static_cast<double>(x.size());
}

// The median row; throws where a point states none.
double usual_row(const std::vector<MemoryPoint>& points) {
  std::vector<double> rows;
  rows.reserve(points.size());
  for (const MemoryPoint& p : points) {
    if (p.row <= 0) {
      throw std::invalid_argument("a point states no row; the law of rows needs all of them");
    }
    rows.push_back(p.row);
  }
  std::nth_element(rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(rows.size() / 2),
                   rows.end());
  return rows[rows.size() / 2];
}

}  // namespace

MemoryFit fit_memory(const std::vector<MemoryPoint>& points, double bandwidth, double moved) {
  if (points.size() < kMinMemoryPoints) {
    throw std::invalid_argument(
        fmt::format("{} points are too few for a fit: at least {} are needed", points.size(),
                    kMinMemoryPoints));
  }
  std::vector<MemoryPoint> seen;
  std::vector<MemoryPoint> held;
  for (const MemoryPoint& p : points) {
    (is_held_out(p) ? held : seen).push_back(p);
  }
  Terms terms;
  if (moved > 0) {
    terms.moved = moved;
    terms.row = usual_row(points);
  }
  MemoryFit fit;
  fit.held_out =
      summary(log_ratios(fit_once(seen, bandwidth, kHostShortest, terms), bandwidth, held));
  fit.curve = fit_once(points, bandwidth, kHostShortest, terms);
  fit.curve.residual = fit.held_out.deviation;
  return fit;
}

MemoryFit fit_memory_sizes(const std::vector<MemoryPoint>& points, double bandwidth, double l2) {
  std::set<double> sizes;
  for (const MemoryPoint& p : points) {
    sizes.insert(p.bytes);
  }
  if (sizes.size() < kMinMemorySizes) {
    throw std::invalid_argument(fmt::format(
        "{} sizes are too few for a fit: at least {} are needed", sizes.size(), kMinMemorySizes));
  }
  if (*sizes.rbegin() < kMinSpan * *sizes.begin()) {
    throw std::invalid_argument(
        fmt::format("sizes from {:g} to {:g} bytes do not determine both a fixed time and a rate: "
                    "they must span a factor of {:g}",
                    *sizes.begin(), *sizes.rbegin(), kMinSpan));
  }
  // The part in L2 is fitted only with sizes well inside L2 and well beyond it.
  const bool reaches_l2 = l2 > 0 && *sizes.begin() < l2 / 8 && *sizes.rbegin() > 4 * l2;
  Terms best;
  std::vector<double> error = cross_validated(points, bandwidth, best);
  for (const Terms more : {Terms{.ramp = true}, Terms{.l2 = l2}, Terms{.ramp = true, .l2 = l2},
                           Terms{.start = true}, Terms{.ramp = true, .start = true}}) {
    if (more.l2 > 0 && !reaches_l2) {
      continue;
    }
    auto trial = cross_validated(points, bandwidth, more);
    if (mean_size(trial) < (1 - kTermGain) * mean_size(error)) {
      error = std::move(trial);
      best = more;
    }
  }
  MemoryFit fit;
  fit.held_out = summary(error);
  fit.curve = fit_once(points, bandwidth, kDeviceShortest, best);
  fit.outliers = count_outliers(log_ratios(fit.curve, bandwidth, points));
  fit.curve.residual = fit.held_out.deviation;
  return fit;
}

}  // namespace stepcast::cost
