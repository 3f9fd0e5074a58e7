// The job in one line, so that a reader sees which plan the figures belong to.
#pragma once

#include <cstdint>
#include <string>

namespace stepcast::report {

// "megatron-lm, bf16; tensor 8, pipeline 4 x 5 chunks, data 16, zero1; 512 sequences of 8192
// tokens, ..."; `ranks` of the whole job. The line is made from the resolved job and leaves out
// keys that the job does not have, so an empty job gives an empty line.
std::string job_line(const std::string& job_json, std::int64_t ranks);

}  // namespace stepcast::report
