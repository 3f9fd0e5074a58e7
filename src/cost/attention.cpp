#include "attention.h"

#include <algorithm>
#include <cmath>
#include <iterator>

namespace stepcast::cost {
namespace {

constexpr double kTile = 128;  // queries per thread block in FlashAttention's kernels
// dQ, dK and the recomputed S sum over the queries' and keys' width, dV and dP over the values':
// five products against the forward's two (FlashAttention-2, section 3.2), 2.5 times its FLOPs
// where the widths are equal.
double backward_flops(const model::AttentionShape& s) {
  return (3.0 * s.qk_dim + 2.0 * s.v_dim) / (s.qk_dim + s.v_dim);
}

// The rate for a head dimension, interpolated between those that were measured.
double rate_at(const std::map<int, double>& rate, int dim) {
  const auto up = rate.lower_bound(dim);
  if (up == rate.end()) {
    return std::prev(up)->second;
  }
  if (up->first == dim || up == rate.begin()) {
    return up->second;
  }
  const auto low = std::prev(up);
  const double part = static_cast<double>(dim - low->first) / (up->first - low->first);
  return low->second + part * (up->second - low->second);
}

// Number of keys that a query attends to, on average.
double keys_per_query(const model::AttentionShape& s) {
  const auto q = static_cast<double>(s.query_length);
  const auto k = static_cast<double>(s.key_length);
  const double window = s.window > 0 && s.window < s.key_length ? static_cast<double>(s.window) : k;
  if (!s.causal) {
    return window * s.share;
  }
  // The last query sees every key; with more queries than keys the first ones see none. A query at
  // position p sees min(p, window).
  const double first = std::max(0.0, k - q);
  const double growing = std::max(0.0, (window * window - first * first) / 2);
  const double full = (k - std::max(window, first)) * window;
  return (growing + full) / q * s.share;
}

// Keys of the last queries beyond those of the mean one: under a causal mask these see all.
double further_keys(const model::AttentionShape& s, double mean) {
  const auto k = static_cast<double>(s.key_length);
  const double window = s.window > 0 && s.window < s.key_length ? static_cast<double>(s.window) : k;
  return s.causal ? std::max(0.0, window * s.share - mean) : 0;
}

// Keys that a tile computes although its queries do not attend to them, at the diagonal and at the
// far edge of a window.
double masked_keys(const model::AttentionShape& s) {
  const bool windowed = s.window > 0 && s.window < s.key_length;
  return (s.causal ? kTile / 2 : 0) + (windowed ? kTile / 2 : 0);
}

}  // namespace

double attention_flops(const model::AttentionShape& s, bool backward) {
  const double forward = 2.0 * static_cast<double>(s.sequences) * s.heads *
                         static_cast<double>(s.query_length) * keys_per_query(s) *
                         (s.qk_dim + s.v_dim);
  return backward ? forward * backward_flops(s) : forward;
}

double pass_seconds(const AttentionPass& pass, const model::AttentionShape& s, bool backward,
                    double ratio, const AttentionDevice& device, double bytes_per_element) {
  const auto q = static_cast<double>(s.query_length);
  const auto sequences = static_cast<double>(s.sequences);
  const double tiles = sequences * s.heads * std::ceil(q / kTile);
  const double exact = tiles / device.sms;
  const double waves = exact + pass.tail * (std::ceil(exact - 1e-12) - exact);
  const double keys = keys_per_query(s) + masked_keys(s);
  const double rate = ratio * rate_at(pass.rate, std::max(s.qk_dim, s.v_dim));
  double each = 2 * std::min(kTile, q) * (s.qk_dim + s.v_dim);  // FLOPs of a tile and key
  double passes = 1;
  if (backward) {
    each *= backward_flops(s);
    passes = 2;  // q, k, v, o and do are read, dq, dk, dv written: twice the forward's traffic
  }
  if (!s.causal) {
    each *= pass.full;
  }
  // Half of the first wave are tiles above the mean: fewer waves have no longer end.
  const double end = std::min(pass.longest, waves / 2) * further_keys(s, keys);
  const double compute = (waves * (keys + pass.prologue) + end) * each * device.sms / rate;
  const double elements =
      sequences * (q * s.heads * (s.qk_dim + s.v_dim) +
                   static_cast<double>(s.key_length) * s.kv_heads * (s.qk_dim + s.v_dim));
  const double moved = passes * elements * bytes_per_element / device.bandwidth;
  const double shape = pass.grid.at(sequences * s.heads, q, std::max(s.qk_dim, s.v_dim));
  return pass.fixed + std::max(compute, moved) * std::exp(shape);
}

double cache_seconds(const AttentionPass& pass, const model::AttentionShape& s,
                     const AttentionDevice& device, double bytes_per_element) {
  if (pass.cache.empty()) {
    return 0;
  }
  const double elements = static_cast<double>(s.sequences) * static_cast<double>(s.key_length) *
                          s.kv_heads * (s.qk_dim + s.v_dim);
  return rate_at(pass.cache, std::max(s.qk_dim, s.v_dim)) * elements * bytes_per_element /
         device.bandwidth;
}

double narrow_attention_seconds(double wide_seconds, double flops, double wide_peak,
                                double narrow_peak) {
  if (wide_peak <= 0 || narrow_peak <= wide_peak) {
    return wide_seconds;
  }
  const double products = std::min(wide_seconds, flops / wide_peak);
  return wide_seconds - products * (1 - wide_peak / narrow_peak);
}

double attention_seconds(const AttentionCurve& curve, const model::AttentionShape& s, bool backward,
                         const AttentionDevice& device, double bytes_per_element) {
  if (backward && curve.backward_pass) {
    return pass_seconds(*curve.backward_pass, s, true, 1, device, bytes_per_element);
  }
  return pass_seconds(curve, s, backward, backward ? curve.backward : 1, device, bytes_per_element);
}

}  // namespace stepcast::cost
