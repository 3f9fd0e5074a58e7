#include "splash.h"

#include <algorithm>
#include <cmath>

namespace stepcast::cost {
namespace {

// Products of a pass that have the queries' and keys' dimension on a side, and those that have the
// values'.
struct Products {
  double qk = 1;
  double v = 1;
};

Products products_of(const job::SplashAttention& splash, bool backward) {
  if (!backward) {
    return {1, 1};
  }
  return splash.fused_backward ? Products{3, 2} : Products{4, 3};
}

// Scores that are computed for one sequence and head.
double computed_scores(const model::AttentionShape& s, std::int64_t side) {
  const auto q = static_cast<double>(s.query_length);
  const auto k = static_cast<double>(s.key_length);
  const auto block = static_cast<double>(std::min({side, s.query_length, s.key_length}));
  const bool windowed = s.window > 0 && s.window < s.key_length;
  // At the diagonal a block is half masked, and another half at the far edge of a window, which the
  // first queries of a sequence do not reach.
  const double before = s.causal ? std::max(static_cast<double>(s.window), k - q) : k - q;
  const double extra = block / 2 * ((s.causal ? q : 0) + (windowed ? k - before : 0));
  const double seen = attention_flops(s, false) /
                      (2.0 * static_cast<double>(s.sequences) * s.heads * (s.qk_dim + s.v_dim));
  return std::min(seen + extra * s.share, q * k);
}

double up_to_arrays(int dim, int array) {
  return array > 0 ? std::ceil(static_cast<double>(dim) / array) * array : dim;
}

}  // namespace

SplashWork splash_work(const model::AttentionShape& s, const job::SplashAttention& splash,
                       int array, bool backward) {
  const Products n = products_of(splash, backward);
  const double scores = 2.0 * static_cast<double>(s.sequences) * s.heads *
                        computed_scores(s, backward ? splash.backward_block : splash.block);
  return {scores * (n.qk * s.qk_dim + n.v * s.v_dim),
          scores * (n.qk * up_to_arrays(s.qk_dim, array) + n.v * up_to_arrays(s.v_dim, array))};
}

double splash_seconds(const AttentionCurve& curve, double of_peak, const model::AttentionShape& s,
                      const job::SplashAttention& splash, int array, bool backward,
                      const AttentionDevice& device, double bytes_per_element) {
  const SplashWork work = splash_work(s, splash, array, backward);
  const double rate = curve.rate.begin()->second;
  const double compute = work.filled / (backward ? curve.backward * rate : rate) +
                         (work.padded - work.filled) * of_peak / rate;
  const double elements = static_cast<double>(s.sequences) *
                          (static_cast<double>(s.query_length) * s.heads * (s.qk_dim + s.v_dim) +
                           static_cast<double>(s.key_length) * s.kv_heads * (s.qk_dim + s.v_dim));
  // Each backward kernel reads q, k, v and do; one writes dq, the other dk and dv.
  const double passes = backward ? 2 : 1;
  return curve.fixed + std::max(compute, passes * elements * bytes_per_element / device.bandwidth);
}

}  // namespace stepcast::cost
