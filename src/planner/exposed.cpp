#include "exposed.h"

namespace stepcast::planner {

double exposed_seconds(const result::Report& report) {
  double sum = 0;
  for (const auto& s : report.breakdown) {
    const Time all = s.tensor + s.pipeline + s.data + s.context + s.expert + s.offload + s.other;
    sum += static_cast<double>(all.count()) * 1e-12;
  }
  return report.breakdown.empty() ? 0 : sum / static_cast<double>(report.breakdown.size());
}

}  // namespace stepcast::planner
