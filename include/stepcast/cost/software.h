// What software takes beyond its kernels' curves, fitted to training runs (calibration/software.yaml;
// calibration/README.md, "Fitted parameters").
#pragma once

#include <filesystem>

#include "stepcast/base/quantity.h"

namespace stepcast::cost {

// Without the file nothing is taken beyond the curves.
struct Software {
  int listed_experts = 1;       // experts on a rank from which on System::expert_overhead no longer grows with them
  double mxfp8_cast = 1;        // time of Transformer Engine's MXFP8 casts over their bytes at a copy's rate
  double column_cast = 0;       // seconds an element: torchao's scaling along columns, under a compiler
  Time user_buffer_step{0};     // of a chunk of Transformer Engine's userbuffers beside its product, launched by the host
  int collective_launches = 1;  // host time of a collective through torch.distributed, in launches of a kernel
};

// Throws InputError with the place of what is wrong.
Software read_software(const std::filesystem::path& calibration);

}  // namespace stepcast::cost
