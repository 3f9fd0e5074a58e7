// The job in a line: what a reader must see to know which plan the figures belong to.
#pragma once

#include <string>

#include "stepcast/result/report.h"

namespace stepcast::report {

// "megatron-lm, bf16; tensor 8, pipeline 4 x 5 chunks, data 16, zero1; 512 sequences of 8192
// tokens, ...". Read from the resolved job; what it does not hold is left out, so an empty job
// gives an empty line.
std::string job_line(const result::Report& report);

}  // namespace stepcast::report
