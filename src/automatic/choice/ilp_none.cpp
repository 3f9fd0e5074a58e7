// Replaces the solver in a build without CBC.
#include "ilp.h"
#include "stepcast/base/diagnostics.h"

namespace stepcast::automatic {

bool have_ilp_solver() { return false; }

IlpSolution solve(const Ilp&, double) {
  STEPCAST_CHECK(false, "this build has no solver of integer programs");
  return {};
}

}  // namespace stepcast::automatic
