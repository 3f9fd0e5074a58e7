// Adapters on a frozen base: LoRA (Hu et al., arXiv 2106.09685), QLoRA (Dettmers et al., arXiv
// 2305.14314), bottleneck adapters (Houlsby et al., arXiv 1902.00751) and LLaMA-Adapter (Zhang et
// al., arXiv 2303.16199; Gao et al., arXiv 2304.15010) as litgpt has it.
//
// LAW  a LoRA module on a matrix of d_in x d_out trains r (d_in + d_out) elements; an adapter of
//      width r trains 2 r h + r + h. The base keeps its products of the forward pass and for input
//      gradients. Those for weight gradients are removed, and with them the inputs that they
//      keep. LLaMA-Adapter trains a gate for each head of a layer with a prompt, and its prompts;
//      version 2 a scale and a bias for each column of each product as well, and the norms.
#include <algorithm>
#include <array>
#include <map>

#include "builder.h"
#include "stepcast/job/facts.h"
#include "stepcast/model/names.h"

namespace stepcast::model {
namespace {

// NF4: half a byte, and a double-quantised constant of 0.127 bits an element (QLoRA, section 3).
constexpr double kNf4Bytes = 0.5 + 0.127 / 8;
// NF4 without double quantisation: an fp32 constant for each block of 64 elements.
constexpr double kNf4PlainBytes = 0.5 + 4.0 / 64;
// bitsandbytes, functional.dequantize_4bit: constants, their offset, values.
constexpr int kDequantizeKernels = 3;

// AutoGPTQ 0.5.0, nn_modules/qlinear/qlinear_cuda_old.py: 4-bit integers, and of each 128 of them a
// 16-bit scale and a 4-bit zero.
constexpr double kGptqBytes = 0.5 + (2 + 0.5) / 128;
// Its forward, which PyTorch's operators carry out (lines 253 to 293): the packed integers are
// shifted into int32, cast to int8 and masked; zeros are subtracted, scales multiplied. Bytes of an
// element but for the 16-bit result.
constexpr double kGptqMoved = (0.5 + 4) + (4 + 1) + (1 + 1) + (1 + 1) + 1;
// All but the mask read operands that are broadcast or of another format than their result.
constexpr double kGptqSingles = 4;
constexpr int kGptqKernels = 5 + 4;  // and shift, cast, mask and one more for the groups' zeros
constexpr double kInt32 = 4;
constexpr double kInt8 = 1;

// A matrix inside an operator that has a name of its own in PEFT.
struct Target {
  const char* name;
  std::int64_t width;
};

// The output columns of an operator by PEFT's target names.
std::vector<Target> targets_of(const Builder& b, const Operator& op) {
  const job::Model& m = b.model;
  const std::int64_t n = op.gemm->n;
  if (op.name == "qkv") {
    const HeadShape all = head_shape(m, b.kind);
    const std::int64_t k = static_cast<std::int64_t>(all.kv_heads) * all.qk_dim / b.shard.tensor;
    const std::int64_t v = static_cast<std::int64_t>(all.kv_heads) * all.v_dim / b.shard.tensor;
    const auto& wanted = b.style.finetune.targets;
    const auto asked = [&](const char* name) {
      return std::find(wanted.begin(), wanted.end(), name) != wanted.end();
    };
    if (b.fused_projection() && !b.style.parted_adapters && asked("q") && asked("k") &&
        asked("v")) {
      return {{"q", n}};  // a packed projection that is adapted as a whole has one pair of matrices
    }
    return {{"q", n - k - v}, {"k", k}, {"v", v}};
  }
  if (op.name == "cross_kv") {
    const HeadShape all = head_shape(m, b.kind);
    const std::int64_t v = static_cast<std::int64_t>(all.kv_heads / b.shard.tensor) * all.v_dim;
    return {{"k", n - v}, {"v", v}};
  }
  if (op.name == "q" || op.name == "q_down" || op.name == "q_up" || op.name == "cross_q") {
    return {{"q", n}};
  }
  if (op.name == "kv_down" ||
      op.name == "kv_up") {  // keys and values share it, so either name selects it
    const auto& wanted = b.style.finetune.targets;
    const bool key = std::find(wanted.begin(), wanted.end(), "k") != wanted.end();
    return {{key ? "k" : "v", n}};
  }
  if (op.name == "out" || op.name == "cross_out") {
    return {{"o", n}};
  }
  if (op.name == "fc1" || op.name == "shared_fc1" || op.name == "expert_fc1") {
    return m.gated_mlp ? std::vector<Target>{{"gate", n / 2}, {"up", n / 2}}
                       : std::vector<Target>{{"up", n}};
  }
  if (op.name == "fc2" || op.name == "shared_fc2" || op.name == "expert_fc2") {
    return {{"down", n}};
  }
  return {};
}

// PEFT copies a module to train (0.21.2, utils/other.py: ModulesToSaveWrapper.update) and keeps
// the original.
bool trained_whole(const Operator& op, const job::Finetune& fine) {
  const auto asked = [&](const char* name) {
    return std::find(fine.modules_to_save.begin(), fine.modules_to_save.end(), name) !=
           fine.modules_to_save.end();
  };
  return (op.kind == OpKind::embedding && asked("embedding")) ||
         (op.module == Module::head && op.gemm && asked("head"));
}

bool has_weights(const Operator& op) {
  // A head that is called several times has its parameters with one of the calls.
  return op.gemm && op.kind != OpKind::batched_gemm &&
         (op.parameters > 0 || op.tensor == TensorRole::vocab_head);
}

// Rebuilds a graph with operators inserted before and after existing ones.
class Adapted {
 public:
  Adapted(Builder& b, const OperatorGraph& base) : b_(b), base_(base) {
    for (std::size_t i = 0; i < base.operators.size(); ++i) {
      add(i);
    }
  }
  OperatorGraph take() { return std::move(out_); }

