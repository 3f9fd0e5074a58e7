#include "stepcast/terms/number_format.h"

namespace stepcast {

double bytes_per_element(DType t) {
  switch (t) {
    case DType::fp32:
    case DType::tf32:
      return 4;
    case DType::bf16:
    case DType::fp16:
      return 2;
    case DType::fp8:
    case DType::fp8_block:
    case DType::mxfp8:
    case DType::int8:
      return 1;
    case DType::nvfp4:
    case DType::mxfp4:
      return 0.5;
  }
  return 0;
}

}  // namespace stepcast
