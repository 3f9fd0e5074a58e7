#include "joined_head.h"

#include <algorithm>
#include <bit>
#include <numeric>

namespace stepcast::model {
namespace {

constexpr std::int64_t kFp32 = 4;  // bytes of fp32

// Chunks of the tokens for which Liger's loss makes logits: those of one take about as much as its
// input (0.8.5, ops/fused_linear_cross_entropy.py:103).
struct LinearLossChunks {
  std::int64_t tokens = 0;
  int count = 0;
};

LinearLossChunks linear_loss_chunks(const Builder& b) {
  const std::int64_t parts = ceil_div(b.model.vocab, b.hidden);
  const auto each = static_cast<std::uint64_t>(ceil_div(b.tokens, parts));
  LinearLossChunks out;
  out.tokens = std::min<std::int64_t>(static_cast<std::int64_t>(std::bit_ceil(each)), b.tokens);
  out.count = static_cast<int>(ceil_div(b.tokens, out.tokens));
  return out;
}

bool frozen_head(const Builder& b) {
  return b.style.finetune.kind == job::Finetune::Kind::lora ||
         b.style.finetune.kind == job::Finetune::Kind::qlora;
}

// Elements of the head's weight that take a gradient.
std::int64_t trained_weight(const Builder& b, std::int64_t logits) {
  return frozen_head(b) ? 0 : ceil_div(logits, b.tokens) * b.hidden;
}

// Liger-Kernel 0.8.5, ops/fused_linear_cross_entropy.py:51: a kernel writes the gradient over a
// chunk's logits, from which both gradients are made. They stand until the backward pass, which
// scales them, since Trainer divides the loss by the number of labels.
void describe_linear_loss(Builder& b, Operator& op, std::int64_t logits) {
  const std::int64_t e = b.element;
  const std::int64_t input = b.tokens * b.hidden * e;
  const std::int64_t weight = trained_weight(b, logits) * e;
  op.row_parts = linear_loss_chunks(b).count;
  moves(op, logits * 3 * e, 2 * (input + weight), op.row_parts, 2);
  keep(op, "input_grad", b.tensor(input));
  keep(op, "weight_grad", b.tensor(weight));
  op.gradient = Operator::Gradient::in_kept;
}

// TRL 1.16.0, kernels/chunked_logprob.py:31, trainer/utils.py:1506: tokens and words of a tile of
// logits, whose buffer is as wide for a smaller vocabulary.
constexpr std::int64_t kTileTokens = 4096;
constexpr std::int64_t kTileWords = 32768;

// One kernel reads a tile and updates statistics of its rows; back, another writes the gradient of
// the logits over it (kernels/chunked_logprob.py:79, :151). Both sums of gradients begin as zeros
// in fp32, and are cast where the tensors are narrower. A row keeps its label, the logarithm of the
// sum of its exponentials and its entropy.
void describe_tiled_loss(Builder& b, Operator& op, std::int64_t logits) {
  const auto tiles =
      static_cast<int>(ceil_div(b.tokens, kTileTokens) * ceil_div(b.model.vocab, kTileWords));
  const std::int64_t sums = trained_weight(b, logits) + b.tokens * b.hidden;
  const std::int64_t casts = b.element < kFp32 ? kFp32 + b.element : 0;
  moves(op, logits * b.element, 2 * logits * b.element + sums * (kFp32 + casts), tiles, tiles + 4);
  keep(op, "labels", b.tensor(8 * b.tokens));
  keep(op, "log_sum", b.tensor(kFp32 * b.tokens));
  keep(op, "entropy", b.tensor(kFp32 * b.tokens));
}

void describe_tiled_product(const Builder& b, Operator& project) {
  project.row_parts = static_cast<int>(ceil_div(b.tokens, kTileTokens));
  project.forward_output = Bytes(std::min(b.tokens, kTileTokens) * kTileWords * b.element);
  project.remade = true;
  project.sums_wide = true;
  const bool wide = b.element == kFp32;
  describe_tiled_formats(b, wide, wide, project);
}

// Tokens of a chunk that is a checkpoint (TRL 1.14.2, trainer/sft_trainer.py:88).
constexpr std::int64_t kCheckpointedTokens = 256;

// Weights are fp32, and each chunk casts them and the gradient of its own copy.
bool casts_weights(const Builder& b) { return b.style.autocast && b.element < kFp32; }

// TRL 1.14.2, trainer/sft_trainer.py:101: the fp32 copy of a chunk's logits, log_softmax, the
// likeliest word, the entropy by way of exponentials and their product. The backward pass makes
// them again, keeps log_softmax and the exponentials, and adds the chunk's gradient of the weight
// to the sum of the others'.
void describe_checkpointed_loss(Builder& b, Operator& op, std::int64_t logits) {
  const std::int64_t e = b.element;
  const auto chunks = static_cast<int>(ceil_div(b.tokens, kCheckpointedTokens));
  const std::int64_t weight = trained_weight(b, logits);
  const std::int64_t all = ceil_div(logits, b.tokens) * b.hidden;
  const std::int64_t made = casts_weights(b) ? 2 * (kFp32 + e) + 3 * kFp32 : 3 * e;
  moves(op, logits * (e + 4 + 8 + 4 + 8 + 12 + 4) + (casts_weights(b) ? all * (kFp32 + e) : 0),
        logits * (4 + 12 + 4 + e) + chunks * weight * made, 8 * chunks, 7 * chunks);
  const std::int64_t wide = kFp32 * ceil_div(logits, chunks);
  op.forward_temporary = op.backward_temporary = Bytes(4 * wide);
  op.largest_temporary = Bytes(wide);
  op.remade = true;
}

// A chunk's gradient of the weight is a view, to which the next is not added in place: their sum is
// a tensor of its own, which takes the others in place (torch 2.7, csrc/autograd/input_buffer.cpp:
// can_accumulate_inplace). A chunk's gradient of the input lies in zeros as large as the whole.
void describe_checkpointed_product(const Builder& b, Operator& project) {
  const auto chunks = static_cast<int>(ceil_div(b.tokens, kCheckpointedTokens));
  project.row_parts = chunks;
  project.forward_output = Bytes(ceil_div(b.tokens, chunks) * project.gemm->n * b.element);
  project.remade = true;
  const std::int64_t width = casts_weights(b) ? kFp32 : b.element;
  const std::int64_t weight = frozen_head(b) ? 0 : project.parameters * width;
  const std::int64_t all = casts_weights(b) ? project.gemm->n * project.gemm->k * b.element : 0;
  if (chunks > 1) {
    project.backward_tensors = {weight, weight, b.tokens * b.hidden * b.element};
    project.backward_temporary = Bytes(2 * weight + project.backward_tensors.back());
  }
  project.forward_temporary = Bytes(all);
}

}  // namespace

// By a mask (TRL 1.16.0, trainer/utils.py:1645), or in an order that puts them first (1.14.2,
// trainer/sft_trainer.py:199). Back, they are added to zeros, and those, a slice of each sequence,
// put into others.
Node add_labelled_rows(Builder& b, Node from, Tensor& rows) {
  if (b.style.loss == job::LossKernel::fused_linear) {
    return from;
  }
  const std::int64_t bytes = b.tokens * b.hidden * b.element;
  rows = b.tensor(bytes);
  Operator op = named("labelled_rows", OpKind::elementwise, Module::head);
  moves(op, 2 * bytes, 6 * bytes, 3, 6);
  op.forward_output = Bytes(bytes);
  keep(op, "positions", b.tensor(2 * 8 * b.tokens));
  return b.add(std::move(op), {from});
}

// kernels/chunked_logprob.py:352, :420, :449, :456: rows and weights of a tile are cast for its
// products; sums of gradients are fp32, and copied where the tensors are narrower.
Bytes describe_tiled_formats(const Builder& b, bool wide_input, bool wide_weight,
                             Operator& project) {
  const model::Gemm& whole = *project.gemm;
  const bool trained = project.parameters > 0 && !frozen_head(b);
  const std::int64_t e = b.element;
  const bool casts = e < kFp32;
  const std::int64_t rows = casts && wide_input ? std::min(whole.m, kTileTokens) * whole.k * e : 0;
  // A tile's cast weights go once the next tile has its own.
  const std::int64_t width = std::min(whole.n, kTileWords);
  const bool another = project.row_parts > 1 || whole.n >= 2 * width;
  const std::int64_t element = casts && wide_weight ? whole.k * e : 0;
  const std::int64_t words = width * element;
  const std::int64_t next_words = (another ? width : whole.n - width) * element;
  project.forward_temporary = Bytes(rows + words);
  project.largest_temporary = Bytes(std::max(rows, words));
  project.backward_tensors = {wide_input ? 0 : kFp32 * whole.m * whole.k,
                              wide_weight || !trained ? 0 : kFp32 * project.parameters, rows, words,
                              next_words};
  std::erase(project.backward_tensors, 0);
  project.backward_temporary = Bytes(std::accumulate(
      project.backward_tensors.begin(), project.backward_tensors.end(), std::int64_t{0}));
  return Bytes(((wide_weight ? project.row_parts * whole.k * whole.n : 0) +
                (wide_input ? whole.m * whole.k : 0)) *
               (casts ? kFp32 + e : 0));
}

void describe_joined_product(const Builder& b, Operator& project) {
  if (b.style.loss == job::LossKernel::fused_linear) {
    const LinearLossChunks chunks = linear_loss_chunks(b);
    project.row_parts = chunks.count;
    project.forward_output = Bytes(chunks.tokens * project.gemm->n * b.element);
    project.saved.clear();  // both gradients are made ahead of the backward pass
  } else if (b.style.loss == job::LossKernel::tiled_linear) {
    describe_tiled_product(b, project);
  } else {
    describe_checkpointed_product(b, project);
  }
}

void describe_joined_loss(Builder& b, Operator& loss, std::int64_t logits) {
  if (b.style.loss == job::LossKernel::fused_linear) {
    describe_linear_loss(b, loss, logits);
  } else if (b.style.loss == job::LossKernel::tiled_linear) {
    describe_tiled_loss(b, loss, logits);
  } else {
    describe_checkpointed_loss(b, loss, logits);
  }
}

}  // namespace stepcast::model
