// Opens the solver when the first integer program is to be solved.
#include "ilp.h"
#include "stepcast/base/late_module.h"

namespace stepcast::automatic {

bool have_ilp_solver() { return true; }

IlpSolution solve(const Ilp& program, double seconds) {
  IlpSolution out;
  late_function<SolveIlp>("integer_programs", "stepcast_solve_ilp")(program, seconds, out);
  return out;
}

}  // namespace stepcast::automatic