 private:
  Node put(Operator op, const std::vector<Node>& from) {
    const auto node = static_cast<Node>(out_.operators.size());
    out_.operators.push_back(std::move(op));
    for (const Node producer : from) {
      out_.edges.emplace_back(producer, node);
    }
    return node;
  }

  void add(std::size_t i) {
    Operator op = base_.operators[i];
    std::vector<Node> from;
    for (const auto& [producer, consumer] : base_.edges) {
      if (consumer == static_cast<int>(i)) {
        from.push_back(node_.at(producer));
      }
    }
    const auto& fine = b_.style.finetune;
    if (trained_whole(op, fine)) {
      op.frozen = op.parameters;
      node_[static_cast<int>(i)] = put(std::move(op), from);
      return;
    }
    const bool product = has_weights(op);
    freeze(op, product);
    if (fine.kind == job::Finetune::Kind::adapter && op.kind == OpKind::residual && !from.empty()) {
      from.front() = add_bottleneck(op, from.front());
    }
    if (op.name == "out" && b_.kind.prompted && !from.empty()) {
      from.front() = add_prompt(from.front());
    }
    std::vector<Saved> read;
    if (product) {
      const auto inputs = std::stable_partition(op.saved.begin(), op.saved.end(),
                                                [](const Saved& s) { return s.name != "input"; });
      read.assign(inputs, op.saved.end());
      op.saved.erase(inputs, op.saved.end());
    }
    const bool quantized = op.frozen_width > 0;
    if (b_.style.frozen_inputs && (quantized || !job::quantizes_base(fine))) {
      op.saved.insert(op.saved.end(), read.begin(), read.end());
    }
    if (quantized) {
      from.push_back(gptq() ? add_gptq(op) : add_dequantize(op));
    }
    const std::vector<Node> sources(from.begin(), from.end() - (quantized ? 1 : 0));
    Node node = put(op, from);
    const bool low_rank =
        fine.kind == job::Finetune::Kind::lora || fine.kind == job::Finetune::Kind::qlora;
    if (product && low_rank) {
      std::vector<Target> adapted = targets_of(b_, op);
      const std::size_t parts = adapted.size();
      std::erase_if(adapted, [&](const Target& t) {
        return std::find(fine.targets.begin(), fine.targets.end(), t.name) == fine.targets.end();
      });
      // Some columns of a packed projection: their sum is scattered into the whole width.
      const bool packed = op.name == "qkv" && b_.fused_projection();
      const bool scattered = packed && adapted.size() < parts;
      std::vector<Node> reads = sources;
      for (std::size_t k = 0; k < adapted.size(); ++k) {
        // Each PEFT module has its own dropout; the parts of a packed projection share one.
        if (fine.dropout > 0 && (k == 0 || !packed)) {
          reads = {add_dropout(op, adapted[k], read, sources)};
        }
        node = add_low_rank(op, adapted[k], read, reads, node, scattered);
      }
    }
    if (product && fine.kind == job::Finetune::Kind::llama_adapter_v2) {
      for (const Target& part : scaled_parts(op)) {
        node = add_scale(op, part, node);
      }
    }
    node_[static_cast<int>(i)] = node;
  }

