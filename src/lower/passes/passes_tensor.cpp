// What tensor parallelism adds around an operator: collectives over the tensor ranks, beside the
// products they do not feed where the framework can (Megatron-LM, core/tensor_parallel/layers.py).
#include "passes_tensor.h"

#include <algorithm>

#include "pass_feature.h"
#include "passes_parameters.h"
#include "passes_quantise.h"

namespace stepcast::lower {
namespace {

using cost::Collective;
using cost::Layout;
using model::Operator;
using model::TensorRole;

class TensorCollectives : public PassFeature {
 public:
  TensorCollectives(PassState& state, TensorCut cut) : state_(state), cut_(std::move(cut)) {}

  void before_forward(std::size_t i) override {
    const Operator& op = at(i);
    if (op.tensor == TensorRole::gathered || op.tensor == TensorRole::joined) {
      collective(state_, call(Collective::all_gather, output_bytes(state_, op), op.name));
      return;
    }
    if (!gathers(i) || chunked_gather(cut_, state_, i, Layout::forward)) {
      return;
    }
    for (int n = 0; n < linears_of(op); ++n) {
      collective(state_, call(Collective::all_gather, input_bytes(state_, op), op.name));
    }
    copy_sequence(state_, input_bytes(state_, op), op.name);
  }

  void after_forward(std::size_t i) override {
    const Operator& op = at(i);
    if (!closes(op) || chunked_scatter(cut_, state_, i, Layout::forward)) {
      return;
    }
    copy_sequence(state_, output_bytes(state_, op), op.name);
    const bool by_width = op.tensor == TensorRole::vocab_embedding && how().embedding_by_width;
    // Positions are added to the words of the whole sequence, which is then divided (megatron-core
    // 0.16.1, models/common/embeddings/language_model_embedding.py:51, reduce_scatter_embeddings).
    const bool whole = op.tensor == TensorRole::vocab_embedding && rows_are_added(i);
    const Collective sum = whole ? Collective::all_reduce : sums();
    collective(state_,
               call(by_width ? Collective::all_gather : sum, output_bytes(state_, op), op.name));
  }

  void before_backward(std::size_t i) override {
    const Operator& op = at(i);
    if (op.tensor == TensorRole::joined && cut_.sequence_parallel) {  // each rank has its tokens'
      collective(state_, call(Collective::all_gather, output_bytes(state_, op), op.name + " grad"));
      return;
    }
    if (!closes(op) || !cut_.sequence_parallel ||
        chunked_gather(cut_, state_, i, Layout::input_grad)) {
      return;
    }
    const std::string label = op.name + " grad";
    collective(state_, call(Collective::all_gather, output_bytes(state_, op), label));
    copy_sequence(state_, output_bytes(state_, op), label);
  }

  // The saved input is a shard: gathered again for the weight gradient, beside the input gradient's
  // product.
  void before_input_grad(std::size_t i) override {
    if (gathers(i) && !saves_gathered(at(i))) {
      const Operator& op = at(i);
      collective(state_, call(Collective::all_gather, input_bytes(state_, op), op.name + " input"),
                 how().async_backward ? Item::Kind::async : Item::Kind::collective);
    }
  }

  // The input's gradient is summed beside the weight gradient's product.
  void after_input_grad(std::size_t i) override {
    // In chunks, the gathered input came before the sums, which are made.
    if (!cut_.opens[i] || !how().async_backward || sums_in_chunks(i)) {
      return;
    }
    if (gathers(i) && !saves_gathered(at(i))) {
      join(state_, kTensor);
    }
    sum_input_gradient(at(i), Item::Kind::async, gradients_of(at(i)));
  }

  void after_weight_grad(std::size_t i) override {
    if (!cut_.opens[i] || sums_in_chunks(i)) {
      return;
    }
    if (how().async_backward) {
      join(state_, kTensor);
    } else {
      sum_input_gradient(at(i), Item::Kind::collective, gradients_of(at(i)));
    }
  }

