// Splash attention of TPUs: the blocks that its mask leaves, and how heads fill the arrays.
#include "cost/splash.h"

#include "catch.hpp"
#include "devices.h"
#include "stepcast/cost/kernels.h"

using namespace stepcast;
using namespace stepcast::cost;

namespace {

model::AttentionShape shape_of(std::int64_t length, std::int64_t window, int dim) {
  model::AttentionShape s;
  s.sequences = 3;
  s.query_length = s.key_length = length;
  s.heads = 8;
  s.kv_heads = 2;
  s.qk_dim = s.v_dim = dim;
  s.window = window;
  return s;
}

// Scores of all blocks of `b` x `b` in which a query sees a key, block by block.
double in_blocks(std::int64_t length, std::int64_t window, std::int64_t b) {
  double scores = 0;
  for (std::int64_t q = 0; q < length; q += b) {
    for (std::int64_t k = 0; k <= q; k += b) {
      const bool seen = window == 0 || q - (k + b - 1) < window;
      scores += seen ? static_cast<double>(b * b) : 0;
    }
  }
  return scores;
}

job::Device tpu() {
  job::Device d;
  d.name = "some-tpu";
  d.peak[job::DType::bf16] = FlopRate(9e14);
  d.memory_bandwidth = Bandwidth(1.6e12);
  d.sms = 1;
  d.matrix_unit = 256;
  return d;
}

}  // namespace

TEST_CASE("splash attention computes the blocks that its mask leaves, whole") {
  for (const std::int64_t length : {4096, 8192}) {
    for (const std::int64_t window : {0, 1024, 2048}) {
      for (const std::int64_t block : {128, 512, 1024}) {
        const auto s = shape_of(length, window, 256);
        job::SplashAttention splash;
        splash.block = splash.backward_block = block;
        INFO(length << ' ' << window << ' ' << block);
        const double each = 2.0 * 3 * 8 * in_blocks(length, window, block) * 256;
        CHECK(splash_work(s, splash, 256, false).filled == Approx(2 * each).epsilon(1e-3));
        CHECK(splash_work(s, splash, 256, true).filled == Approx(7 * each).epsilon(1e-3));
        splash.fused_backward = true;
        CHECK(splash_work(s, splash, 256, true).filled == Approx(5 * each).epsilon(1e-3));
      }
    }
  }
}

TEST_CASE("a head narrower than the array leaves the rest of it idle") {
  const job::SplashAttention splash;
  for (const bool backward : {false, true}) {
    const auto half = splash_work(shape_of(8192, 0, 128), splash, 256, backward);
    CHECK(half.padded == Approx(2 * half.filled));
    const auto whole = splash_work(shape_of(8192, 0, 256), splash, 256, backward);
    CHECK(whole.padded == Approx(whole.filled));
    const auto older = splash_work(shape_of(8192, 0, 128), splash, 128, backward);
    CHECK(older.padded == Approx(older.filled));
  }
}

TEST_CASE("splash attention is never faster than its array, and slower in longer blocks") {
  CurveTable curves;
  const job::Device d = tpu();
  const Kernels kernels{d, "cublas", test::kCalibration, {}, curves};
  for (const int dim : {64, 128, 256}) {
    for (const bool backward : {false, true}) {
      AttentionQuery query;
      query.shape = shape_of(8192, 0, dim);
      query.backward = backward;
      const double time = to_seconds(kernels.attention(query).time);
      const auto work = splash_work(query.shape, query.splash, d.matrix_unit, backward);
      CHECK(work.padded / time <= d.peak.at(job::DType::bf16).count());
      query.splash.block = query.splash.backward_block = 2048;
      CHECK(to_seconds(kernels.attention(query).time) > time);
    }
  }
}