  void freeze(Operator& op, bool product) {
    if (op.kind == OpKind::norm &&
        b_.style.finetune.kind == job::Finetune::Kind::llama_adapter_v2) {
      return;
    }
    op.frozen = op.parameters;
    op.parameters = 0;
    const bool inside = op.module != Module::head && op.module != Module::embedding;
    const bool every = b_.style.quantizer != Quantizer::hugging_face;
    if (product && (inside || every) && job::quantizes_base(b_.style.finetune)) {
      op.frozen_width = gptq()                               ? kGptqBytes
                        : b_.style.finetune.double_quantized ? kNf4Bytes
                                                             : kNf4PlainBytes;
    }
    if (product) {
      op.weight_grad = Flops(0.0);
      op.backward_temporary = op.largest_temporary = Bytes(0);  // sums of weight gradients
    } else if (op.module == Module::head && op.kind == OpKind::elementwise) {
      // Of a head called for chunks: views of its input, and sums of its weight gradients.
      op.saved.clear();
      op.backward_temporary = op.largest_temporary = Bytes(0);
    } else if (op.kind == OpKind::embedding && b_.style.quantizer == Quantizer::stable_embedding &&
               job::quantizes_base(b_.style.finetune)) {
      // The one before, which the optimizer holds, the one that took its place, and a gradient that
      // nothing sets to zero (litgpt 0.5.11, finetune/lora.py:215 to 228).
      op.frozen *= 3;
    } else if (op.kind == OpKind::embedding) {  // no gradient is needed here or below
      op.backward_moved = Bytes(0);
      op.backward_kernels = 0;
      op.backward_temporary = Bytes(0);
      op.saved.clear();
    } else if (op.kind ==
               OpKind::norm) {  // the normed tensor is kept only for the weight's gradient
      std::erase_if(op.saved, [](const Saved& s) { return s.name == "normed"; });
    }
  }

  bool gptq() const { return b_.style.finetune.base == QuantizedBase::gptq; }

  // Matrices that are modules of their own within an operator.
  std::size_t modules(const Operator& op) const {
    const bool packed =
        op.name == "qkv" ? b_.fused_projection() : b_.style.fused_qkv && b_.style.fused_gate;
    return packed ? 1 : std::max<std::size_t>(1, targets_of(b_, op).size());
  }

  // Makes 16-bit weights, module by module, ahead of a product that keeps them: its backward pass
  // reads them again.
  Node add_gptq(Operator& op) {
    Operator made = named(kDequantised, OpKind::elementwise, op.module);
    const auto elements = static_cast<double>(op.frozen);
    const auto each = static_cast<int>(modules(op));
    moves(made,
          static_cast<std::int64_t>(elements * (kGptqMoved + static_cast<double>(b_.element))), 0,
          each * kGptqKernels, 0);
    const auto masked = static_cast<std::int64_t>(elements * 2 * kInt8);
    made.forward_singles = {static_cast<std::int64_t>(elements * kGptqSingles),
                            made.forward_moved.count() - masked};
    // The integers as int32 stand beside their int8 copy.
    made.forward_temporary = Bytes(static_cast<std::int64_t>(elements * (kInt32 + kInt8) / each));
    made.largest_temporary = Bytes(static_cast<std::int64_t>(elements * kInt32 / each));
    keep(op, "weight", b_.tensor(op.frozen * b_.element));
    return put(std::move(made), {});
  }

