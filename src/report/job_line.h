// The job in a line: what a reader must see to know which plan the figures belong to.
#pragma once

#include <cstdint>
#include <string>

namespace stepcast::report {

// "megatron-lm, bf16; tensor 8, pipeline 4 x 5 chunks, data 16, zero1; 512 sequences of 8192
// tokens, ..."; `ranks` of the whole job. Read from the resolved job; what it does not hold is left
// out, so an empty job gives an empty line.
std::string job_line(const std::string& job_json, std::int64_t ranks);

}  // namespace stepcast::report
