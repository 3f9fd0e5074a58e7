// The GEMM law alone: closed forms, and a fit that recovers the law that made its points.
#include <cmath>
#include <random>

#include "catch.hpp"
#include "cost/gemm.h"
#include "cost/gemm_fit.h"

using namespace stepcast::cost;

namespace {
// Four SMs, whole waves, no memory limit, no fixed cost; wide tiles are by far the best.
GemmLaw four_sms() {
  GemmLaw law;
  law.fixed = 0;
  law.rate = 4e12;
  law.bandwidth = 1e30;
  law.prologue = 100;
  law.tile = 64;
  law.tail = 1;
  law.sms = 4;
  return law;
}
double seconds(const GemmLaw& law, double m, double n, double k, double batch = 1) {
  return gemm_seconds(law, {m, n, k, batch, gemm_bytes(m, n, k, batch, 2, 2)});
}
// One wave: each SM computes one tile of 256 x 128 at 1 TFLOP/s over (1 + tile (1/256 + 1/128)).
double one_wave(double k) {
  return 2 * 256 * 128 * (k + 100) / 1e12 * (1 + 64 * (1.0 / 256 + 1.0 / 128));
}
}  // namespace

TEST_CASE("a grid of exactly the SMs' tiles takes one wave, two grids two") {
  // 512 x 256 is 2 x 2 tiles of 256 x 128; memory time is negligible.
  CHECK(seconds(four_sms(), 512, 256, 1000) == Approx(one_wave(1000)).epsilon(1e-9));
  CHECK(seconds(four_sms(), 1024, 256, 1000) == Approx(2 * one_wave(1000)).epsilon(1e-9));
  CHECK(seconds(four_sms(), 512, 256, 1000, 7) == Approx(7 * one_wave(1000)).epsilon(1e-9));
}

TEST_CASE("one column more begins another wave, of which `tail` is exposed") {
  auto law = four_sms();
  const double full = seconds(law, 512, 256, 1000);
  const double over = seconds(law, 512, 257, 1000);
  CHECK(over > 1.2 * full);
  CHECK(over <= 2 * full);
  law.tail = 0;
  // If the tail is not exposed, only partly filled tiles cost time.
  CHECK(seconds(law, 512, 257, 1000) <= 1.5 * full * (1 + 1e-9));
}

TEST_CASE("a small grid with a long k is split over the idle SMs") {
  // 256 x 128 uses one of 4 SMs: split in 4, each computes a quarter of k.
  const double whole = one_wave(65536);
  CHECK(seconds(four_sms(), 256, 128, 65536) < 0.3 * whole);
  CHECK(seconds(four_sms(), 256, 128, 65536) > 0.25 * whole);
}

TEST_CASE("memory binds where compute is nothing") {
  auto law = four_sms();
  law.rate = 1e20;
  law.bandwidth = 1e12;
  CHECK(seconds(law, 4096, 4096, 64) ==
        Approx(gemm_bytes(4096, 4096, 64, 1, 2, 2) / 1e12).epsilon(1e-6));
}

TEST_CASE("the power cap brings the fastest GEMM to the long-run level and spares slow ones") {
  const double cap = power_cap(293e12, 256e12);
  const double flops = 1e12;
  CHECK(flops / sustained_seconds(flops / 293e12, flops, cap) == Approx(256e12).epsilon(1e-9));
  // At half the burst rate the device stays below its power limit.
  CHECK(sustained_seconds(flops / 146e12, flops, cap) / (flops / 146e12) < 1.002);
  CHECK(std::isinf(power_cap(300e12, 300e12)));
  CHECK(sustained_seconds(1, 1, power_cap(300e12, 300e12)) == 1);
}

TEST_CASE("the correction is exact at nodes, linear between, and constant beyond") {
  CorrectionGrid g;
  g.axes = {CorrectionGrid::Axis{6, 1, 2}, CorrectionGrid::Axis{8, 1, 2},
            CorrectionGrid::Axis{8, 1, 2}};
  g.values = {0, 0.1F, 0.2F, 0.3F, 0.4F, 0.5F, 0.6F, 0.7F};
  CHECK(g.at(64, 256, 256) == Approx(0));
  CHECK(g.at(128, 256, 256) == Approx(0.4));
  CHECK(g.at(64, 512, 256) == Approx(0.2));
  CHECK(g.at(64, 256, 512) == Approx(0.1));
  CHECK(g.at(64 * std::sqrt(2.0), 256, 256) == Approx(0.2));
  CHECK(g.at(1, 1, 1) == Approx(0));
  CHECK(g.at(1e9, 1e9, 1e9) == Approx(0.7));
  CHECK(CorrectionGrid{}.at(64, 64, 64) == 0);
}

TEST_CASE("a fit to points that a law made with noise predicts unseen points within the noise") {
  GemmLaw truth;
  truth.fixed = 4e-6;
  truth.rate = 300e12;
  truth.bandwidth = 1.6e12;
  truth.prologue = 150;
  truth.tile = 20;
  truth.tail = 0.6;
  truth.sms = 108;
  std::mt19937_64 random(7);
  std::uniform_real_distribution<double> exponent(7, 14);
  std::normal_distribution<double> noise(0, 0.01);
  std::vector<GemmPoint> points;
  for (int i = 0; i < 1200; ++i) {
    GemmPoint p;
    p.m = std::llround(std::exp2(exponent(random)));
    p.n = std::llround(std::exp2(exponent(random)));
    p.k = std::llround(std::exp2(exponent(random)));
    const auto m = static_cast<double>(p.m);
    const auto n = static_cast<double>(p.n);
    const auto k = static_cast<double>(p.k);
    p.seconds = seconds(truth, m, n, k) * std::exp(noise(random));
    points.push_back(p);
  }
  GemmLaw start;
  start.sms = 108;
  start.rate = 200e12;
  start.bandwidth = 2.0e12;
  start.tail = 0.8;
  const GemmFit fit = fit_gemm(points, start, {2, 2});
  CHECK(fit.held_out[4].points > 100);
  CHECK(fit.held_out[4].median < 0.02);
  CHECK(fit.held_out[4].p95 < 0.05);
  points.resize(39);
  CHECK_THROWS_AS(fit_gemm(points, start, {2, 2}), std::invalid_argument);
}

TEST_CASE("A power limit lowers the cap below the rating and never raises it") {
  CHECK(power_share(700, 700, 0.7) == 1);
  CHECK(power_share(900, 700, 0.7) == 1);
  CHECK(power_share(350, 700, 1) == Approx(0.5));
  CHECK(power_share(350, 700, 1.0 / 3) == Approx(std::cbrt(0.5)));
  CHECK(power_share(500, 700, 0.7) < power_share(600, 700, 0.7));
}