  // Dequantises weights to 16 bits before each product; they are freed after it.
  Node add_dequantize(Operator& op) {
    Operator made = named(kDequantised, OpKind::elementwise, op.module);
    const double wide = static_cast<double>(op.frozen * b_.element);
    const auto moved =
        static_cast<std::int64_t>(static_cast<double>(op.frozen) * op.frozen_width + wide);
    moves(made, moved, moved, kDequantizeKernels, kDequantizeKernels);
    made.forward_temporary = made.backward_temporary = Bytes(static_cast<std::int64_t>(wide));
    if (b_.style.quantizer != Quantizer::hugging_face) {
      cast_dequantised(made, op, wide);
    }
    return put(std::move(made), {});
  }

  // Lightning Fabric quantises fp16 weights (2.5.5, plugins/precision/bitsandbytes.py:343), so
  // what is dequantised has that format, and is cast to that of the product. For each chunk of
  // logits that a head makes, beside those of the chunks before.
  void cast_dequantised(Operator& made, Operator& op, double wide) const {
    const auto bytes = static_cast<std::int64_t>(wide);
    moves(made, made.forward_moved.count() + 2 * bytes, made.backward_moved.count() + 2 * bytes,
          made.forward_kernels + 1, made.backward_kernels + 1);
    made.forward_temporary = made.backward_temporary = Bytes(2 * bytes);
    made.largest_temporary = Bytes(bytes);
    if (op.module != Module::head) {
      return;
    }
    const int parts = std::max(1, op.row_parts);
    moves(made, parts * made.forward_moved.count(), parts * made.backward_moved.count(),
          parts * made.forward_kernels, parts * made.backward_kernels);
    op.forward_temporary = op.backward_temporary = Bytes(2 * bytes);
    op.largest_temporary = Bytes(bytes);
  }

  // Adds a dropout, which keeps a mask of one byte an element. Its result replaces `read`.
  Node add_dropout(const Operator& base, const Target& target, std::vector<Saved>& read,
                   const std::vector<Node>& from) {
    const std::int64_t bytes = base.gemm->m * base.gemm->k * base.gemm->batch * b_.element;
    Operator op = named("", OpKind::dropout, base.module);
    op.name = std::string(kAdapter) + target.name + "_dropout";
    const Tensor mask = b_.tensor(bytes / b_.element);
    moves(op, 2 * bytes + mask.bytes, 2 * bytes + mask.bytes, 1, 1);
    op.forward_output = Bytes(bytes);
    keep(op, "mask", mask);
    const Tensor dropped = b_.tensor(bytes);
    read = {{"input", Bytes(dropped.bytes), dropped.storage}};
    return put(std::move(op), from);
  }

