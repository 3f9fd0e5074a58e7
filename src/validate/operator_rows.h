// Peak memory of single operators, as Liger-Kernel's benchmark measures it.
#pragma once

#include <optional>

#include "stepcast/base/quantity.h"
#include "stepcast/runs/run.h"

namespace stepcast::validate {

// Largest allocated bytes over one call (benchmark/scripts/utils.py, _test_memory): the operator's
// tensors from the functions that layers are made of (model::build_piece), and around them what the
// benchmark holds. Iterations follow each other, so gradients of inputs and parameters stand from
// the one before; `backward(retain_graph=True)` keeps saved tensors. nullopt: no operator of a
// layer works as this kernel of this provider.
std::optional<Bytes> operator_peak(const runs::OperatorCase& row);

}  // namespace stepcast::validate
