// Number formats of tensors.
#pragma once

#include "stepcast/base/spelling.h"

namespace stepcast {

enum class DType { fp32, tf32, bf16, fp16, fp8, fp8_block, mxfp8, nvfp4, mxfp4, int8 };

constexpr auto spellings(DType) {
  return std::to_array<Spelling<DType>>({{DType::fp32, "fp32"},
                                         {DType::tf32, "tf32"},
                                         {DType::bf16, "bf16"},
                                         {DType::fp16, "fp16"},
                                         {DType::fp8, "fp8"},
                                         {DType::fp8_block, "fp8_block"},
                                         {DType::mxfp8, "mxfp8"},
                                         {DType::nvfp4, "nvfp4"},
                                         {DType::mxfp4, "mxfp4"},
                                         {DType::int8, "int8"}});
}

// Bytes of one element in memory (tf32 is stored as fp32; nvfp4 and mxfp4 count their half byte as 0.5).
double bytes_per_element(DType t);

}  // namespace stepcast
