// The first sentence of every report but the forecast's (conclusion.h): what a reader would tell a
// colleague.
#pragma once

#include <string>

#include "../text/format.h"
#include "stepcast/report/diff.h"
#include "stepcast/result/compare.h"
#include "stepcast/result/explanation.h"
#include "stepcast/result/goodput.h"
#include "stepcast/result/memory.h"
#include "stepcast/result/plan.h"
#include "stepcast/result/search.h"
#include "stepcast/result/sweep.h"
#include "stepcast/result/trace.h"
#include "stepcast/result/validation.h"

namespace stepcast::report {

std::string conclusion(const result::MemoryTimeline& memory);
std::string conclusion(const result::Search& search);
std::string conclusion(const result::Sweep& sweep);
std::string conclusion(const result::Plan& plan);
std::string conclusion(const result::Comparison& comparison);
std::string conclusion(const result::Goodput& goodput);
std::string conclusion(const result::Explanation& explanation);
std::string conclusion(const result::TraceProfile& profile);
std::string conclusion(const result::Validation& validation);
std::string conclusion(const Diff& diff);

// A report's first lines on a terminal: the sentence, and the title below it.
std::string opening(const Paint& paint, const std::string& sentence, const std::string& title,
                    int width);

}  // namespace stepcast::report