  // y + B A x with A of r x d_in and B of d_out x r.
  Node add_low_rank(const Operator& base, const Target& target, const std::vector<Saved>& read,
                    const std::vector<Node>& from, Node node, bool scattered) {
    const std::int64_t r = b_.style.finetune.rank;
    const std::int64_t e = b_.element;
    const Gemm& g = *base.gemm;
    const bool row = base.tensor == TensorRole::row;
    const bool sharded = b_.shard.sequence_parallel && b_.shard.tensor > 1;
    const std::int64_t rows = row && sharded ? g.m / b_.shard.tensor : g.m;
    const std::int64_t product_rows = rows * g.batch;
    const std::string name = std::string(kAdapter) + target.name;
    const auto matrix = [&](const std::string& which, TensorRole role, const Gemm& shape) {
      Operator op = linear({"", base.module, role, shape, 0, e, 1});
      op.name = name + which;
      op.kind = base.kind == OpKind::grouped_gemm ? OpKind::grouped_gemm : OpKind::gemm;
      op.adapter = true;
      op.expert_parameters = base.expert_parameters;
      return op;
    };
    Operator down = matrix("_a", row ? TensorRole::row : TensorRole::none, {g.m, r, g.k, g.batch});
    down.saved = read;
    // Under autocast PEFT leaves the input of a 4-bit layer's adapter as it is (0.21.2,
    // tuners/lora/bnb.py:537).
    const bool casts =
        b_.style.casts_adapter_inputs && !(b_.style.autocast && base.frozen_width > 0);
    if (casts) {
      for (Saved& s : down.saved) {
        s.storage = b_.tensor(s.bytes.count()).storage;
      }
    }
    const Tensor latent = b_.tensor(product_rows * r * e);
    const Node made = put(std::move(down), from);
    // Its input is whole on every rank, so no all-gather is needed.
    Operator up =
        matrix("_b", base.tensor == TensorRole::column ? TensorRole::column : TensorRole::none,
               {rows, target.width, r, g.batch});
    keep(up, "latent", latent);
    const Node wide = put(std::move(up), {made});
    // The result is scaled and added.
    Operator sum = named("", OpKind::elementwise, base.module);
    sum.name = name + "_add";
    const std::int64_t bytes = product_rows * target.width * e;
    const bool fused = b_.style.compiled;
    moves(sum, fused ? 3 * bytes : 5 * bytes, 2 * bytes, fused ? 1 : 2, 1);
    sum.forward_output = Bytes(bytes);
    if (scattered) {  // index_copy saves its source (torch/tools/autograd/derivatives.yaml)
      keep(sum, "scattered", b_.tensor(bytes));
    }
    return put(std::move(sum), {node, wide});
  }

  // A bottleneck adapter: h -> r, activation, r -> h, added to its input. It is whole on every
  // tensor-parallel rank.
  Node add_bottleneck(const Operator& residual, Node from) {
    const std::int64_t r = b_.style.finetune.rank;
    const std::int64_t e = b_.element;
    const std::int64_t rows = b_.local_tokens;
    const Tensor input = b_.residual_stream();
    const Tensor narrow = b_.tensor(rows * r * e);
    const Tensor activated = b_.tensor(rows * r * e);
    Operator down = linear(
        {"adapter_down", residual.module, TensorRole::none, {rows, r, b_.hidden, 1}, r, e, 1});
    keep(down, "input", input);
    Node node = put(std::move(down), {from});
    Operator act = named("adapter_activation", OpKind::activation, residual.module);
    moves(act, 2 * narrow.bytes, 3 * narrow.bytes, 1, 1);
    act.forward_output = Bytes(narrow.bytes);
    keep(act, "input", narrow);
    node = put(std::move(act), {node});
    Operator up = linear({"adapter_up",
                          residual.module,
                          TensorRole::none,
                          {rows, b_.hidden, r, 1},
                          b_.hidden,
                          e,
                          1});
    keep(up, "input", activated);
    node = put(std::move(up), {node});
    Operator sum = named("adapter_add", OpKind::elementwise, residual.module);
    moves(sum, 3 * input.bytes, input.bytes, 1, 1);
    sum.forward_output = Bytes(input.bytes);
    return put(std::move(sum), {from, node});
  }

  // The linears within a product, each with a scale of its own.
  std::vector<Target> scaled_parts(const Operator& op) const {
    std::vector<Target> parts = targets_of(b_, op);
    return modules(op) > 1 ? parts : std::vector<Target>{{op.name.c_str(), op.gemm->n}};
  }

  // A learned scale and bias of each column: scale * (W x + bias). The scale's gradient needs the
  // sum, which takes the product's place; it is a product of its own size that is summed (litgpt
  // 0.5.11, adapter_v2.py:58).
  Node add_scale(const Operator& product, const Target& part, Node node) {
    const Gemm& g = *product.gemm;
    const std::int64_t bytes = g.m * part.width * g.batch * b_.element;
    Operator op = named("", OpKind::elementwise, product.module);
    op.name = std::string(kAdapter) + part.name + kScale;
    op.parameters = 2 * part.width * g.batch;
    op.expert_parameters = product.expert_parameters;
    moves(op, 4 * bytes, 6 * bytes, 2, 4);
    op.forward_output = Bytes(bytes);
    op.backward_temporary = Bytes(bytes);
    keep(op, "input", b_.tensor(bytes));
    return put(std::move(op), {node});
  }