  // DTensor makes a replicated weight's gradient whole as soon as it is made; the fused kernel of
  // torch 2.9 hands out its sum in fp32, the composite norm before it in the weight's format.
  void after_backward(std::size_t i) override {
    const Operator& op = at(i);
    if (op.tensor == TensorRole::gathered) {
      collective(state_,
                 call(Collective::reduce_scatter, output_bytes(state_, op), op.name + " dgrad"));
      return;
    }
    if (how().norm_gradients_apart && cut_.sequence_parallel && op.parameters > 0 &&
        summed_apart(op)) {
      const bool wide = op.kind == model::OpKind::norm && state_.plan.style.fused_norm;
      const double width = wide || op.repeated ? 4 : state_.width;
      for (const Parameter& one : parameters_of(state_.plan.model, op)) {
        collective(state_,
                   call(Collective::all_reduce,
                        static_cast<std::int64_t>(static_cast<double>(one.elements) * width),
                        op.name + (one.bias ? " bias gradient" : " weight gradient")));
      }
    }
  }

  void add_memory(std::size_t i, TensorRules& rules) const override {
    const Operator& op = at(i);
    // DTensor gathers the gradient of an embedding's result, and makes that of the whole table,
    // of which each rank then keeps its rows (torch 2.15, distributed/tensor/placement_types.py:
    // 606, _to_replicate_tensor; :628, _replicate_to_shard).
    if (op.kind == model::OpKind::embedding && closes(op) && how().norm_gradients_apart &&
        !how().local_embedding) {
      rules.scratch.whole = {cut_.sequence_parallel ? output_bytes(state_, op) : 0,
                             static_cast<std::int64_t>(static_cast<double>(op.parameters) *
                                                       cut_.ranks * state_.width)};
    }
    if (!cut_.sequence_parallel) {
      return;
    }
    rules.scatter.parts = closes(op) ? cut_.ranks : 1;
    if (!op.gemm) {
      return;
    }
    // Gathered before a column product; a row product's sum before it is scattered, and its
    // gradient gathered. Back, the gradient of the whole input before it is scattered, and the
    // input gathered again for the weight gradient.
    const std::int64_t gathered = gathers(i) ? input_bytes(state_, op) : 0;
    const std::int64_t beside = gathered + (closes(op) ? output_bytes(state_, op) : 0);
    // Megatron-LM gathers into a buffer that stands, in both passes (megatron-core 0.8.0,
    // tensor_parallel/layers.py:413, 440: get_global_memory_buffer).
    const bool stands = state_.plan.device_memory.gathered_ranks > 0 && !saves_gathered(op);
    rules.forward += beside - (stands ? gathered : 0);
    // Batches come first there, so that the sum's chunks are joined along the first dimension ahead
    // of its scatter (torch 2.15, distributed/_functional_collectives.py:296).
    rules.scatter.joined = how().norm_gradients_apart && closes(op) ? output_bytes(state_, op) : 0;
    rules.input_grad += beside;
    if (stands) {
      return;
    }
    if (!saves_gathered(op)) {
      rules.backward += gathered;
    } else if (gathered_apart(op)) {
      rules.kept += gathered;
      rules.forward -= gathered;
    } else if (!input_made_again(op)) {  // its shard is counted as saved
      rules.kept += keeps_cast(op)
                        ? static_cast<std::int64_t>(static_cast<double>(gathered) *
                                                    operand_width(state_, op) / state_.width)
                        : gathered / cut_.ranks * (cut_.ranks - 1);
      rules.forward -= gathered;
    } else if (keeps_collectives(state_.plan)) {
      rules.kept += gathered;
      rules.forward -= gathered;
    }
  }

  std::int64_t kept_result(std::size_t i) const override {
    return kept_scattered_result(state_, at(i));
  }

 private:
  // A compiler keeps the cast of what was gathered in place of it and of the shard, which torchao's
  // linears read (titan02-tensorwise-tp4-l8, titan03-rowwise-tp4-l8 of tests/oracle).
  bool keeps_cast(const Operator& op) const {
    return state_.plan.precision.casts_operands_twice && state_.plan.style.compiled &&
           quantised(state_, op) && state_.plan.precision.compiled_casts != CompiledCasts::kept;
  }
  const Operator& at(std::size_t i) const { return state_.graph.operators[i]; }
  const strategy::TensorParallel& how() const { return state_.plan.tensor_parallel; }

  // The operator's input is a shard of the sequence, but it reads the whole sequence.
  bool gathers(std::size_t i) const {
    return cut_.sequence_parallel && cut_.opens[i] && !at(i).whole_input;
  }

