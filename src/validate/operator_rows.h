// Peak memory of single operators, as Liger-Kernel's benchmark measures it.
#pragma once

#include <variant>

#include "stepcast/base/quantity.h"
#include "stepcast/interop/operator_case.h"
#include "stepcast/interop/published_rows.h"

namespace stepcast::validate {

// Largest allocated bytes over one call (benchmark/scripts/utils.py, _test_memory): the operator's
// tensors from the functions that layers are made of (model::build_piece), and around them what the
// benchmark holds. Iterations follow each other, so gradients of inputs and parameters stand from
// the one before; `backward(retain_graph=True)` keeps saved tensors.
std::variant<Bytes, interop::Skipped> operator_peak(const interop::OperatorCase& row);

}  // namespace stepcast::validate