  // Attention of the layer's queries to its prompt, whose keys and values a validation ahead of the
  // first step has made without gradients (litgpt 0.5.11, adapter.py:80 to 110): prompts stay as
  // they are. Its result, times a gate for each head, is added to attention's.
  Node add_prompt(Node attended) {
    const HeadShape all = head_shape(b_.model, b_.kind);
    const int tensor = b_.shard.tensor;
    const std::int64_t heads = all.heads / tensor;
    const std::int64_t length = b_.style.finetune.prompt_length;
    const std::int64_t bytes = b_.tokens * heads * all.v_dim * b_.element;
    const double flops = 2.0 * static_cast<double>(b_.tokens * heads * length) *
                         static_cast<double>(all.qk_dim + all.v_dim);
    const Tensor result = b_.tensor(bytes);
    Operator read = named("prompt_attention", OpKind::elementwise, Module::attention);
    read.forward = Flops(flops);
    read.input_grad = Flops(flops);
    moves(read, 2 * bytes, 4 * bytes, 2, 3);
    read.forward_output = Bytes(bytes);
    read.frozen = length * b_.hidden;
    const Node prompt = put(std::move(read), {attended});
    Operator gate = named("prompt_gate", OpKind::elementwise, Module::attention);
    gate.parameters = heads;
    moves(gate, 5 * bytes, 5 * bytes, 2, 3);
    gate.forward_output = Bytes(bytes);
    gate.forward_temporary = gate.backward_temporary = Bytes(bytes);
    keep(gate, "input", result);
    return put(std::move(gate), {attended, prompt});
  }

  Builder& b_;
  const OperatorGraph& base_;
  OperatorGraph out_;
  std::map<int, Node> node_;  // by base operator: the node whose result its readers read
};

}  // namespace

namespace {

// Of an operator below all that is trained: it keeps nothing and has no backward pass.
void leave_without_gradient(Operator& op) {
  op.saved.clear();
  op.input_grad = op.weight_grad = Flops(0.0);
  op.backward_moved = op.backward_temporary = Bytes(0);
  op.backward_singles = {};
  op.backward_tensors.clear();
  op.backward_kernels = 0;
  op.forward_only = true;
}

// Of one that is trained and whose input needs no gradient: what its weight's gradient needs stays.
void leave_without_input_gradient(Operator& op) {
  op.input_grad = Flops(0.0);
  if (op.kind == OpKind::norm) {
    std::erase_if(op.saved, [](const Saved& s) { return s.name != "normed"; });
  }
}

// Autograd asks for no gradient of what nothing trained has made (torch.autograd: requires_grad).
void stop_gradient(OperatorGraph& graph) {
  std::vector<bool> needs(graph.operators.size(), false), reads(needs);
  for (std::size_t i = 0; i < graph.operators.size(); ++i) {
    Operator& op = graph.operators[i];
    for (const auto& [producer, consumer] : graph.edges) {
      reads[i] = reads[i] ||
                 (consumer == static_cast<Node>(i) && needs[static_cast<std::size_t>(producer)]);
    }
    needs[i] = reads[i] || op.parameters > 0;
    if (!needs[i]) {
      leave_without_gradient(op);
    } else if (!reads[i]) {
      leave_without_input_gradient(op);
    }
  }
}

}  // namespace

void adapt(Builder& b) {
  if (b.style.finetune.kind == job::Finetune::Kind::none) {
    return;
  }
  b.graph = Adapted(b, b.graph).take();
  if (b.kind.untrained || b.kind.stops_gradient) {
    stop_gradient(b.graph);
  }
}

}  // namespace stepcast::model
