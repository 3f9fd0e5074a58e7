// Peak memory of single operators, as Liger-Kernel's benchmark measures it.
#pragma once

#include <variant>

#include "stepcast/base/quantity.h"
#include "stepcast/interop/operator_case.h"
#include "stepcast/interop/published_rows.h"

namespace stepcast::validate {

// The largest number of allocated bytes during one call (benchmark/scripts/utils.py, _test_memory).
// It counts the operator's tensors, by the functions that also build layers (model::build_piece),
// and the tensors that the benchmark keeps around them. Calls follow one another, so gradients of
// inputs and parameters remain from the previous call; `backward(retain_graph=True)` keeps the
// saved tensors.
std::variant<Bytes, interop::Skipped> operator_peak(const interop::OperatorCase& row);

}  // namespace stepcast::validate
