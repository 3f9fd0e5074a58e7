#include "passes_memory.h"

#include <algorithm>

#include "../data/buckets.h"
#include "../data/data_parallel.h"
#include "loss_chunks.h"
#include "pass_operators.h"
#include "pass_products.h"
#include "passes_loss.h"
#include "passes_parameters.h"
#include "passes_tiles.h"

namespace stepcast::lower {
namespace {

// The streams of attention residuals that a block's first layer stacks are inputs of its other
// layers, which checkpoints keep.
std::int64_t stacked_streams(const PassState& state) {
  const auto& operators = state.graph.operators;
  const auto stacks = std::find_if(operators.begin(), operators.end(),
                                   [](const auto& op) { return op.name == "block_start"; });
  return redoes_units(state.plan.recompute) && stacks != operators.end()
             ? stacks->forward_output.count()
             : 0;
}

// Bytes of what a unit reads.
std::int64_t unit_input_bytes(const PassState& state) {
  const model::Shard& shard = state.plan.shard;
  const double width = state.plan.style.autocast ? 4 : state.width;
  const auto bytes = static_cast<double>(local_tokens(state) * state.plan.model.hidden *
                                         model::stream_count(state.plan.model)) *
                     width;
  return whole_blocks(
             static_cast<std::int64_t>(bytes / (shard.sequence_parallel ? shard.tensor : 1))) +
         stacked_streams(state);
}

bool trains(const PassState& state) {
  const auto& operators = state.graph.operators;
  return std::any_of(operators.begin(), operators.end(),
                     [](const model::Operator& op) { return op.parameters > 0; });
}

// A part of a head that is called for each chunk of the sequence: a call's product, or the
// transposition of the weight.
bool in_calls_of_head(const model::Operator& op, const strategy::Plan& plan) {
  const bool transposed =
      op.kind == model::OpKind::elementwise && op.backward_temporary.count() > 0;
  return plan.loss_form.kernel == LossKernel::output_chunks && op.module == model::Module::head &&
         (op.tensor == model::TensorRole::vocab_head || transposed);
}

// Transformer Engine's products add a weight's gradient to the tensor from which it is reduced
// (megatron-core 0.19.2, distributed/fsdp/src/megatron_fsdp/param_and_grad_buffer.py:3086:
// main_grad_getter).
bool adds_to_unit_buffer(const PassState& state, const model::Operator& op) {
  return state.plan.parameter_gather.unit_buffers && state.plan.accumulation.in_product && op.gemm;
}

// The gradients that autograd makes of the operator's parameters, one by one.
void add_gradients(const PassState& state, const model::Operator& op, double width,
                   TensorRules& rules) {
  for (const Parameter& p : parameters_of(state.plan.model, op)) {
    rules.gradients.push_back(static_cast<std::int64_t>(static_cast<double>(p.elements) * width));
  }
}

// Under autocast positions are as wide as the residual stream, and so is what eager operators
// rotate by them (transformers 5.23, models/llama/modeling_llama.py:122: cos.to(dtype=x.dtype)).
double promotion_of(const PassState& state, const model::Operator& op) {
  if (op.kind == model::OpKind::norm) {  // its weight's product, ahead of the cast back
    return state.plan.style.wide_norm ? 4 / state.width : 1;
  }
  if (op.adapter) {  // its first product reads a copy in the adapter's format
    const bool first = state.plan.style.casts_adapter_inputs && !state.plan.style.autocast &&
                       state.width < 4 && op.name.ends_with("_a");
    return first ? 4 / state.width : 1;
  }
  const strategy::Model& m = state.plan.model;
  const int tensor = state.plan.shard.tensor;
  const std::int64_t elements =
      local_tokens(state) * (m.heads + std::max(m.kv_heads, tensor)) / tensor * m.head_dim;
  const bool narrow =
      static_cast<double>(op.forward_output.count()) == static_cast<double>(elements) * state.width;
  return state.plan.style.autocast && op.rotation == model::Operator::Rotation::halves && narrow
             ? 4 / state.width
             : 1;
}

// An embedding's backward pass sorts tokens by their rows and adds them up in fp32 in two steps,
// the first in a table of partial sums: a row for each of the tokens' values and one more for every
// ten tokens (torch, aten/src/ATen/native/cuda/EmbeddingBackwardKernel.cu: NROWS_PER_THREAD;
// without a sort up to 3072 tokens, Embedding.cu; as large in histories of the allocator,
// tests/oracle).
std::int64_t partial_sums_of(const PassState& state, const model::Operator& op) {
  constexpr std::int64_t kTokensOfThread = 10;
  constexpr std::int64_t kUnsorted = 3072;
  const auto ids = std::find_if(op.saved.begin(), op.saved.end(),
                                [](const model::Saved& s) { return s.name == "token_ids"; });
  if (op.kind != model::OpKind::embedding || op.parameters == 0 || ids == op.saved.end() ||
      state.plan.style.compiled_ends) {
    return 0;
  }
  const std::int64_t tokens = ids->bytes.count() / 8;
  const std::int64_t rows =
      std::min<std::int64_t>(tokens, state.plan.model.vocab) + tokens / kTokensOfThread;
  return tokens > kUnsorted ? 4 * rows * state.plan.model.hidden : 0;
}

// Megatron's stream has positions ahead of sequences, and its embedding the other way round, so
// that the gradient of several sequences is copied; where rows of other tensor ranks are masked,
// that of what is left is a copy too (megatron-core 0.16.1, tensor_parallel/layers.py:290 and :294,
// models/common/embeddings/language_model_embedding.py:120).
std::vector<std::int64_t> embedding_copies_of(const PassState& state, const model::Operator& op) {
  const strategy::Plan& plan = state.plan;
  if (op.tensor != model::TensorRole::vocab_embedding || op.parameters == 0 ||
      !plan.style.sequence_first || plan.tensor_parallel.kind != TensorKind::one_d) {
    return {};
  }
  const int copies = (plan.shard.sequences > 1 ? 1 : 0) + (plan.shard.tensor > 1 ? 1 : 0);
  return std::vector<std::int64_t>(static_cast<std::size_t>(copies), op.forward_output.count());
}

// The columns of a bias that the product adds and whose gradient autograd sums over rows; of
// several products behind one another, none.
std::int64_t summed_bias(const PassState& state, const model::Operator& op) {
  const model::Style& style = state.plan.style;
  const bool product = op.kind == model::OpKind::gemm && op.gemm && op.gemm->batch == 1;
  if (!product || !style.fused_linear_bias || style.compiled || op.forward_kernels > 1) {
    return 0;
  }
  return std::max<std::int64_t>(0, op.parameters - op.gemm->n * op.gemm->k);
}

// A norm in Python sums its weight's gradient over rows, and a product its bias's, in several
// blocks for each column, whose partial sums stand in fp32 (torch 2.7.1 and 2.15,
// aten/src/ATen/native/cuda/Reduce.cuh: setReduceConfig, global_memory_size): blocks of 32 x 4
// threads, each thread of four columns; as many of them as processors have room for, where a thread
// has at least 256 rows.
std::int64_t row_sums_of(const PassState& state, const model::Operator& op) {
  constexpr std::int64_t kThreads = 128, kWidth = 32, kHeight = 4, kColumns = 4;
  constexpr std::int64_t kThreadsOfProcessor = 2048;
  constexpr std::int64_t kMostRows = 256, kLeastRows = 16;  // of a thread
  const std::int64_t bias = summed_bias(state, op);
  const bool eager = op.kind == model::OpKind::norm && op.forward_temporary.count() > 0;
  const std::int64_t columns = bias > 0 ? bias : op.parameters;
  const std::int64_t elements = bias > 0 ? bias * op.gemm->m : op.forward_temporary.count() / 4;
  if ((!eager && bias == 0) || columns < kThreads || elements % columns != 0) {
    return 0;
  }
  const std::int64_t rows = elements / columns;
  const auto up = [](std::int64_t a, std::int64_t b) { return (a + b - 1) / b; };
  const std::int64_t per_thread = up(rows, kHeight);
  const std::int64_t grid = up(columns, kColumns * kWidth);
  const std::int64_t room = state.context.sms * (kThreadsOfProcessor / kThreads);
  if (per_thread < kMostRows || grid > room) {
    return 0;
  }
  const std::int64_t blocks =
      std::max(std::min(up(room, grid), up(per_thread, kLeastRows)), up(per_thread, kMostRows));
  return blocks > 1 ? 4 * columns * blocks * kWidth * kColumns : 0;
}

// PEFT's adapters are fp32 beside a 16-bit base; autocast narrows them for their product, which
// keeps the copy (peft 0.21.2, tuners/lora/layer.py:1102). FSDP's mixed precision gathers them in
// 16 bits.
std::int64_t narrowed_adapter(const PassState& state, const model::Operator& op) {
  const strategy::Plan& plan = state.plan;
  const bool narrowed = op.adapter && op.gemm && op.parameters > 0 &&
                        plan.style.casts_adapter_inputs && !plan.style.autocast &&
                        plan.precision.parameters == DType::fp32 && state.width < 4 &&
                        plan.data_comm != strategy::DataComm::shard_all;
  return narrowed ? whole_blocks(static_cast<double>(op.parameters) * state.width) : 0;
}

// Inductor's kernel of an activation's backward pass writes one of the halves' gradients where that
// half was, which nothing reads any more (recorded step titan03-compiled-l8 of tests/oracle). Where
// the layer runs again, it makes the activation's result as well, for which the weight gradient of
// the product behind waits, and writes over nothing (titan02-narrow-compiled-l8-full and -op).
void add_fused_activation(const PassState& state, std::size_t i, TensorRules& out) {
  const auto& ops = state.graph.operators;
  if (!state.plan.style.compiled || ops[i].kind != model::OpKind::activation) {
    return;
  }
  const bool again = state.plan.recompute.kind != RecomputeKind::none &&
                     !state.plan.optimizer_step.compiled;  // XLA compiles whole steps
  out.piece.over_last = !again || few_bits(state);
  if (again && !few_bits(state) && i + 1 < ops.size() && ops[i + 1].gemm) {
    const model::Gemm& next = *ops[i + 1].gemm;
    const auto result = static_cast<double>(next.m * next.k * next.batch);
    const auto waits = static_cast<double>(next.k * next.n * next.batch);
    out.backward += static_cast<std::int64_t>(std::max(result - waits, 0.0) * state.width);
  }
}

// What the operator's kind and the features add around it.
TensorRules tensor_rules(const PassState& state, const PassFeatures& features, std::size_t i) {
  const model::Operator& op = state.graph.operators[i];
  TensorRules out;
  if (auto* const memory = emitter_of(op.kind).memory) {
    memory(state, op, out);
  }
  for (const auto& feature : features) {
    feature->add_memory(i, out);
  }
  out.backward += out.input_grad;
  out.kept += narrowed_adapter(state, op);
  out.results = result_shares(state.plan.model, state.plan.shard.tensor, op);
  out.piece.view = op.in_place;
  out.promotion = promotion_of(state, op);
  out.scratch.works = embedding_copies_of(state, op);
  if (const std::int64_t sums = partial_sums_of(state, op); sums > 0) {
    out.scratch.works.push_back(sums);
  }
  if (const std::int64_t sums = row_sums_of(state, op); sums > 0) {
    out.scratch.works.push_back(sums);
    // A bias's gradient is summed behind the product's function (torch 2.15,
    // csrc/autograd/engine.cpp: validate_outputs), which was the last to hold what a checkpoint
    // without reentrance made again.
    out.scratch.behind = op.gemm && state.plan.recompute.frees_input;
  }
  out.gate_first = state.plan.style.gate_first && op.kind == model::OpKind::activation;
  add_fused_activation(state, i, out);
  const auto& operators = state.graph.operators;
  const bool sums =
      in_calls_of_head(op, state.plan) &&
      std::any_of(operators.begin() + static_cast<std::ptrdiff_t>(i) + 1, operators.end(),
                  [](const model::Operator& o) {
                    return o.tensor == model::TensorRole::vocab_head && o.parameters > 0;
                  });
  if (sums && !state.plan.parameter_gather.by_units) {
    out.backward += op.largest_temporary.count();  // the sum of a weight's gradients so far
  }
  if (state.plan.parameter_gather.by_units && !state.plan.state_layout.gradients_in_parameters &&
      !tiled(state.plan, op) && !adds_to_unit_buffer(state, op)) {
    add_gradients(state, op, state.width, out);
    // The table that an embedding's backward pass fills is that gradient.
    if (op.kind == model::OpKind::embedding && !out.gradients.empty()) {
      out.backward -= op.backward_temporary.count();
    }
    // A flat parameter that is trained in part has a gradient as a whole (flat_param.py:
    // use_orig_params): zeros for what is frozen.
    if (state.plan.parameter_gather.flat && op.frozen > 0 && trains(state) &&
        !state.plan.parameter_gather.wraps_adapters) {
      out.gradients.push_back(
          static_cast<std::int64_t>(static_cast<double>(op.frozen) * state.width));
    }
  }
  if (made_by_operators(state.plan) ||
      (!state.plan.parameter_gather.by_units && fills_passing_buckets(state.plan) &&
       sharing(state.plan, false).members() > 1)) {
    add_gradients(state, op, width(state.plan.precision.gradients), out);
    if (op.kind == model::OpKind::embedding && !out.gradients.empty()) {
      out.backward -= op.backward_temporary.count();
    }
  }
  return out;
}

// What a policy that chooses operators keeps beside their results: results of collectives, and the
// unit's input where no operator saves it. A compiler's partitioner keeps of all these only what
// the backward pass reads: the cut between both passes crosses no other (torch 2.15,
// _functorch/partitioners.py:2493, :2593), while an eager policy has chosen by then.
void keep_by_policy(const PassState& state, const PassFeatures& features,
                    std::vector<HeldTensor>& held) {
  if (!by_policy(state.redone)) {
    return;
  }
  bool input = false;
  for (std::size_t i = 0; i < state.graph.operators.size(); ++i) {
    for (const model::Saved& saved : state.graph.operators[i].saved) {
      input = input || !maker_of(state.graph, saved.storage);
    }
    for (const auto& feature : features) {
      const std::int64_t bytes = feature->kept_result(i);
      if (bytes > 0) {
        held.push_back({i, bytes});
      }
    }
  }
  if (state.plan.style.compiled) {
    std::erase_if(held, [&](const HeldTensor& tensor) {
      return !read_backward(state.graph, state.redone, tensor.made);
    });
  }
  if (!input && !state.graph.operators.empty()) {
    held.insert(held.begin(), {0, unit_input_bytes(state)});
  }
}

// Storages that are made again, and the operator before whose backward they are.
std::map<std::uint32_t, std::size_t> replayed_storages(const PassState& state) {
  std::map<std::uint32_t, std::size_t> out;
  const std::vector<Replay> again = replays(state.graph, state.redone);
  for (const std::uint32_t storage : made_again(state.graph, state.redone)) {
    const std::size_t maker = maker_of(state.graph, storage).value_or(0);
    for (const Replay& replay : again) {
      if (std::find(replay.operators.begin(), replay.operators.end(), maker) !=
          replay.operators.end()) {
        out[storage] = replay.before;
      }
    }
  }
  return out;
}

// Functions that run again as Megatron-LM's checkpoints of modules do, with all of their operators.
std::vector<RepeatedFunction> functions_again(const PassState& state) {
  std::vector<RepeatedFunction> out;
  if (by_policy(state.redone) || state.plan.style.compiled) {
    return out;
  }
  for (const Replay& replay : replays(state.graph, state.redone)) {
    const bool whole =
        std::all_of(replay.operators.begin(), replay.operators.end(),
                    [&](std::size_t i) { return state.redone[i].kind == Redo::Kind::again; });
    if (whole) {
      out.push_back({replay.operators, replay.before});
    }
  }
  return out;
}

}  // namespace

void add_memory(const PassState& state, const PassFeatures& features, Passes& out) {
  out.input = unit_input_bytes(state);
  out.operators = state.graph.operators.size();
  const auto loss = std::find_if(
      state.graph.operators.begin(), state.graph.operators.end(), [](const model::Operator& op) {
        return op.kind == model::OpKind::cross_entropy && op.module == model::Module::head;
      });
  if (loss != state.graph.operators.end()) {
    const bool cast = loss != state.graph.operators.begin() && (loss - 1)->name == kLossCast;
    out.head.loss = static_cast<std::size_t>(loss - state.graph.operators.begin()) - (cast ? 1 : 0);
  }
  for (std::size_t i = 0; i < state.graph.operators.size(); ++i) {
    if (in_calls_of_head(state.graph.operators[i], state.plan) && state.graph.operators[i].gemm) {
      out.head.calls.push_back(i);
    }
  }
  UnitOptions options;
  options.input = out.input;
  if (!state.plan.device_memory.gemm_workspace_stands) {
    options.product_workspace = gemm_workspace(state.plan, state.plan.precision.compute_capability);
  }
  options.input_gradient_first = state.plan.device_memory.input_gradient_first;
  options.layer_holds_normed_input = state.plan.device_memory.layer_holds_normed_input;
  options.holds_projection = state.plan.device_memory.holds_projection;
  options.split_keeps_graph = state.plan.stage_transport.split_keeps_graph;
  // Of layers that run again none is seen in what PyTorch allocates, which is not explained
  // (tests/oracle: titan03-blind-07).
  options.holds_gathered_gradients =
      options.split_keeps_graph && !redoes_units(state.plan.recompute);
  options.again_end = operators_again(state.plan.recompute, state.graph);
  options.again = replayed_storages(state);
  options.functions = functions_again(state);
  options.held = kept_to_redo(state.graph, state.redone);
  keep_by_policy(state, features, options.held);
  for (std::size_t i = 0; i < state.graph.operators.size(); ++i) {
    options.rules.push_back(tensor_rules(state, features, i));
  }
  out.memory = unit_memory(state.graph, options,
                           [&](const std::string& text) { return state.context.labels->id(text); });
  out.head.loss_chunks =
      state.plan.loss_form.kernel == LossKernel::chunked && out.head.loss.value_or(0) > 0;
  if (out.head.loss_chunks) {
    spread_over_chunks(state, options.product_workspace, out);
  }
  for (const model::Operator& op : state.graph.operators) {
    if (keeps_empty_gradient(state.plan, op)) {
      out.summed.push_back(*op.gemm);
    }
  }
}

}  // namespace stepcast::lower
