#include "grouped.h"

#include <algorithm>
#include <cmath>

namespace stepcast::cost {

double GroupedCurve::at(double rows) const {
  const double last = static_cast<double>(factor.size()) - 1;
  const double place = std::clamp(std::log2(std::max(rows, 1.0)) - first, 0.0, last);
  const auto low = static_cast<std::size_t>(place);
  const std::size_t high = std::min(low + 1, factor.size() - 1);
  const double part = place - static_cast<double>(low);
  return factor[low] * (1 - part) + factor[high] * part;
}

double expert_layer_seconds(const GroupedCurve& curve, const GemmLaw& over,
                            const ExpertLayer& layer, double in, double out) {
  const auto tokens = static_cast<double>(layer.tokens);
  const auto hidden = static_cast<double>(layer.hidden);
  const double inter = static_cast<double>(layer.inter) / layer.tensor;
  const double routed = tokens * layer.topk;
  const double groups = static_cast<double>(layer.experts) / layer.parallel;
  const double rows = std::max(1.0, routed / layer.experts);
  const auto product = [&](double n, double k) {
    return gemm_seconds(over, {rows, n, k, groups, gemm_bytes(rows, n, k, groups, in, out)});
  };
  constexpr double kMoved = 2;  // bytes: activations stay in bf16
  const double moved = kMoved * (routed * (hidden + 3 * inter) + tokens * hidden);
  return curve.fixed + curve.gather * moved / over.bandwidth +
         curve.at(rows) * (product(2 * inter, hidden) + product(hidden, inter));
}

}  // namespace stepcast::cost
