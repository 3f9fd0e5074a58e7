// What the algorithms on graphs answer: a plan, the job that says it, the engine's forecast of
// that.
#pragma once

#include <filesystem>

#include "../inputs.h"
#include "stepcast/result/algorithms.h"

namespace stepcast::automatic {

// `algorithm` (alpa, nnscaler or flexflow) plans twice: free, and held to forms that a job can say
// (forms.h). The second plan is forecast, and made again with more memory left free while the
// engine finds that it does not fit. Where no form is possible, the job nearest to the first is
// forecast.
void answer_on_graph(const Inputs& in, Algorithm algorithm, result::AlgorithmAnswer& out);

// Throws InputError where the file that `algorithms` names is none of user_rules.h.
void check_constraints(const AlgorithmRequest& algorithms, const job::Job& base,
                       const std::filesystem::path& data_directory);

}  // namespace stepcast::automatic
