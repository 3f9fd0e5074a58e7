// LAW     t = fixed + max(C, bytes/bandwidth) * exp(g(sequences heads, q, d))
//         C = W(sequences heads ceil(q/128)) * 2 * 128 (keys + prologue)(d_qk + d_v) * SMs/rate(d)
//         keys: those that a tile of 128 queries computes on average: all, or (causal) k - q/2 +
//         64; fewer with a window, with another 64 at its far edge; a share of them for packed
//         documents and steps of context parallelism W(T) = (1 - tail) T/SMs + tail ceil(T/SMs)
//         without a causal mask: C * full
//         with one, where tiles are dealt out in any order: + longest * (k - mean keys) of a tile,
//         since the SMs that got the longest tiles last end alone (FlashAttention-2; several tiles
//         share an SM, so that one of them takes several times as long as by itself)
//         backward: five matrix products instead of two, (3 d_qk + 2 d_v)/(d_qk + d_v) times the
//         FLOPs, at rate * backward, or with parameters of its own
//         in a step of training: under the power limit, as products (gemm.h: sustained_seconds)
// SOURCE  rates fitted to calibration/*/attention-points.csv; form after FlashAttention-2
//         (arXiv 2307.08691)
// VALID   512 to 128k tokens, head dimensions 32 to 512, interpolated between measured ones
#pragma once

#include "calibration_file.h"
#include "stepcast/model/operators.h"

namespace stepcast::cost {

struct AttentionDevice {
  int sms = 0;
  double bandwidth = 0;  // bytes/s, achieved
};

// A multiply-add counts as two FLOPs; causal attention counts the half that is needed.
double attention_flops(const model::AttentionShape& shape, bool backward);

// One pass with its own parameters; `ratio` scales its rate.
double pass_seconds(const AttentionPass& pass, const model::AttentionShape& shape, bool backward,
                    double ratio, const AttentionDevice& device, double bytes_per_element);

// Time that writing keys and values into a paged cache took in the table that the pass was fitted
// to.
double cache_seconds(const AttentionPass& pass, const model::AttentionShape& shape,
                     const AttentionDevice& device, double bytes_per_element);

double attention_seconds(const AttentionCurve& curve, const model::AttentionShape& shape,
                         bool backward, const AttentionDevice& device, double bytes_per_element);

// The same pass in 8 bits, from its time in 16. LAW  t - F/P16 + F/P8: the products run at the
// other peak, the softmax and all else stay. SOURCE  no table of 8-bit attention is known;
// FlashAttention-3 (arXiv 2407.08608, abstract) publishes 740 TFLOP/s in FP16 on H100 and "close
// to 1.2 PFLOP/s" in FP8, where the law gives 1.18; on Blackwell exponentials bound the forward
// pass (FlashAttention-4), and the law gives 1.4 times the speed.
double narrow_attention_seconds(double wide_seconds, double flops, double wide_peak,
                                double narrow_peak);

}  // namespace stepcast::cost
