// fp16 under CUDA's names: HIP has the same ones.
#pragma once

#include <hip/hip_fp16.h>
