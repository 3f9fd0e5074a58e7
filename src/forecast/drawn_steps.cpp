#include "drawn_steps.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "stepcast/base/fnv.h"
#include "stepcast/engine/engine.h"

namespace stepcast::forecast {
namespace {

// The world with every curve's prices scaled by its factor.
void scale(program::World& world, const std::vector<double>& factor) {
  auto blended = [&](program::CurveId id) {
    const auto& parts = world.curves[id].parts;
    if (parts.empty()) {
      return factor[id];
    }
    double sum = 0;
    for (const auto& [curve, share] : parts) {
      sum += share * factor[curve];
    }
    return sum;
  };
  auto scaled = [](Time t, double f) {
    return Time(static_cast<std::int64_t>(static_cast<double>(t.count()) * f));
  };
  for (program::Program& p : world.programs) {
    for (program::Task& t : p.tasks) {
      if (t.kind == program::TaskKind::kernel) {
        t.duration = scaled(t.duration, blended(t.curve));
      }
    }
  }
  for (program::Slowdown& s : world.slowdowns) {
    if (s.curve == program::kNoCurve) {
      continue;
    }
    const double f = std::max(0.0, blended(s.curve));
    for (std::int64_t& speed : s.speed) {  // the factor scales the time lost, 1/speed - 1
      speed = std::lround(1e6 / (1 + (1e6 / static_cast<double>(speed) - 1) * f));
    }
  }
  for (program::Shape& s : world.shapes) {
    for (program::Price& p : s.prices) {
      p.latency = scaled(p.latency, blended(p.latency_curve));
      const double f = blended(p.curve);
      p.fluid = scaled(p.fluid, f);
      p.rate =
          std::max<std::int64_t>(1, static_cast<std::int64_t>(static_cast<double>(p.rate) / f));
    }
  }
}

// Standard deviation, in seconds, of all doubts that belong to no curve.
double beside_curves(const std::vector<result::Doubt>& doubts) {
  double beside = 0;
  for (const result::Doubt& d : doubts) {
    beside = d.kind == result::DoubtKind::site || d.kind == result::DoubtKind::model ||
                     d.kind == result::DoubtKind::run || d.kind == result::DoubtKind::open
                 ? std::hypot(beside, d.added())
                 : beside;
  }
  return beside;
}

// Errors of one curve. By its name and file, since curves that other jobs brought lie between those
// of this one.
class Errors {
 public:
  Errors(const program::Curve& curve, std::uint64_t seed)
      : random_(seed ^ fnv1a(curve.name + "|" + curve.file)), residual_(curve.residual) {}
  double factor() { return std::max(0.05, 1 + residual_ * normal_(random_)); }

 private:
  std::mt19937_64 random_;
  std::normal_distribution<double> normal_;
  double residual_;
};

}  // namespace

std::vector<double> drawn_steps(const program::World& world,
                                const std::vector<result::Doubt>& doubts, int samples,
                                std::uint64_t seed, const Stop* stop) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  const double beside = beside_curves(doubts);
  std::vector<Errors> errors;
  errors.reserve(world.curves.size());
  for (const program::Curve& curve : world.curves) {
    errors.emplace_back(curve, seed);
  }
  std::vector<double> steps;
  for (int n = 0; n < samples; ++n) {
    std::vector<double> factor(world.curves.size(), 1.0);
    for (std::size_t c = 0; c < factor.size(); ++c) {
      factor[c] = errors[c].factor();
    }
    program::World sample = world;
    scale(sample, factor);
    engine::Options draw;
    draw.stop = stop;
    auto result = engine::run(sample, draw);
    if (auto* t = std::get_if<program::Timeline>(&result)) {
      const double shift = beside > 0 ? beside * normal(random) : 0;
      steps.push_back(to_seconds(t->period) + shift);
    }
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

}  // namespace stepcast::forecast
