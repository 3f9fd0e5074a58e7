// Numbers of parameters that transformers' Trainer and accelerate fill in from the model's hidden
// size where DeepSpeed's JSON says "auto" (transformers 4.57.1, integrations/deepspeed.py:245;
// accelerate 1.12.0, accelerator.py:2270).
#pragma once

#include "field.h"
#include "stepcast/job/job.h"

namespace stepcast::config {

// A key of the system that takes a number of parameters, or auto.
Field<job::System> size_or_auto(const char* key, std::int64_t job::System::*member,
                                const char* description);
// Puts numbers where auto was said, once the model is known.
void fill_auto_sizes(job::Job& job);

}  // namespace stepcast::config
