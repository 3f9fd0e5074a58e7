// LAW     grouped GEMM, g groups of mean rows r: t = f(r) * t1, where t1 is one GEMM of the same
//         tiles (gemm.h, batch g) by the curve of the library `over`, and f is linear in log2 r
//         between powers of two. In long runs the power limit caps it like t1.
//         Fused layer of experts: t = fixed + gather * B/bandwidth + grouped(gate and up)
//         + grouped(down), B = 2 T topk (H + 3 I) + 2 T H: rows are gathered, activated and summed
//         for all tokens, as vLLM does, whichever share of the experts the GPU holds
// SOURCE  fitted (grouped_fit.h) to vLLM's fused layers under balanced loads:
//         calibration/*/grouped-*.yaml; f alone of PyTorch's _grouped_mm: `grouped` of
//         calibration/h[12]00-sxm/gemm-cublas.yaml
// VALID   2 to 4096 rows a group; beyond, f keeps its border's value. Only balanced groups.
// COST    no allocation; two GEMM prices
#pragma once

#include <string>
#include <vector>

#include "gemm.h"
#include "stepcast/cost/kernels.h"

namespace stepcast::cost {

struct GroupedCurve {
  std::string over;            // the library whose GEMM curve it multiplies
  double first = 0;            // log2 of the first node's rows
  std::vector<double> factor;  // at each node
  double fixed = 0;            // seconds of a fused layer beyond its products
  double gather = 0;
  double residual = 0;
  double at(double rows) const;
};

// At the clock of a burst. `in` and `out`: bytes of one element of an operand and of a result.
double expert_layer_seconds(const GroupedCurve& curve, const GemmLaw& over,
                            const ExpertLayer& layer, double in, double out);

}  // namespace stepcast::cost
