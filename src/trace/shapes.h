// What an operator of PyTorch computes, from the shapes that the profiler recorded
// (record_shapes=True).
#pragma once

#include <string_view>

#include "stepcast/result/trace.h"
#include "stepcast/trace/trace.h"

namespace stepcast::trace {

// Name, shapes, type, and the product or the attention, or why there is none. `kernel`: its
// longest, which tells TF32 from FP32, both of which are "float" to the operator.
result::TraceOperator read_operator(const OperatorShapes& recorded, std::string_view kernel);

// Bytes of one element of a type as PyTorch's collectives name it ("BFloat16"); 0: not known.
std::int64_t bytes_of_type(std::string_view dtype);

}  // namespace stepcast::trace
