// LAW     t = fixed + max(C, bytes/bandwidth)
//         C = sum over products of F/R + F/P (1/fill - 1), F = 2 * sequences * heads * q * keys * d
//         keys: those that a query's blocks hold, as blocks that the mask leaves in part are
//         computed whole: (causal) k - q/2 + b/2, or with a window w behind its start: w + b, b
//         being the longer of the sides of blocks of queries and keys; all without a mask products
//         forward: scores (over d_qk), output (over d_v). Backward as two kernels: scores,
//         probabilities' gradient, dq; then scores, dv, probabilities' gradient, dk: seven of which
//         four have d_qk and three d_v. As one kernel: five, of which three have d_qk
//         R: rate where the array is filled; P: the peak. fill = d / (u ceil(d/u)) for an array of
//         u x u, as a side of every product is a head's dimension: what is not filled multiplies
//         zeros at the peak, while all else (exponentials, loads) takes what it takes
// SOURCE  jax 0.10.2, experimental/pallas/ops/tpu/splash_attention/splash_attention_kernel.py:
//         _next_nonzero (747: blocks with any score run), flash_attention_kernel (768, 822),
//         _flash_attention_dq_kernel (1367, 1391, 1402), _flash_attention_dkv_kernel (1778 to
//         1820); the array's side: _src/pallas/mosaic/tpu_info.py, mxu_column_size
// VALID   aligned blocks that are no longer than the sequence; no kernel of a TPU was measured
#pragma once

#include "attention.h"

namespace stepcast::cost {

// What the array does for one pass, in multiply-adds counted as two FLOPs.
struct SplashWork {
  double filled = 0;  // FLOPs of the scores that are computed, masked ones in whole blocks included
  double padded = 0;  // the same with the head's dimensions rounded up to whole arrays
};
SplashWork splash_work(const model::AttentionShape& shape, const job::SplashAttention& blocks,
                       int array, bool backward);

// Seconds of one pass. `of_peak`: R over P in the forward pass.
double splash_seconds(const AttentionCurve& curve, double of_peak,
                      const model::AttentionShape& shape, const job::SplashAttention& blocks,
                      int array, bool backward, const AttentionDevice& device,
                      double bytes_per_element);

}  // namespace stepcast::cost
