// Compares the walk along the critical path with finite differences.
#include <cmath>

#include "catch.hpp"
#include "stepcast/engine/engine.h"
#include "stepcast/lower/fold.h"
#include "support/random_world.h"

using namespace stepcast;
using namespace stepcast::testing;

namespace {

Timeline timeline(const World& w, bool sensitivities) {
  engine::Options o;
  o.sensitivities = sensitivities;
  o.max_steps = 24;
  return std::get<Timeline>(engine::run(w, o));
}

// Every price and kernel under `curve` takes `factor` times as long.
World scaled(World w, CurveId curve, double factor) {
  const auto scale = [factor](Time& t) {
    t = Time(std::llround(static_cast<double>(t.count()) * factor));
  };
  for (Program& p : w.programs) {
    for (Task& t : p.tasks) {
      if (t.kind == TaskKind::kernel && t.curve == curve) {
        scale(t.duration);
      }
    }
  }
  for (Shape& s : w.shapes) {
    for (Price& p : s.prices) {
      if (p.curve == curve) {
        scale(p.fluid);
      }
      if (p.latency_curve == curve) {
        scale(p.latency);
      }
    }
  }
  return w;
}

}  // namespace

TEST_CASE("The critical path's seconds under a curve are the step's derivative") {
  int tried = 0;
  int close = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    Random r(seed);
    JobTraits t = random_traits(r);
    // If transfers or kernels slow each other, the derivative has further terms; without slowdown
    // the walk is exact.
    t.slowdown = false;
    t.transfers_slow = false;
    t.thin_link = false;
    t.gpus_per_nic = 1;
    t.kernel_time = 40'000'000;
    World w = random_world(t, r);
    for (Resource& x : w.resources) {
      x.capacity *= 1000;  // no link is shared
    }
    const Timeline base = timeline(w, true);
    if (!base.periodic) {
      continue;
    }
    REQUIRE(base.sensitivity.size() == w.curves.size());
    for (CurveId c = 1; c <= 5; ++c) {
      // The step is small enough that the critical path seldom changes. Differences are one-sided
      // and central.
      const double h = 1e-4;
      const Timeline up = timeline(scaled(w, c, 1 + h), false);
      const Timeline down = timeline(scaled(w, c, 1 - h), false);
      const double right = to_seconds(up.period - base.period) / h;
      const double left = to_seconds(base.period - down.period) / h;
      const double step = to_seconds(base.period);
      // At a kink the walk may follow either path.
      const double low = std::min(left, right) - 0.01 * step;
      const double high = std::max(left, right) + 0.01 * step;
      ++tried;
      close += base.sensitivity[c] >= low && base.sensitivity[c] <= high ? 1 : 0;
      CAPTURE(seed, c, left, right, base.sensitivity[c], step);
      CHECK(base.sensitivity[c] <= step * 1.0000001);
    }
  }
  CAPTURE(tried, close);
  CHECK(tried > 200);
  CHECK(close >= tried * 95 / 100);
}

TEST_CASE("Folded and full have the same sensitivities where nothing ties") {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    Random r(seed);
    const JobTraits t = random_traits(r);
    const World w = random_world(t, r);
    const Timeline full = timeline(w, true);
    const Timeline folded = timeline(lower::fold(w)->world, true);
    double a = 0;
    double b = 0;
    for (std::size_t c = 0; c < full.sensitivity.size(); ++c) {
      a += full.sensitivity[c];
      b += folded.sensitivity[c];
    }
    CAPTURE(seed);
    CHECK(a == Approx(b).epsilon(0.05));
  }
}

TEST_CASE("The critical path by category adds up to the step") {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    Random r(seed);
    const World w = random_world(random_traits(r), r);
    const Timeline t = timeline(w, true);
    if (!t.periodic) {
      continue;
    }
    double sum = 0;
    for (const double seconds : t.path) {
      INFO("seed " << seed);
      CHECK(seconds >= -1e-12);
      sum += seconds;
    }
    CHECK(sum == Approx(to_seconds(t.period)).epsilon(1e-9));
  }
}
