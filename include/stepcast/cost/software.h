// Time that software takes beyond the curves of its kernels, fitted to training runs (calibration/software.yaml;
// calibration/README.md, "Fitted parameters").
#pragma once

#include <filesystem>

#include "stepcast/base/quantity.h"

namespace stepcast::cost {

// Without the file no time is added to the curves.
struct Software {
  int listed_experts = 1;  // number of experts on a rank beyond which System::expert_overhead does not grow
  double mxfp8_cast = 1;   // time of Transformer Engine's MXFP8 casts over their bytes at a copy's rate
  double block_cast =
      1;  // the same of casts to FP8 in blocks of 128 elements and of their transposes, one direction a kernel
  double column_cast = 0;       // seconds an element: torchao's scaling along columns, under a compiler
  double single_elements = 0;   // elements that a multiprocessor takes one by one in a clock, in PyTorch's kernels
                                // without vectors (one that adds, casts or copies); 0: no limit
  Time user_buffer_step{0};     // time of a chunk of Transformer Engine's userbuffers beyond its GEMM, launched by the host
  double tokens_beside = 1;     // time of DeepEP's exchanges beside the kernels of another pass over that of them alone
  int collective_launches = 1;  // host time of a collective through torch.distributed, as a number of kernel launches
};

// Throws InputError with the place of what is wrong.
Software read_software(const std::filesystem::path& calibration);

}  // namespace stepcast::cost
