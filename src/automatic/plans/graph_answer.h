// The answer of an algorithm on the graph: a plan, the job that expresses it, and the engine's
// forecast of that job.
#pragma once

#include <filesystem>

#include "../inputs.h"
#include "stepcast/result/algorithms.h"

namespace stepcast::automatic {

// The algorithm (alpa, nnscaler or flexflow) plans twice: without restrictions, and restricted to
// forms that a job can express (forms.h). The second plan is forecast. As long as the engine finds
// that it does not fit, it is made again with more memory left free. If no form is possible, the
// job nearest to the first plan is forecast.
void answer_on_graph(const Inputs& in, Algorithm algorithm, result::AlgorithmAnswer& out);

// Throws InputError if the file that `algorithms` names is no valid file of rules (user_rules.h).
void check_constraints(const AlgorithmRequest& algorithms, const job::Job& base,
                       const std::filesystem::path& data_directory);

}  // namespace stepcast::automatic
