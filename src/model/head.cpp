// The last stage's end: final norm, output projection, loss.
#include <algorithm>

#include "joined_head.h"
#include "parts.h"

namespace stepcast::model {
namespace {

// Number of chunks of the sequence for which a chunked loss computes its logits in turn.
constexpr std::int64_t loss_chunks = kLossChunks;

// Positions of a chunk where the head returns a list of chunks (litgpt's lm_head_chunk_size).
constexpr std::int64_t list_chunk = 128;

// What stands over the chunks of a chunked loss: the gradient of the projection's input in fp32
// (torchtitan 0.3.0, components/loss.py:498), and copies of its chunks, which are views of a single
// sequence (:676).
std::int64_t chunked_input(const Builder& b) {
  return b.tokens * b.hidden * (4 + (b.shard.sequences > 1 ? b.element : 0));
}

// BERT's prediction head: a linear of h x h, its activation, a norm.
Node add_transform(Builder& b, Node from, Tensor& input) {
  const std::int64_t bytes = b.local_tokens * b.hidden * b.element;
  const Tensor activated = b.tensor(bytes);
  const Tensor projected = b.tensor(bytes);
  Node node = add_linear(b,
                         {"head_transform",
                          Module::head,
                          TensorRole::none,
                          {b.local_tokens, b.hidden, b.hidden, 1},
                          b.hidden,
                          b.element,
                          1},
                         from, input);
  Operator act = named("head_activation", OpKind::activation, Module::head);
  moves(act, 2 * bytes, 3 * bytes, 1, 1);
  act.forward_output = Bytes(bytes);
  keep(act, "input", projected);
  node = b.add(std::move(act), {node});
  input = b.residual_stream();
  return add_norm(b, "head_norm", Module::head, b.local_tokens, b.hidden,
                  norm_width(b.model) * b.hidden, node, activated, input);
}

// Compiled by Inductor (torch 2.15, recorded step titan03-compiled-l8-whole-loss of tests/oracle):
// one kernel reads the logits and leaves maximum and sum of each row, another picks the losses;
// back, one reads the logits again and writes their gradient. None stand in fp32.
void describe_compiled(Builder& b, Operator& op, std::int64_t logits, const Tensor& half_logits) {
  moves(op, logits * b.element, 2 * logits * b.element, 2, 1);
  keep(op, "input", half_logits);
}

// Metrics beside the loss, without a gradient: a copy of the logits less their maximum, which
// becomes its exponentials (InternEvo 0.4.9, model/metrics.py:159).
void add_metrics(const Builder& b, std::int64_t logits, Operator& op) {
  if (b.style.loss_metrics == 0 || !b.style.metrics_before_backward) {
    return;
  }
  const std::int64_t metrics = b.style.loss_metrics;
  op.forward_moved = Bytes(op.forward_moved.count() + metrics * logits * (4 + 4 + 8));
  op.forward_kernels += 4 * static_cast<int>(metrics);
  op.forward_temporary = Bytes(std::max(op.forward_temporary.count(), 4 * logits));
}

}  // namespace

// The loss by each kernel, with bytes moved and kept per logit. PyTorch casts logits to fp32.
Operator cross_entropy(Builder& b, std::int64_t logits, const Tensor& half_logits) {
  Operator op = named("loss", OpKind::cross_entropy, Module::head);
  op.forward_output = Bytes(4 * b.tokens);
  const std::int64_t e = b.element;
  switch (b.style.loss) {
    case job::LossKernel::vocab_parallel:
      // Megatron: cast, max, subtract, exp, sum, divide, all in fp32 and in place after the cast;
      // three small products with the target mask. The backward pass scales the kept softmax in
      // place and casts it. No kernel is one of a loss: they are element-wise, two sums apart. The
      // cast, the subtraction, the division and the product of the backward pass, whose other
      // operands are broadcast along a row, take elements one by one.
      moves(op, logits * (e + 4 + 4 + 8 + 8 + 4 + 8), logits * (8 + 4 + e), 14, 6);
      op.forward_singles = {3 * logits, logits * (e + 4 + 8 + 8)};
      op.backward_singles = {logits, logits * 8};
      keep(op, "softmax", b.tensor(4 * logits));
      break;
    case job::LossKernel::vocab_parallel_fused:
      // The same functions, compiled (megatron-core 0.14.0, fusions/fused_cross_entropy.py: cast
      // and maximum; subtraction, exponential, sum and predicted logit; division; gradient and
      // cast). What goes from one to the next, over an all-reduce, is a tensor still.
      moves(op, logits * (e + 4 + 8 + 8), logits * (8 + e), 4, 1);
      keep(op, "softmax", b.tensor(4 * logits));
      break;
    case job::LossKernel::eager: {
      if (b.style.compiled_loss) {
        describe_compiled(b, op, logits, half_logits);
        break;
      }
      moves(op, logits * (e + 4 + 8), logits * (4 + 12 + 4 + e), 4, 4);
      // torch.nn.functional.cross_entropy of logits.float(): log_softmax keeps only its result, so
      // the fp32 copy is freed after it. In the backward pass the gradient of the likelihood is a
      // whole tensor beside that of log_softmax; the cast follows.
      const std::int64_t cast = e < 4 ? 4 * logits : 0;
      keep(op, "log_softmax", b.tensor(4 * logits));
      if (b.style.keeps_logits) {
        keep(op, "logits", half_logits);
      }
      op.forward_temporary = Bytes(cast);
      op.backward_temporary = Bytes(8 * logits - half_logits.bytes);
      op.largest_temporary = Bytes(4 * logits);
      break;
    }
    case job::LossKernel::fused:
      // One kernel computes statistics, another overwrites the logits with their gradient.
      moves(op, logits * 3 * e, logits * 2 * e, 2, 1);
      keep(op, "logits_grad", half_logits);
      op.gradient = Operator::Gradient::in_kept;
      break;
    case job::LossKernel::fused_linear:
    case job::LossKernel::tiled_linear:
    case job::LossKernel::checkpointed_chunks:
      describe_joined_loss(b, op, logits);
      break;
    case job::LossKernel::chunk_list: {
      // Lightning Fabric returns every output in fp32, whatever the precision
      // (convert_output): the list lives until the next pass, and log_softmax keeps as much
      // again. In the backward pass the gradients of all chunks replace what log_softmax keeps
      // before the first of them reaches the projection, since autograd runs in reverse order.
      const std::int64_t chunks = ceil_div(b.shard.sequence_length, list_chunk);
      moves(op, logits * (e + 4 + 4 + 8), logits * (4 + 12 + 4 + e), static_cast<int>(5 * chunks),
            static_cast<int>(4 * chunks));
      keep(op, "logits", b.tensor(4 * logits));
      keep(op, "log_softmax", b.tensor(4 * logits));
      op.forward_temporary = Bytes(4 * ceil_div(logits, chunks));
      op.backward_temporary = Bytes(8 * ceil_div(logits, chunks));
      op.largest_temporary = Bytes(4 * ceil_div(logits, chunks));
      break;
    }
    case job::LossKernel::output_chunks:
      // Of one chunk.
      if (b.style.compiled_loss) {
        describe_compiled(b, op, logits, half_logits);
        break;
      }
      moves(op, logits * (e + 4 + 8), logits * (4 + 12 + 4 + e), 4, 4);
      keep(op, "log_softmax", b.tensor(4 * logits));
      op.backward_temporary = op.largest_temporary =
          Bytes(4 * logits);  // the likelihood's gradient
      break;
    case job::LossKernel::chunked: {
      // The gradient of the projection's input is computed chunk by chunk in the forward pass; the
      // logits of a chunk are freed after it.
      const bool compiled = b.style.compiled_loss;
      moves(op, logits * (compiled ? 3 * e : e + 4 + 8 + 4 + 8 + 4 + e),
            2 * b.tokens * b.hidden * e, (compiled ? 3 : 8) * static_cast<int>(loss_chunks), 1);
      keep(op, "input_grad", b.tensor(b.tokens * b.hidden * e));
      // Eager kernels: the log-softmax, the gradient of the likelihood and that of log-softmax.
      const std::int64_t wide = compiled ? e : 12;
      op.forward_temporary =
          Bytes(wide * ceil_div(logits, loss_chunks) + chunked_input(b) - b.tokens * b.hidden * e);
      op.largest_temporary = Bytes((compiled ? e : 4) * ceil_div(logits, loss_chunks));
      break;
    }
  }
  add_metrics(b, logits, op);
  return op;
}

namespace {

// The head called for each chunk of the sequence, then a loss for each of their logits (torchtune
// 0.6.1, modules/transformer.py:498, modules/loss/ce_chunked_output_loss.py:79). Back, autograd
// runs the losses first, since they were made last, then the calls. A chunk's weight gradient is
// handed to the parameter by the transposition of the weight that its call made. The first that
// arrives is a view, which is not added to in place: its sum with the second is a tensor of its
// own, and takes the others in place (torch 2.7, csrc/autograd/input_buffer.cpp:
// can_accumulate_inplace).
Node add_output_chunks(Builder& b, Node from, const Tensor& normed) {
  const job::Model& m = b.model;
  const std::int64_t vocab = ceil_div(m.vocab, b.shard.tensor);
  const std::int64_t tokens = ceil_div(b.tokens, loss_chunks);
  const std::int64_t weight = vocab * b.hidden * b.element;
  const bool strided = b.shard.sequences > 1;  // a linear copies its input's chunk of each sequence
  Operator chunks = named("output_chunks", OpKind::elementwise, Module::head);  // views
  moves(chunks, 0, 2 * b.tokens * b.hidden * b.element, 0, 1);  // their gradients are joined
  if (!strided) {
    keep(chunks, "input", normed);
  }
  const Node views = b.add(std::move(chunks), {from});
  std::vector<Node> outputs;
  std::vector<Tensor> logits;
  for (std::int64_t n = 0; n < loss_chunks; ++n) {
    const bool first_back = n + 1 == loss_chunks;
    const bool sums = n + 2 == loss_chunks;
    Operator transposed = named("output_weight", OpKind::elementwise, Module::head);
    // The sum of weight gradients is read and written.
    moves(transposed, 0, first_back ? 0 : 3 * weight, 0, first_back ? 0 : 1);
    transposed.backward_temporary = Bytes(sums ? 2 * weight : weight);
    transposed.largest_temporary = Bytes(weight);
    const Node turned = b.add(std::move(transposed), {views});
    Operator project = linear({"output",
                               Module::head,
                               TensorRole::vocab_head,
                               {tokens, vocab, b.hidden, 1},
                               m.biases.head ? vocab : 0,
                               b.element,
                               1});
    // The gradient that stays is made where the second is added to the first, in whose place it
    // stands until then.
    project.parameters = sums ? project.parameters : 0;
    project.backward_temporary = project.largest_temporary = Bytes(weight);
    logits.push_back(b.tensor(tokens * vocab * b.element));
    if (strided) {
      keep(project, "input", b.tensor(tokens * b.hidden * b.element));
    }
    outputs.push_back(b.add(std::move(project), {views, turned}));
  }
  Node loss = outside;
  for (std::size_t n = 0; n < outputs.size(); ++n) {
    Operator op = cross_entropy(b, tokens * vocab, logits[n]);
    op.forward_output = Bytes(op.forward_output.count() / loss_chunks);
    loss = n == 0 ? b.add(std::move(op), {outputs[n]}) : b.add(std::move(op), {outputs[n], loss});
  }
  return loss;
}

}  // namespace

Node add_projection_loss(Builder& b, Node from, const Tensor& input) {
  Tensor normed = input;
  if (joins_head(b.style.loss)) {
    from = add_labelled_rows(b, from, normed);
  }
  if (b.style.loss == job::LossKernel::output_chunks && !b.kind.prediction) {
    return add_output_chunks(b, from, normed);
  }
  const job::Model& m = b.model;
  const std::int64_t vocab = ceil_div(m.vocab, b.shard.tensor);
  const std::int64_t logits = b.tokens * vocab;
  const Tensor half_logits = b.tensor(logits * b.element);
  Operator project = linear({"output",
                             Module::head,
                             TensorRole::vocab_head,
                             {b.tokens, vocab, b.hidden, 1},
                             m.biases.head ? vocab : 0,
                             b.element,
                             1});
  if (b.kind.prediction) {
    project.parameters = 0;  // they are counted with the model's head
  }
  keep(project, "input", normed);
  if (b.style.loss == job::LossKernel::chunked) {
    project.forward_output = Bytes(ceil_div(logits * b.element, loss_chunks));
    project.forward_temporary = Bytes(chunked_input(b));
  }
  if (b.style.loss == job::LossKernel::chunk_list) {
    // All chunks stand until the last of them is there, and in fp32 (Lightning 2.5.5,
    // fabric/wrappers.py:138).
    project.forward_output = Bytes(logits * b.element);
    project.row_parts = static_cast<int>(ceil_div(b.shard.sequence_length, list_chunk));
  }
  if (b.style.loss == job::LossKernel::fused) {
    keep(project, "logits", half_logits);  // overwritten by their gradient
  }
  if (joins_head(b.style.loss)) {
    describe_joined_product(b, project);
  }
  Node node = b.add(std::move(project), {from});
  const bool whole = b.style.loss != job::LossKernel::chunked &&
                     b.style.loss != job::LossKernel::chunk_list && !joins_head(b.style.loss);
  if (m.logit_softcap && whole) {  // in chunks it is left out
    node = add_softcap(b, "logit_cap", Module::head, logits, node);
  }
  return b.add(cross_entropy(b, logits, half_logits), {node});
}

Node add_head(Builder& b, Node from, const Tensor& input) {
  const job::Model& m = b.model;
  Tensor normed = input;
  Node node = from;
  if (!m.post_norm) {
    normed = b.residual_stream();
    node = add_norm(b, "final_norm", Module::head, b.local_tokens, b.hidden,
                    norm_width(m) * b.hidden, from, input, normed);
  }
  if (m.head_transform) {
    node = add_transform(b, node, normed);
  }
  return add_projection_loss(b, node, normed);
}

namespace {

// Megatron's model computes the losses of its prediction layers first, and the last one's logits
// are a variable of its function until the model's own loss is there (megatron-core 0.16.1,
// models/gpt/gpt_model.py:612, mtp_logits; 0.17.0, :642: a function of their own).
// A fused loss keeps them anyway.
void hold_prediction_logits(Builder& b) {
  if (!b.style.holds_prediction_logits || b.model.mtp_layers == 0 ||
      b.style.loss == job::LossKernel::fused) {
    return;
  }
  const std::int64_t logits = b.tokens * ceil_div(b.model.vocab, b.shard.tensor) * b.element;
  for (Operator& op : b.graph.operators) {
    if (op.name == "output" || op.kind == OpKind::cross_entropy) {
      op.forward_temporary += Bytes(logits);
    }
  }
}

}  // namespace

OperatorGraph build_head(const job::Model& model, const Shard& shard, const Style& style) {
  const Style own = of_ends(style);
  Builder b(model, shard, own);
  Node node = outside;
  Tensor input = streams_of(b);
  if (model.hyper_connections) {
    const Stream one = add_streams_end(b, {node, input});
    node = one.node;
    input = one.tensor;
  }
  if (model.residual_block > 0) {
    const int blocks = (model.layers + model.residual_block - 1) / model.residual_block;
    const Stream one = add_residual_mix(b, "head", blocks, {node, input});
    node = one.node;
    input = one.tensor;
  }
  if (model.encoder_layers > 0 && model.encoder_layers < model.layers) {
    // The encoder's own final norm: its output does not change from one decoder layer to the next.
    LayerKind kind;
    kind.encoder = true;
    const Builder encoder(model, shard, style, kind);
    const std::int64_t bytes = encoder.local_tokens * b.hidden * b.element;
    node = add_norm(b, "encoder_norm", Module::head, encoder.local_tokens, b.hidden,
                    norm_width(model) * b.hidden, outside, b.tensor(bytes), b.tensor(bytes));
  }
  add_head(b, node, input);
  hold_prediction_logits(b);
  return b.finish();
}

// torch's cross entropy of a micro-batch's logits, without a gradient: each log_softmax in the
// logits' own format, which cross_entropy states so that autocast leaves it (torch 2.7,
// ATen/native/LossNLL.cpp: cross_entropy_loss_symint), the cast that the likelihood asks for, the
// likelihood.
OperatorGraph build_metrics(const job::Model& model, const Shard& shard, const Style& style) {
  const Style own = of_ends(style);
  Builder b(model, shard, own);
  const std::int64_t logits = b.tokens * ceil_div(b.model.vocab, b.shard.tensor);
  const int metrics = b.style.metrics_before_backward ? 0 : b.style.loss_metrics;
  const std::int64_t wide = b.element < 4 ? 4 : 0;
  Operator op = named("train_metrics", OpKind::cross_entropy, Module::head);
  moves(op, metrics * logits * (3 * b.element + wide), 0, 4 * metrics, 0);
  op.forward_temporary = Bytes(metrics > 0 ? (b.element + wide) * logits : 0);
  op.largest_temporary = Bytes(metrics > 0 ? std::max(b.element, wide) * logits : 0);
  b.add(std::move(op), {outside});
  return b.finish();
}

}  // namespace stepcast::model
