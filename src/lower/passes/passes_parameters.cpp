#include "passes_parameters.h"

#include <algorithm>

#include "../data/parameter_formats.h"
#include "passes_quantise.h"
#include "passes_tiles.h"

namespace stepcast::lower {
namespace {

using model::Operator;
using model::OpKind;

// A product that stands for several of the framework's has their weights, each a parameter of its
// own: queries, keys and values; gate and up.
std::vector<std::int64_t> separate_weights(const strategy::Model& model, const Operator& op,
                                           std::int64_t weight) {
  const int parts = op.kind == OpKind::gemm ? std::max(op.forward_kernels, 1) : 1;
  std::int64_t columns = 0;
  for (const std::int64_t one : op.columns) {
    columns += one;
  }
  if (columns > 0 && weight % columns == 0) {
    std::vector<std::int64_t> out;
    for (const std::int64_t one : op.columns) {
      out.push_back(weight / columns * one);
    }
    return out;
  }
  if (parts == 3) {
    const std::int64_t one = weight / (model.heads + 2 * model.kv_heads) * model.kv_heads;
    return {weight - 2 * one, one, one};
  }
  return std::vector<std::int64_t>(static_cast<std::size_t>(parts), weight / parts);
}

// The weight without its bias.
std::int64_t weight_elements(const Operator& op) {
  return op.gemm ? std::min(op.parameters, op.gemm->k * op.gemm->n * op.gemm->batch)
                 : op.parameters - op.bias;
}

// `elements` of an operator's weight with their shape. A product's outputs are its rows; what an
// adapter trains beside a frozen weight has another shape.
Array weight_array(const PassState& state, const Operator& op, std::int64_t elements, bool expert) {
  Array out;
  out.elements = elements;
  out.expert = expert;
  out.tiled = tiled(state.plan, op);
  if (op.gemm) {
    const std::int64_t matrices = op.kind == OpKind::grouped_gemm ? op.gemm->batch : 1;
    if (elements % (op.gemm->k * matrices) == 0 && op.frozen == 0) {
      out.columns = op.gemm->k;
      out.rows = elements / (op.gemm->k * matrices);
    }
    out.table = op.tensor == model::TensorRole::vocab_head;
    out.cast = quantised(state, op);
    // Grouped products are none of autocast's operators (model/autocast.cpp).
    out.autocast =
        out.rows > 0 && !(op.kind == OpKind::grouped_gemm && state.plan.style.routing.grouped);
    out.narrow = gathered_in_8_bits(state, op);
  } else if (op.kind == OpKind::embedding) {
    out.columns = state.plan.model.hidden;
    out.rows = elements / out.columns;
    out.table = true;
    if (out.rows * out.columns != elements) {
      out.rows = out.columns = 0;
    }
  }
  return out;
}

// Elements that every tensor rank holds, and whose gradient it makes of its part of the sequence
// alone: of norms and routers, and biases behind row products (megatron-core 0.16.1,
// tensor_parallel/layers.py:1228). Tables are read ahead of the sequence's division.
std::int64_t seen_in_parts(const Operator& op) {
  if (op.expert_parameters || op.kind == OpKind::embedding) {
    return 0;
  }
  if (op.tensor == model::TensorRole::row && op.gemm) {
    return op.parameters - weight_elements(op);
  }
  return op.tensor == model::TensorRole::none ? op.parameters : 0;
}

}  // namespace

std::vector<Parameter> parameters_of(const strategy::Model& model, const Operator& op) {
  const std::int64_t weight = weight_elements(op);
  const std::int64_t bias = op.parameters - weight;
  std::vector<Parameter> out;
  std::int64_t left = bias;
  const std::vector<std::int64_t> weights = separate_weights(model, op, weight);
  for (std::size_t i = 0; i < weights.size(); ++i) {
    // Each product of several has its own part of the bias.
    const bool last = i + 1 == weights.size();
    const std::int64_t part = last ? left : bias * weights[i] / std::max<std::int64_t>(weight, 1);
    left -= part;
    out.push_back({weights[i], false});
    out.push_back({part, true});
  }
  std::erase_if(out, [](const Parameter& p) { return p.elements <= 0; });
  return out;
}

std::vector<double> result_shares(const strategy::Model& model, int tensor, const Operator& op) {
  std::vector<double> out;
  if (op.kind == OpKind::rotary && op.forward_kernels > 1) {
    const double queries = model.heads;
    const double keys = std::max(model.kv_heads, tensor);  // ranks that share a head have it each
    return {queries / (queries + keys), keys / (queries + keys)};
  }
  if (!op.gemm || op.parameters + op.frozen == 0) {
    return out;
  }
  const std::int64_t weight = op.parameters > 0
                                  ? weight_elements(op)
                                  : std::min(op.frozen, op.gemm->k * op.gemm->n * op.gemm->batch);
  for (const std::int64_t elements : separate_weights(model, op, weight)) {
    out.push_back(static_cast<double>(elements) / static_cast<double>(weight));
  }
  return out;
}

namespace {

// Where experts run one by one, each has a weight of its own: megatron-core's SequentialMLP
// (0.16.1, core/transformer/moe/experts.py) and Transformer Engine's GroupedLinear (2.8.0,
// pytorch/module/grouped_linear.py:625, weight0, weight1, ...), whose products are launched for
// each (csrc/extensions/gemm.cpp:492, nvte_multi_tensor_gemm of lists of tensors).
std::int64_t weights_of(const PassState& state, const Operator& op) {
  return op.kind == OpKind::grouped_gemm && state.plan.expert_dispatch.launches_each_expert
             ? op.gemm->batch
             : 1;
}

// Its parameters, behind those of the operators before.
void add_arrays(const PassState& state, std::size_t i, const Operator& op, bool expert,
                std::vector<Array>& out) {
  const std::size_t first = out.size();
  const std::int64_t count = weights_of(state, op);
  for (const Parameter& p : parameters_of(state.plan.model, op)) {
    if (p.bias) {
      Array bias;
      bias.elements = p.elements;
      bias.expert = expert;
      bias.bias = true;
      out.push_back(bias);
    } else {
      Array one = weight_array(state, op, p.elements, expert);
      one.elements /= count;
      out.insert(out.end(), static_cast<std::size_t>(count), one);
    }
  }
  for (std::size_t n = first; n < out.size(); ++n) {
    out[n].op = i;
  }
}

// As add_arrays, of an operator without trained parameters. A copy that is trained stands for the
// frozen module that it is beside.
void add_frozen_arrays(const PassState& state, std::size_t i, const Operator& op, bool expert,
                       std::vector<Array>& out) {
  Operator trained = op;
  if (op.parameters == 0) {
    trained.parameters = op.frozen;
    trained.frozen = 0;
  }
  const std::size_t first = out.size();
  add_arrays(state, i, trained, expert, out);
  for (std::size_t n = first; n < out.size(); ++n) {
    out[n].frozen = op.parameters == 0;
  }
}

}  // namespace

// Of a frozen element's bytes the weight's own; the rest are constants of its block.
constexpr double kFourBits = 0.5;

void add_parameters(const PassState& state, Passes& out) {
  const strategy::Plan& plan = state.plan;
  Elements& trained = out.parameters.trained;
  // Experts that every data-parallel rank holds are reduced with the dense parameters (Megatron-LM
  // marks them apart under expert parallelism alone).
  const bool experts_apart = plan.shard.expert > 1 || plan.shard.expert_tensor != plan.shard.tensor;
  const std::size_t again = operators_again(plan.recompute, state.graph);
  const bool tuned = plan.style.finetune.kind != FinetuneKind::none;
  for (std::size_t i = 0; i < state.graph.operators.size(); ++i) {
    const Operator& op = state.graph.operators[i];
    const bool expert = op.expert_parameters && experts_apart;
    out.flops += op.forward.count();
    out.again_flops += i < again ? op.forward.count() : 0;
    out.redone_flops += runs_again(state.redone, i) ? op.forward.count() * state.redone[i].share
                        : op.remade                 ? op.forward.count()
                                                    : 0;
    if (state.graph.kind.repeats) {
      continue;
    }
    (expert ? trained.expert : trained.dense) += op.parameters;
    (expert ? trained.narrow_expert : trained.narrow_dense) +=
        quantised(state, op) ? weight_elements(op) : 0;
    add_arrays(state, i, op, expert, out.arrays);
    if (tuned) {
      add_frozen_arrays(state, i, op, expert, out.modules.with_frozen);
    }
    const double each = op.frozen_width > 0
                            ? op.frozen_width
                            : frozen_width(plan, quantised(state, op)) + frozen_columns(state, op);
    const bool constants = op.frozen_width > 0 && plan.parameter_gather.whole_block_constants;
    const double whole_width = constants ? each - kFourBits : 0;
    const auto frozen =
        static_cast<std::int64_t>(static_cast<double>(op.frozen) * (each - whole_width));
    out.parameters.frozen_bytes += frozen;
    out.parameters.frozen_experts += expert ? frozen : 0;
    out.parameters.frozen_norms += op.kind == model::OpKind::norm ? op.frozen : 0;
    const auto gathered = op.frozen_width > 0
                              ? frozen
                              : static_cast<std::int64_t>(static_cast<double>(op.frozen) *
                                                          bytes_per_element(plan.style.dtype));
    out.parameters.gathered_frozen += gathered;
    out.parameters.gathered_frozen_experts += expert ? gathered : 0;
    out.parameters.whole_frozen +=
        static_cast<std::int64_t>(static_cast<double>(op.frozen) * whole_width);
    if (op.frozen_width > 0) {
      const std::vector<std::int64_t> weights = separate_weights(plan.model, op, op.frozen);
      out.parameters.quantised.insert(out.parameters.quantised.end(), weights.begin(),
                                      weights.end());
    }
    out.parameters.replicated += seen_in_parts(op);
  }
  out.modules.calls = module_calls(state.graph, arrays_of_modules(out));
}

}  // namespace stepcast::lower
