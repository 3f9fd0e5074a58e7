// Reading `measured` of a run.
#pragma once

#include <string>
#include <vector>

#include "stepcast/runs/run.h"
#include "stepcast/text/document.h"
#include "stepcast/text/map.h"

namespace stepcast::runs {

// Words of an enum as "a, b or c", for messages.
std::string one_of_words(std::vector<std::string> words);

// Every quantity of a job, or of an operator by itself, in file order; adds each faulty one to
// `faults`.
std::vector<Measurement> measured_of(const text::Value& map, bool of_operator,
                                     text::Faults& faults);

}  // namespace stepcast::runs
