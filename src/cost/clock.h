// LAW     A power limit holds on average over a step, not within each kernel. Products alone run
//         at the level c, at which they draw the whole limit; at r c they draw r^(1/x) of it
//         (x: gemm.h, power limits). Kernels that memory bounds draw the share p of the limit and
//         leave the rest to the products among them:
//             t/r r^(1/x) + p o = t/r + o,    t: time of products at the level c, o: of the others
//         so that r^(1/x - 1) - 1/r = (1 - p) o/t. r is 1 where products are alone; no product runs
//         faster than in a burst, since its law caps it (gemm.h).
// SOURCE  p: calibration/*/power.yaml, from whole steps measured on one GPU
// VALID   kernels that alternate within some 10 ms, as those of a layer's two passes do. Attention
//         counts as a product, or, where its curve states no level of training, in neither time.
//         Waits for other ranks are not in it: what they leave belongs to the level that steps of
//         many GPUs determine.
#pragma once

namespace stepcast::cost {

// The level r c over c. `others` over `products`: their times; `share`: p; `exponent`: x.
double clock_relief(double others_over_products, double share, double exponent);

}  // namespace stepcast::cost