  // Its weights' gradients are sums over the ranks' parts of the sequence, or, of what is repeated,
  // over their heads. Behind whole latents gradients are sums already.
  static bool summed_apart(const Operator& op) {
    const bool parts = op.tensor == TensorRole::none && !op.expert_parameters && !op.whole_input;
    return parts || op.repeated;
  }

  // Shared experts that run beside the dispatch read what was gathered ahead of their linear, which
  // does not know of the tensor ranks and keeps it; the router keeps this rank's part
  // (megatron-core 0.16.1 and 0.19.2, transformer/moe/shared_experts.py, __init__:
  // linear.parallel_mode = None; pre_forward_comm).
  bool gathered_apart(const Operator& op) const {
    return state_.plan.style.routing.shared_beside && op.module == model::Module::shared_expert &&
           op.tensor == TensorRole::column;
  }
  bool saves_gathered(const Operator& op) const {
    return how().saves_gathered_input || gathered_apart(op);
  }

  // Its result is a partial sum.
  static bool closes(const Operator& op) {
    return op.tensor == TensorRole::row || op.tensor == TensorRole::vocab_embedding;
  }

  // Other tables' rows are added to the word embedding's.
  bool rows_are_added(std::size_t i) const {
    return i + 1 < state_.graph.operators.size() && at(i + 1).kind == model::OpKind::embedding &&
           at(i + 1).forward_output == at(i).forward_output;
  }

  Collective sums() const {
    return cut_.sequence_parallel ? Collective::reduce_scatter : Collective::all_reduce;
  }

  bool sums_in_chunks(std::size_t i) const {
    return chunked_scatter(cut_, state_, i, Layout::input_grad);
  }

  static Call call(Collective op, std::int64_t bytes, const std::string& label) {
    return {kTensor, op, bytes, program::Category::tensor, label};
  }

  // Behind a router of the whole sequence, gradients of the routed tokens are sums already, and
  // each linear of a shared expert sums its own as a whole (torchtitan 0.2.2,
  // distributed/expert_parallel.py:209; models/llama4/infra/parallelize.py:543).
  void sum_router_gradient() {
    for (const Operator& op : state_.graph.operators) {
      const bool reads =
          op.module == model::Module::shared_expert && op.tensor == TensorRole::column;
      for (int n = 0; reads && n < op.forward_kernels; ++n) {
        collective(state_,
                   call(Collective::all_reduce, input_bytes(state_, op), op.name + " dgrad"));
      }
    }
  }

  void sum_input_gradient(const Operator& op, Item::Kind kind, int times) {
    if (op.kind == model::OpKind::router) {
      sum_router_gradient();
      return;
    }
    const std::string label = op.name + " dgrad";
    copy_sequence(state_, input_bytes(state_, op), label);
    const Collective sum = op.whole_input ? Collective::all_reduce : sums();
    for (int n = 0; n < times; ++n) {
      collective(state_, call(sum, input_bytes(state_, op), label), kind);
    }
  }

  // Where the halves of a gated MLP are linears of their own, each gathers the input and sums its
  // gradient itself.
  int linears_of(const Operator& op) const {
    const bool halves = state_.plan.model.gated_mlp && how().gated_halves_apart;
    return op.name == "fc1" && halves ? 2 : 1;
  }

  // Sums of its input's gradient.
  int gradients_of(const Operator& op) const {
    if (!how().linears_sum_apart || cut_.sequence_parallel) {
      return linears_of(op);
    }
    const bool halves = op.name == "fc1" && state_.plan.model.gated_mlp;
    return op.name == "qkv" ? 3 : halves ? 2 : 1;
  }

  // Whether the operator's input is computed again in the backward pass.
  bool input_made_again(const Operator& op) const {
    const std::set<std::uint32_t> again = made_again(state_.graph, state_.redone);
    return std::any_of(op.saved.begin(), op.saved.end(), [&](const model::Saved& s) {
      return s.name == "input" && again.count(s.storage) > 0;
    });
  }

  PassState& state_;
  TensorCut cut_;
};

}  // namespace

std::unique_ptr<PassFeature> make_tensor(PassState& state) {
  TensorCut cut = tensor_cut(state);
  return cut.ranks > 1 ? std::make_unique<TensorCollectives>(state, std::move(cut)) : nullptr;
}

}  // namespace stepcast::lower
