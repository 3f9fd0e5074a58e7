#include "stepcast/cost/curve.h"

#include "stepcast/base/diagnostics.h"

namespace stepcast::cost {

CurveTable::CurveTable() { curves_.push_back({"exact", "", "", "a count, not a measurement", 0}); }

CurveId CurveTable::add(const Curve& curve) {
  for (std::size_t i = 0; i < curves_.size(); ++i) {
    if (curves_[i] == curve) {
      return CurveId::at(i);
    }
  }
  STEPCAST_CHECK(curves_.size() < 65535, "too many curves for CurveId");
  curves_.push_back(curve);
  return CurveId::at(curves_.size() - 1);
}

}  // namespace stepcast::cost
