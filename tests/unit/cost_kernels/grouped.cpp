// Small and grouped GEMMs: few rows, operands in L2, experts; and which libraries exist.
#include "cost/grouped.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "catch.hpp"
#include "cost/grouped_fit.h"
#include "devices.h"
#include "gemm_figures.h"

using namespace stepcast;
using namespace stepcast::cost;
using namespace stepcast::test;

namespace {
GemmLaw law() {
  GemmLaw l;
  l.rate = 8e14;
  l.bandwidth = 2.8e12;
  l.sms = 132;
  return l;
}
GemmWork work(double m, double n, double k, bool repeated) {
  return {m, n, k, 1, gemm_bytes(m, n, k, 1, 2, 2), repeated};
}
}  // namespace

TEST_CASE("few rows: the grid's coordinate rises without a jump, and is m from 64 on") {
  CHECK(grid_rows(1) == Approx(16));
  CHECK(grid_rows(16) == Approx(32));
  CHECK(grid_rows(64) == Approx(64));
  CHECK(grid_rows(4096) == Approx(4096));
  for (double m = 1; m < 200; m += 1) {
    CHECK(grid_rows(m + 1) > grid_rows(m));
    CHECK(grid_rows(m + 1) < 1.25 * grid_rows(m));
  }
}

TEST_CASE("one row costs what reading the weights does, and 16 rows little more") {
  const GemmLaw l = law();
  const double weights = 2.0 * 8192 * 8192 / l.bandwidth;
  const double one = gemm_seconds(l, work(1, 8192, 8192, false)) - l.fixed;
  CHECK(one == Approx(weights).epsilon(0.05));
  CHECK(gemm_seconds(l, work(16, 8192, 8192, false)) - l.fixed < 1.15 * weights);
}

TEST_CASE(
    "operands that a benchmark's loop leaves in L2 are read at its speed, in the loop alone") {
  GemmLaw l = law();
  l.rate = 1e18;  // only memory counts
  l.resident = 16e6;
  l.l2_bandwidth = 4 * l.bandwidth;
  const auto body = [&](double n, bool repeated) {
    return gemm_seconds(l, work(1, n, 4096, repeated)) - l.fixed;
  };
  CHECK(body(512, false) > 2.5 * body(512, true));                       // 4 MB
  CHECK(body(16384, true) == Approx(body(16384, false)).epsilon(0.01));  // 134 MB
  for (double n = 256; n < 65536; n *= 1.3) {
    CHECK(body(1.3 * n, true) > body(n, true));
  }
}

TEST_CASE("a grouped curve: linear between powers of two, its border beyond them") {
  GroupedCurve c;
  c.first = 3;
  c.factor = {1.0, 1.2, 2.0};
  CHECK(c.at(1) == Approx(1));
  CHECK(c.at(8) == Approx(1));
  CHECK(c.at(8 * std::sqrt(2)) == Approx(1.1));
  CHECK(c.at(32) == Approx(2));
  CHECK(c.at(4096) == Approx(2));
}

TEST_CASE("the fit of grouped GEMMs finds the curve that made its points") {
  GroupedCurve truth;
  truth.first = 3;
  truth.factor = {0.9, 0.95, 1.0, 1.1, 1.2, 1.4, 1.6, 1.5};
  truth.fixed = 30e-6;
  truth.gather = 1.5;
  std::mt19937 random(3);
  std::normal_distribution<double> noise(0, 0.02);
  std::vector<ExpertPoint> points;
  for (const std::int64_t hidden : {2048, 4096, 5120, 7168}) {
    for (const std::int64_t inter : {768, 1536, 2048}) {
      for (const int parallel : {1, 8, 32}) {
        for (std::int64_t tokens = 256; tokens <= 16384; tokens *= 2) {
          ExpertLayer layer{tokens, hidden, inter};
          layer.topk = 8;
          layer.experts = 256;
          layer.parallel = parallel;
          points.push_back(
              {layer, expert_layer_seconds(truth, law(), layer, 2, 2) * std::exp(noise(random))});
        }
      }
    }
  }
  const GroupedFit fit = fit_grouped(points, law(), {2, 2});
  CHECK(fit.held_out.points > 20);
  CHECK(fit.held_out.median < 0.03);
  CHECK(fit.curve.fixed == Approx(truth.fixed).epsilon(0.2));
  CHECK(fit.curve.gather == Approx(truth.gather).epsilon(0.2));
  for (const double rows : {16.0, 64.0, 256.0}) {
    CHECK(fit.curve.at(rows) == Approx(truth.at(rows)).epsilon(0.06));
  }
  points.resize(30);
  CHECK_THROWS_AS(fit_grouped(points, law(), {2, 2}), std::invalid_argument);
}

TEST_CASE("experts under vLLM are priced by its measured curve, elsewhere by a stand-in") {
  CurveTable curves;
  const Kernels vllm(h100(), "vllm", kCalibration, {}, curves);
  const Kernels cublas(h100(), "cublas", kCalibration, {}, curves);
  const model::Gemm each{512, 4096, 4096, 1};
  const auto a = vllm.grouped_gemm({each, job::DType::bf16, Layout::forward}, 32);
  const auto b = cublas.grouped_gemm({each, job::DType::bf16, Layout::forward}, 32);
  CHECK(curves.curves()[a.curve].file == "h100-sxm/grouped-vllm.yaml");
  CHECK(curves.curves()[b.curve].file == "h100-sxm/gemm-cublas.yaml");
  CHECK(in_seconds(a) != in_seconds(b));
  CHECK(in_seconds(a) / in_seconds(b) == Approx(1).epsilon(0.35));
  // Without a separate table, the factor's deviation is part of the interval.
  const auto one = cublas.gemm({{512, 4096, 4096, 32}, job::DType::bf16, Layout::forward});
  CHECK(curves.curves()[b.curve].residual > curves.curves()[one.curve].residual);
}

TEST_CASE("groups of few rows take longer than one product of their tiles, where it was measured") {
  CurveTable curves;
  const Kernels kernels(h100(), "cublas", kCalibration, {}, curves);
  // Of the same products, grouped and not.
  const auto factor = [&](std::int64_t rows) {
    GemmQuery query{{rows, 2048, 2048, 1}, job::DType::bf16, Layout::forward};
    const double grouped = in_seconds(kernels.grouped_gemm(query, 32));
    query.shape.batch = 32;
    return grouped / in_seconds(kernels.gemm(query));
  };
  CHECK(factor(512) > 1.05);
  CHECK(factor(1024) < 1);
  CHECK(factor(724) == Approx((factor(512) + factor(1024)) / 2).epsilon(0.02));
  CHECK(factor(128) == Approx(factor(512)).epsilon(0.02));
  CHECK(factor(8192) == Approx(factor(2048)).epsilon(0.02));
}

TEST_CASE("libraries that were measured, by device") {
  const auto on = [](const char* device) { return gemm_libraries(kCalibration, device); };
  CHECK(on("h100-sxm") == std::vector<std::string>{"cublas", "trtllm", "vllm"});
  CHECK(on("gb300") == std::vector<std::string>{"trtllm", "vllm"});
  CHECK(on("h100").empty());  // only part of a name
  CHECK(on("mi355x") == std::vector<std::string>{"aiter"});
  CHECK(on("") == std::vector<std::string>{"aiter", "cublas", "trtllm", "vllm"});
}
