// The parameters of a unit on one rank, array by array, and what its passes compute.
#pragma once

#include "pass_state.h"

namespace stepcast::lower {

// Fills what `out` says of parameters, FLOPs and counts of kernels.
void add_parameters(const PassState& state, Passes& out);

// An operator's trained parameters, tensor by tensor; a bias comes behind its weight.
struct Parameter {
  std::int64_t elements = 0;
  bool bias = false;
};
std::vector<Parameter> parameters_of(const strategy::Model& model, const model::Operator& op);

// Shares of a product's or a rotation's result on one of `tensor` ranks, where it stands for
// several of the framework's: a tensor each.
std::vector<double> result_shares(const strategy::Model& model, int tensor,
                                  const model::Operator& op);

}  // namespace stepcast::lower
