// Self-attention of GPT and Llama: MHA and GQA, causal or not, in a window or not, fused or not.
#include <algorithm>
#include <stdexcept>
#include <utility>
#include <vector>

#include "parts.h"
#include "stepcast/model/names.h"

namespace stepcast::model {
namespace {

constexpr std::int64_t kE5m6Bits = 12;  // a sign, five bits of exponent, six of mantissa

AttentionShape shape_of(const Builder& b, const CoreAttention& core) {
  AttentionShape shape;
  shape.sequences = b.shard.sequences;
  shape.query_length = b.sequence / b.shard.context;
  shape.key_length = b.sequence;
  shape.heads = core.heads;
  shape.kv_heads = core.kv_heads;
  shape.qk_dim = core.qk_dim;
  shape.v_dim = core.v_dim;
  shape.causal = !b.kind.encoder;
  if (takes_mask(b, b.kind, core.qk_dim, core.v_dim)) {
    shape.masked = true;
    shape.causal = false;
  } else {
    apply_window(b, shape);
  }
  return shape;
}

// One fused kernel. The forward pass counts the scores that it computes. The backward pass
// recomputes them: 5 products against 2 (Dao, arXiv 2205.14135, appendix B.4).
Node add_fused(Builder& b, const AttentionShape& a, Node from, const Tensor& qkv,
               const Tensor& output) {
  Operator op = named("core_attention", OpKind::fused_attention, Module::core_attention);
  op.attention = a;
  const double scores =
      static_cast<double>(a.sequences) * static_cast<double>(a.heads) * attention_pairs(a);
  op.forward = Flops(2.0 * scores * (a.qk_dim + a.v_dim));
  op.parameters = b.model.sinks ? a.heads : 0;
  op.input_grad = Flops(2.5 * op.forward.count());
  const std::int64_t lse = 4 * b.tokens * a.heads;  // log-sum-exp in fp32, for each token and head
  const std::int64_t rows = b.tokens * a.heads;
  moves(op, qkv.read() + output.bytes + lse, 2 * qkv.read() + 2 * output.bytes + lse, 1, 3);
  op.forward_output = Bytes(output.bytes);
  // dq is accumulated in fp32, and delta = rowsum(dO * O) is fp32. FlashAttention 2 makes gradients
  // of keys and values for every query head and sums them (csrc/flash_attn/flash_api.cpp, mha_bwd:
  // dk_expanded, dv_expanded).
  const job::AttentionKernel kernel = attention_kernel(b.style, a);
  const bool expands = (kernel == job::AttentionKernel::flash2 || a.masked) && a.kv_heads < a.heads;
  const std::int64_t expanded = expands ? rows * (a.qk_dim + a.v_dim) * b.element : 0;
  op.backward_temporary = Bytes(4 * rows * a.qk_dim + 4 * rows + expanded);
  op.backward_tensors = {4 * rows, 4 * rows * a.qk_dim};
  if (expands) {
    op.backward_tensors.push_back(rows * a.qk_dim * b.element);
    op.backward_tensors.push_back(rows * a.v_dim * b.element);
  }
  op.input_gradient = Bytes(qkv.read());
  if (a.masked) {
    const MaskBytes mask = mask_bytes(a, b.element);
    op.forward_temporary = Bytes(mask.padded > mask.made ? mask.made : 0);
    keep(op, "mask", b.tensor(mask.padded));
  }
  const Tensor sums = b.tensor(lse);
  if (b.style.fp8_attention) {
    // Transformer Engine keeps what the kernel read and wrote, in 8 bits (FusedAttnFunc.forward:
    // fp8_tensors). The wide tensors are freed, unless other operators keep them.
    keep(op, "qkv", b.narrow_qkv.value_or(b.tensor(qkv.read() / b.element)));
    keep(op, "output", b.tensor(output.bytes / b.element));
  } else {
    keep(op, "qkv", qkv);
    if (b.style.fp12_attention_output) {
      b.narrow_output = b.tensor(output.bytes / b.element * kE5m6Bits / 8);
      op.backward_temporary += Bytes(output.bytes);  // it is widened again
      op.backward_tensors.push_back(output.bytes);
    }
    keep(op, "output", b.narrow_output.value_or(output));
  }
  keep(op, "lse", sums);  // made behind the result
  // CUTLASS's kernel sums results of heads beyond this width in fp32 in memory (torch 2.15,
  // aten::_scaled_dot_product_efficient_attention).
  constexpr int kWidestInRegisters = 128;
  if (kernel == job::AttentionKernel::efficient && a.v_dim > kWidestInRegisters && b.element < 4) {
    op.forward_temporary += Bytes(4 * rows * a.v_dim);
  }
  return b.add(std::move(op), {from});
}

Operator product(const char* name, const Gemm& g, std::int64_t element) {
  Operator op = named(name, OpKind::batched_gemm, Module::core_attention);
  op.gemm = g;
  const double flops = 2.0 * static_cast<double>(g.batch) * static_cast<double>(g.m) *
                       static_cast<double>(g.n) * static_cast<double>(g.k);
  op.forward = Flops(flops);
  // Both factors are activations, so the backward pass has two products for input gradients and
  // none for a weight's.
  op.input_grad = Flops(2 * flops);
  const std::int64_t once = g.batch * (g.m * g.k + g.k * g.n + g.m * g.n) * element;
  moves(op, once, 2 * once, 1, 2);
  op.forward_output = Bytes(g.batch * g.m * g.n * element);
  return op;
}

// What an eager softmax over `square` scores moves: scale, mask, softmax in fp32, cast; backward,
// of the cast, softmax, mask and scale. torch's backward pass multiplies gradient and result apart,
// ahead of its kernel: two launches over the null GPU (torch 2.15), and
// torch/_decomp/decompositions.py:856 (2.7), _softmax_backward_data: grad_output * output.
void eager_softmax(const Builder& b, std::int64_t square, Operator& op) {
  const std::int64_t e = b.element;
  const std::int64_t wide = e < 4 ? 4 : 0;
  const std::int64_t softmax = wide > 0 ? wide : e;  // bytes of an element that it reads and writes
  moves(op, square * (6 * e + 2 * wide), square * (7 * e + 2 * wide + 3 * softmax),
        wide > 0 ? 4 : 3, wide > 0 ? 5 : 4);
}

// Megatron-LM's eager softmax, kernel by kernel (core 0.16.1, fusions/fused_softmax.py:299,
// forward_torch_softmax). Scores are cast to fp32 and filled in place under the mask, which the
// data loader gives (datasets/gpt_dataset.py:37: create_attention_mask); the fp32 scores live until
// softmax and its cast are there. Backward, the fill is of a copy. The scale is the product's.
Node add_widened_softmax(Builder& b, const AttentionShape& a, Node from,
                         const Tensor& probabilities, bool keeps_probabilities) {
  constexpr std::int64_t kWide = 4;
  const std::int64_t e = b.element;
  const std::int64_t square = probabilities.bytes / e;
  const std::int64_t mask = a.query_length * a.key_length;  // booleans
  Operator widen = named(kWidenedScores, OpKind::softmax, Module::core_attention);
  moves(widen, square * (e + kWide + 2 * kWide) + mask, square * (4 * kWide + kWide + e) + mask, 2,
        3);
  widen.forward_output = Bytes(square * kWide);
  widen.backward_temporary = Bytes(square * kWide);
  const Node wide = b.add(std::move(widen), {from});

  Operator softmax = named("softmax", OpKind::softmax, Module::core_attention);
  moves(softmax, square * 2 * kWide, square * 6 * kWide, 1, 2);
  softmax.forward_output = Bytes(square * kWide);
  softmax.backward_temporary = Bytes(square * kWide);
  keep(softmax, "softmax_fp32", b.tensor(square * kWide));
  const Node result = b.add(std::move(softmax), {wide});

  Operator narrow = named("narrowed_softmax", OpKind::softmax, Module::core_attention);
  moves(narrow, square * (kWide + e), square * (kWide + e), 1, 1);
  narrow.forward_output = Bytes(probabilities.bytes);
  if (keeps_probabilities) {
    keep(narrow, "probabilities", probabilities);
  }
  return b.add(std::move(narrow), {result});
}

// Whether a framework's fused softmax exists for these scores. Megatron-LM asks its kernels (core
// 0.6.0, fusions/fused_softmax.py:150, is_kernel_available): a block of threads takes four rows of
// four sequences' heads (colossalai 0.3.3, kernel/cuda_native/csrc/scaled_masked_softmax.h:325).
bool fuses_softmax(const Style& style, const AttentionShape& a) {
  if (!style.fused_softmax || style.fused_softmax_keys == 0) {
    return style.fused_softmax;
  }
  return job::bytes_per_element(style.dtype) < 4 && a.key_length > 16 &&
         a.key_length <= style.fused_softmax_keys && a.key_length % 4 == 0 &&
         a.query_length % 4 == 0 && a.sequences * a.heads % 4 == 0;
}

// A column of sinks beside the scores, which are then lowered by their largest; of the softmax all
// but that column is taken, whose gradient is put into zeros (transformers 5.23.0,
// models/gpt_oss/modeling_gpt_oss.py:243).
void add_sinks(Operator& softmax, std::int64_t square, std::int64_t e) {
  const std::int64_t wide = std::max<std::int64_t>(e, 4);
  moves(softmax, softmax.forward_moved.count() + square * (2 * e + e + 2 * e),
        softmax.backward_moved.count() + square * (3 * wide + 2 * e), softmax.forward_kernels + 3,
        softmax.backward_kernels + 3);
}

// Attention's result times the sigmoid of the scores' log-sum-exp less the sink. That sum keeps the
// masked scores, which autocast's mask of fp32 has widened: the largest of a row, a difference, a
// power, a sum; back a difference, a power, a product and the sum with softmax's gradient
// (transformers 5.23.0, models/granite_swa/modeling_granite_swa.py:104).
void add_logsumexp_sinks(Builder& b, Operator& softmax, std::int64_t square) {
  const std::int64_t e = b.style.autocast ? std::max<std::int64_t>(b.element, 4) : b.element;
  moves(softmax, softmax.forward_moved.count() + 6 * square * e,
        softmax.backward_moved.count() + 9 * square * e, softmax.forward_kernels + 4,
        softmax.backward_kernels + 4);
  keep(softmax, "masked_scores", b.tensor(square * e));
}

// A softmax in one kernel, or an eager one that masks in the scores' own format.
Node add_softmax(Builder& b, const AttentionShape& a, Node from, const Tensor& probabilities,
                 bool keeps_probabilities) {
  const std::int64_t e = b.element;
  const std::int64_t square = probabilities.bytes / e;
  const bool fused = fuses_softmax(b.style, a);
  const bool one = fused || b.style.compiled;
  // With sinks it stays in the scores' format (transformers 5.23.0, models/gpt_oss/
  // modeling_gpt_oss.py:250) unless autocast widens it.
  const bool stays =
      b.model.sinks && !b.style.logsumexp_sinks && !b.style.autocast && !b.style.autocasts_units;
  const std::int64_t wide = !one && !stays && e < 4 ? 4 : 0;
  Operator softmax = named("softmax", OpKind::softmax, Module::core_attention);
  if (one) {
    moves(softmax, 2 * square * e, 3 * square * e, 1, 1);
  } else {
    // Softmax keeps its fp32 result, and the product after it keeps the cast one. Back, the
    // gradient's cast, the product and the result stand at once, the narrow gradients before and
    // behind them not (torch 2.15 over the null GPU).
    eager_softmax(b, square, softmax);
    softmax.forward_temporary = Bytes(square * e);
    softmax.backward_temporary = Bytes(square * (wide > 0 ? 3 * wide - 2 * e : e));
    if (b.model.sinks && b.style.logsumexp_sinks) {
      add_logsumexp_sinks(b, softmax, square);
    } else if (b.model.sinks) {
      add_sinks(softmax, square, e);
    }
    if (wide > 0) {
      keep(softmax, "softmax_fp32", b.tensor(square * wide));
    }
  }
  softmax.forward_output = Bytes(probabilities.bytes);
  if (fused && a.causal) {
    softmax.row = a.key_length;
  }
  if (fused) {  // Megatron-LM's kernel overwrites the gradient that it reads
    softmax.gradient = Operator::Gradient::handed_on;
  }
  if (keeps_probabilities && wide == 0) {
    keep(softmax, "probabilities", probabilities);
  }
  return b.add(std::move(softmax), {from});
}

// Scores that stand in memory. std::overflow_error where their bytes, over some tens of accesses,
// do not fit 64 bits.
std::int64_t scores_of(const AttentionShape& a) {
  constexpr double kMost = 0x1p52;
  const std::int64_t rows = a.sequences * a.heads * a.query_length;
  if (static_cast<double>(rows) * static_cast<double>(a.key_length) > kMost) {
    throw std::overflow_error(
        "the scores of unfused attention over so long a sequence do not fit 64 bits of bytes");
  }
  return rows * a.key_length;
}

// Scores, softmax, dropout and context as separate kernels over the whole square.
Node add_unfused(Builder& b, const AttentionShape& a, Node from, const Tensor& qkv,
                 const Tensor& output) {
  const std::int64_t e = b.element;
  const std::int64_t batch = a.sequences * a.heads;
  const std::int64_t square = scores_of(a);
  const bool fused = fuses_softmax(b.style, a);
  Node node = from;
  Tensor keys = qkv;
  if (a.kv_heads < a.heads) {  // keys and values are repeated for each query head of their group
    Operator repeat = named("kv_repeat", OpKind::elementwise, Module::core_attention);
    const std::int64_t own = a.key_length / b.shard.context;  // keys of this rank's tokens
    keys = b.tensor(a.sequences * own * a.heads * (a.qk_dim + a.v_dim) * e);
    const std::int64_t moved = keys.bytes + keys.bytes * a.kv_heads / a.heads;
    moves(repeat, moved, moved, 2, 2);
    repeat.forward_output = Bytes(keys.bytes);
    node = b.add(std::move(repeat), {node});
  }
  Operator scores = product("scores", {a.query_length, a.key_length, a.qk_dim, batch}, e);
  keep(scores, "qkv", qkv);
  if (keys.storage != qkv.storage) {
    keep(scores, "repeated_kv", keys);
  }
  Node made_scores = b.add(std::move(scores), {node});
  if (b.model.attention_softcap) {
    made_scores = add_softcap(b, "scores_cap", Module::core_attention, square, made_scores);
  }

  Tensor probabilities = b.tensor(square * e);
  const bool eager = !fused && !b.style.compiled;
  // Dropout keeps its mask and not its input, so the cast of an fp32 softmax is freed after it.
  const bool keeps_probabilities = b.model.dropout == 0 || !eager || e == 4;
  node = eager && b.style.widens_scores_first && e < 4
             ? add_widened_softmax(b, a, made_scores, probabilities, keeps_probabilities)
             : add_softmax(b, a, made_scores, probabilities, keeps_probabilities);

  if (b.model.dropout > 0) {
    Operator dropout = named("attn_dropout", OpKind::dropout, Module::core_attention);
    const Tensor mask = b.tensor(square);
    moves(dropout, 2 * square * e + mask.bytes, 2 * square * e + mask.bytes, 1, 1);
    probabilities = b.tensor(square * e);
    dropout.forward_output = Bytes(probabilities.bytes);
    keep(dropout, "mask", mask);
    node = b.add(std::move(dropout), {node});
  }

  Operator context = product("context", {a.query_length, a.v_dim, a.key_length, batch}, e);
  keep(context, "probabilities", probabilities);
  keep(context, "qkv", qkv);
  if (keys.storage != qkv.storage) {
    keep(context, "repeated_kv", keys);
  }
  node = b.add(std::move(context), {node});

  // From [b a, s, d] back to [s, b, a d]; the backward pass transposes the gradient and
  // concatenates those of q, k and v.
  Operator transpose = named("transpose", OpKind::elementwise, Module::core_attention);
  moves(transpose, 2 * output.bytes, 2 * output.bytes + 2 * qkv.read(), 1, 2);
  transpose.forward_output = Bytes(output.bytes);
  return b.add(std::move(transpose), {node});
}

}  // namespace

bool fuses_core(const Builder& b, int qk_dim, int v_dim) {
  const int most = b.style.widest_fused_head;
  return b.style.attention != job::AttentionKernel::unfused &&
         (most == 0 || std::max(qk_dim, v_dim) <= most);
}

Node add_core(Builder& b, const AttentionShape& shape, Node from, const Tensor& qkv,
              const Tensor& output) {
  b.narrow_output.reset();
  return fuses_core(b, shape.qk_dim, shape.v_dim) ? add_fused(b, shape, from, qkv, output)
                                                  : add_unfused(b, shape, from, qkv, output);
}

Node add_listed_core(Builder& b, const AttentionShape& shape, std::int64_t listed, Node from,
                     const Tensor& qkv, const Tensor& output) {
  b.narrow_output.reset();
  if (b.style.attention == job::AttentionKernel::unfused) {
    return add_unfused(b, shape, from, qkv, output);
  }
  // nemo-automodel 0.7.0, components/models/deepseek_v4/kernels/tilelang_sparse_mla_bwd.py:
  // gradients of keys are summed in fp32, those of queries written as they are; delta as elsewhere.
  const Node node = add_fused(b, shape, from, qkv, output);
  Operator& op = b.graph.operators.back();
  const std::int64_t rows = shape.sequences * shape.query_length * shape.heads;
  const std::int64_t keys = shape.sequences * shape.key_length * shape.qk_dim;
  op.backward_temporary = Bytes(4 * rows + 4 * keys);
  op.backward_tensors = {4 * rows, 4 * keys};
  keep(op, "listed", b.tensor(4 * shape.sequences * shape.query_length * listed));
  return node;
}

Node add_core_attention(Builder& b, const CoreAttention& core, Node from, const Tensor& qkv,
                        const Tensor& output) {
  return add_core(b, shape_of(b, core), from, qkv, output);
}

namespace {

// torchtune 0.6.1, modules/position_embeddings.py:102 to 122, of queries and of keys: a cast to
// fp32; four products of every second number with a cosine or a sine; their difference and their
// sum; both stacked; a cast back. Reading or writing every second number of four bytes moves all
// sectors.
void rotate_pairs(const Builder& b, std::int64_t query_bytes, std::int64_t bytes, Operator& op) {
  constexpr std::int64_t kWide = 4;                 // bytes of fp32
  constexpr std::int64_t kHalf = kWide / 2;         // of half the numbers, an element of all
  constexpr std::int64_t kOfPairs = kWide + kHalf;  // every second number and a packed result
  const std::int64_t e = b.element;
  const std::int64_t elements = bytes / e;
  const std::int64_t cast = e + kWide;
  const std::int64_t products = 4 * kOfPairs;
  moves(op, elements * (2 * cast + products + 2 * 3 * kHalf + 2 * kWide), 0, 2 * 9, 2 * 18);
  // Backward: a cast; the products again, of which one reads a negated half that is packed; zeros
  // for each, into which its every second number is copied; three sums of these; a cast back.
  const std::int64_t back = 3 * kOfPairs + 2 * kHalf;
  const std::int64_t strided = kOfPairs + back + 4 * kOfPairs;  // with the negation
  op.backward_moved = Bytes(elements * (2 * cast + strided + 4 * kWide + 3 * 3 * kWide));
  op.forward_singles = {elements + 4 * elements / 2, elements * (cast + products)};
  op.backward_singles = {elements + (1 + 4 + 4) * elements / 2, elements * (cast + strided)};
  // Of the queries: the fp32 copy, both halves and their stack; backward, the stack's gradient,
  // that of the copy, one more with its half.
  const std::int64_t wide = kWide * query_bytes / e;
  op.forward_temporary = Bytes(3 * wide);
  op.backward_temporary = Bytes(3 * wide + wide / 2);
  op.largest_temporary = Bytes(wide);
  op.rotation = Operator::Rotation::pairs;
}

}  // namespace

Operator rotary(Builder& b, std::int64_t query_bytes, std::int64_t key_bytes) {
  const std::int64_t bytes = query_bytes + key_bytes;
  Operator op = named("rotary", OpKind::rotary, Module::attention);
  if (b.style.complex_rotary) {
    // For q and for k: cast to fp32, multiply (view_as_complex and view_as_real are views), cast
    // back.
    const std::int64_t elements = bytes / b.element;
    const std::int64_t moved = elements * ((b.element + 4) + (4 + 4) + (4 + b.element));
    moves(op, moved, moved, 6, 6);
    // One by one: the pairs, whose factors are broadcast over heads, and without a compiler the
    // cast to fp32.
    op.forward_singles = {elements / 2, elements * (4 + 4)};
    if (!b.style.compiled) {
      op.forward_singles.elements += elements;
      op.forward_singles.moved += elements * (b.element + 4);
    }
    op.backward_singles = op.forward_singles;
    if (!b.style.compiled) {
      // The fp32 copies of q and k and their products live until both are cast back (torchtitan
      // 0.2.2, models/llama3/model/model.py: apply_rotary_emb); backward, q goes ahead of k.
      op.forward_temporary = Bytes(2 * 4 * bytes / b.element);
      op.backward_temporary = Bytes(2 * 4 * query_bytes / b.element);
      op.largest_temporary = Bytes(4 * query_bytes / b.element);
      op.rotation = Operator::Rotation::complex;
      op.table = Bytes(b.sequence / b.shard.context * (b.model.head_dim / 2) * 8);
    }
  } else if (b.style.rotary_in_place) {
    // Queries and keys that are parts of one projection are copied ahead of it (liger-kernel 0.8.5,
    // ops/rope.py:169).
    const int copies = b.fused_projection() ? 2 : 0;
    moves(op, (2 + copies) * bytes, 2 * bytes, 1 + copies, 1);
    op.in_place = copies == 0;
    op.gradient = Operator::Gradient::handed_on;
  } else if (b.style.fused_rotary || b.style.compiled) {
    moves(op, 2 * bytes, 2 * bytes, 2, 2);
  } else if (b.style.paired_rotary) {
    rotate_pairs(b, query_bytes, bytes, op);
  } else {  // for q and k: rotate half (negate, concatenate), two products, sum
    // Backward: two products, a negation, each half's gradient into a tensor of zeros, two sums.
    moves(op, 10 * bytes, (2 + 2 + 1 + 4 + 6) * bytes, 10, 18);
    // All of these kernels take elements one by one, as q and k are transposed, half a head's
    // elements are strided and the tables broadcast; those that fill the zeros and add both of them
    // do not.
    const std::int64_t elements = bytes / b.element;
    op.forward_singles = {elements / 2 + 4 * elements, 10 * bytes};
    op.backward_singles = {elements / 2 + 4 * elements, (2 + 2 + 1 + 2 + 3) * bytes};
    // For q, then for k: both products, or in the backward pass the gradients of both halves in
    // tensors of zeros.
    op.forward_temporary = op.backward_temporary = Bytes(2 * query_bytes);
    op.largest_temporary = Bytes(query_bytes);
    op.rotation = Operator::Rotation::halves;
    if (b.style.rotary_tables_anew) {
      // A cosine and a sine of the fp32 angles, scaled, then cast (megatron-core 0.16.1,
      // models/common/embeddings/rope_utils.py:122; 0.8.0, rotary_pos_embedding.py:194).
      constexpr std::int64_t kWide = 4;  // bytes of fp32
      constexpr int kTables = 4;         // two of queries, two of keys
      const std::int64_t angles = b.sequence / b.shard.context * b.model.head_dim;
      const std::int64_t made = kTables * angles * (2 * kWide + 2 * kWide + kWide + b.element);
      op.forward_moved += Bytes(made);
      op.forward_kernels += kTables * 3;
      op.table = Bytes(angles * b.element);
    }
  }
  op.forward_output = Bytes(bytes);
  return op;
}

namespace {

// llm-foundry's around flash-attn's package; its attention in Triton (flash1) takes padding along
// (0.22.0, models/layers/attention.py:328; 0.4.0 :267).
bool unpads(const Builder& b) {
  const job::AttentionKernel kernel = b.style.attention;
  return b.style.unpads_attention && kernel != job::AttentionKernel::flash1 &&
         kernel != job::AttentionKernel::unfused;
}

bool copies_parts(const Builder& b) {
  return (b.style.copied_qkv && !b.fused_projection()) || unpads(b);
}

// The bias is added behind the product, which makes a tensor of its own.
bool adds_bias(const Builder& b) {
  return b.model.biases.qkv && !b.style.compiled && !b.style.fused_linear_bias;
}

// Copies of the parts of one projection, which `keeps` says whether attention reads, and its bias.
// `values`: bytes of its last part.
Node add_after_projection(Builder& b, Node node, const Tensor& qkv, std::int64_t values,
                          bool keeps) {
  if (copies_parts(b)) {
    // Backward, the three gradients are joined. Compiled, rotation reads its part of the projection
    // and writes its part of the gradients: values alone are copied.
    Operator split = named("qkv_split", OpKind::elementwise, Module::attention);
    if (unpads(b)) {
      // Back, each is scattered into zeros ahead of the join (flash-attn 2.8.3,
      // bert_padding.py: IndexFirstAxis.backward).
      moves(split, 2 * qkv.bytes, 5 * qkv.bytes, 3, 7);
      split.backward_temporary = Bytes(values);
    } else if (b.style.compiled && b.model.positions == job::Positions::rotary) {
      moves(split, 2 * values, 2 * values, 1, 1);
    } else {
      moves(split, 2 * qkv.bytes, 2 * qkv.bytes, 3, 1);
    }
    split.forward_output = Bytes(qkv.bytes);
    if (keeps) {
      keep(split, "output", qkv);
    }
    node = b.add(std::move(split), {node});
  }
  if (b.model.biases.qkv && !b.style.compiled) {
    Operator bias = named("qkv_bias", OpKind::elementwise, Module::attention);
    const bool added =
        b.style.fused_linear_bias;  // the GEMM adds it; its gradient is still a separate sum
    moves(bias, added ? 0 : 2 * qkv.bytes, qkv.bytes, added ? 0 : 1, 1);
    bias.forward_output = Bytes(added ? 0 : qkv.bytes);
    if (keeps && !added && !copies_parts(b)) {
      keep(bias, "output", qkv);
    }
    node = b.add(std::move(bias), {node});
  }
  return node;
}

// Each projection is normed by itself: what is kept of queries and of keys is two tensors.
void divide_kept(Builder& b, int heads, int kv_heads, Operator& norm) {
  std::vector<Saved> kept;
  for (const Saved& s : norm.saved) {
    const std::int64_t queries = s.bytes.count() / (heads + kv_heads) * heads;
    const Tensor keys = b.tensor(s.bytes.count() - queries);
    kept.push_back({s.name, Bytes(queries), s.storage});
    kept.push_back({s.name, Bytes(keys.bytes), keys.storage});
  }
  norm.saved = std::move(kept);
}

// A norm over each head's query and key, or over all of them at once. Where values are normed too,
// their norm lists what attention reads. `copied`: bytes of queries that are copied ahead of it,
// which it keeps then.
Node add_qk_norm(Builder& b, Node node, const Tensor& qkv, std::int64_t elements,
                 std::int64_t queries, std::int64_t parameters, std::int64_t copied, bool repeats) {
  Operator norm = named(kQkNorm, OpKind::norm, Module::attention);
  norm.parameters = parameters;
  describe_norm(b, norm, elements, qkv);
  if (!b.kind.shares_kv) {
    norm.forward_kernels *= 2;  // one each for q and k
    norm.backward_kernels *= 2;
    norm.columns = {queries, parameters - queries};
  }
  norm.forward_output = Bytes(elements * b.element);
  // The core reads the normed q and k; their rotation is linear and keeps nothing. Where that is
  // in place, repeated keys are listed with the queries that it has written.
  const bool listed = repeats && b.style.rotary_in_place;
  if (!b.style.fp8_attention && (!b.model.value_norm || b.kind.shares_kv) && !listed) {
    keep(norm, "output", b.tensor(elements * b.element));
  }
  if (copied > 0) {
    norm.forward_moved += Bytes(2 * copied);
    norm.forward_kernels += 1;
    keep(norm, "queries", b.tensor(copied));
  }
  return b.add(std::move(norm), {node});
}

// Queries that attention reads as they were projected, copied out of a packed projection.
Node add_query_copy(Builder& b, Node node, std::int64_t bytes) {
  Operator copy = named("query_copy", OpKind::elementwise, Module::attention);
  moves(copy, 2 * bytes, 0, 1, 0);
  copy.forward_output = Bytes(bytes);
  keep(copy, "output", b.tensor(bytes));
  return b.add(std::move(copy), {node});
}

// A norm over each head's value, of `elements`, behind that of queries and keys; `qkv` becomes what
// attention reads, none of which is a view of the projection. Values may be keys before their norm
// (transformers 5.24.0, models/gemma4/modeling_gemma4.py:1217; Megatron-Bridge 0.6.2,
// models/gemma/modeling_gemma4.py:1631, whose packed projection also computes columns of values
// that it drops: these are left out).
Node add_value_norm(Builder& b, Node node, std::int64_t elements, std::int64_t read_width,
                    bool keeps, Tensor& qkv) {
  Operator norm = named("v_norm", OpKind::norm, Module::attention);
  describe_plain_norm(b, norm, elements, qkv);
  norm.forward_output = Bytes(elements * b.element);
  qkv = b.tensor(b.tokens * read_width * b.element);
  if (keeps) {
    keep(norm, "output", qkv);
  }
  return b.add(std::move(norm), {node});
}

// Of a projection that holds a group's queries, key and value side by side, queries of several
// groups and several heads each are copied: their heads lie one behind the other then
// (megatron-core 0.16.1, transformer/attention.py:1463, query.reshape). What rotates them makes a
// copy anyway.
std::int64_t copied_queries(const Builder& b, int heads, int groups, std::int64_t q_bytes) {
  const bool copies = b.style.interleaved_qkv && !b.style.fp8_attention && !b.model.value_norm;
  return copies && groups > 1 && groups < heads ? q_bytes : 0;
}

// What a rotation of queries and keys keeps: its result where that stands beside the projection
// (`copies`), and tables that each layer makes, unless they are among its pieces
// (lower/tensors/rotation_pieces.cpp).
void keep_rotated(Builder& b, bool copies, bool unfused_core, std::int64_t qk_bytes, Operator& op) {
  if (copies && !b.model.qk_norm && !b.style.fp8_attention) {
    keep(op, "output", b.tensor(qk_bytes));
  }
  if ((b.model.qk_norm || unfused_core) && op.table.count() > 0 &&
      op.rotation == Operator::Rotation::halves) {
    for (const char* table : {"query cosines", "query sines", "key cosines", "key sines"}) {
      keep(op, table, b.tensor(op.table.count()));
    }
  }
}

// Flash attention lays its result out as its queries are, which torch.cat has written head by head:
// it is copied into rows of tokens (transformers 5.23, integrations/sdpa_attention.py:206;
// models/gpt_neox/modeling_gpt_neox.py:138, models/phi3/modeling_phi3.py:184).
// Where the stream has positions ahead of sequences, so is that of several sequences (nanotron).
// Where padding was taken out, it is scattered into zeros, and its gradient gathered (flash-attn
// 2.8.3, bert_padding.py: IndexPutFirstAxis).
Node add_copied_output(Builder& b, Node core, bool rotates_apart, Tensor& output) {
  const bool unpadded = unpads(b);
  if (!unpadded && !(b.style.joined_rotary && rotates_apart) &&
      !(b.style.reorders_attention && b.shard.sequences > 1)) {
    return core;
  }
  Operator copy = named("attention_copy", OpKind::elementwise, Module::attention);
  const std::int64_t bytes = output.bytes;
  moves(copy, (unpadded ? 3 : 2) * bytes, unpadded ? 2 * bytes : 0, unpadded ? 2 : 1,
        unpadded ? 1 : 0);
  copy.forward_output = Bytes(bytes);
  if (!unpadded) {
    copy.gradient = Operator::Gradient::handed_on;
  }
  output = b.tensor(bytes);
  return b.add(std::move(copy), {core});
}

// The projection is a product each to queries, keys and values, where these have one.
void divide_projection(const Builder& b, const HeadShape& all, std::int64_t gate_width,
                       Operator& project) {
  if (b.fused_projection() || b.style.copied_qkv || all.shares_kv) {
    return;
  }
  const int t = b.shard.tensor;
  project.forward_kernels = all.keys_as_values ? 2 : 3;
  project.backward_kernels = 2 * project.forward_kernels;
  if (all.kv_heads < t) {
    return;  // ranks' parts of a head
  }
  project.columns = {static_cast<std::int64_t>(all.heads) * all.qk_dim / t + gate_width,
                     static_cast<std::int64_t>(all.kv_heads) * all.qk_dim / t};
  if (!all.keys_as_values) {
    project.columns.push_back(static_cast<std::int64_t>(all.kv_heads) * all.v_dim / t);
  }
}

// A norm in Python keeps wide copies of queries and keys, which are given up with them: of what is
// projected attention reads the values alone.
bool norm_replaces(const Builder& b, const HeadShape& all) {
  return b.model.qk_norm && eager_norm(b, kQkNorm) && b.element < 4 && !b.fused_projection() &&
         !copies_parts(b) && !all.shares_kv && !b.model.value_norm && !adds_bias(b) &&
         !b.style.fp8_attention;
}

// With one fused projection, v is a view that keeps all of q, k and v alive, beside the rotated q
// and k unless a kernel of a library rotates in place. With separate ones, the rotated q and k
// replace the others, as where each part of grouped heads has a copy of its own, in which it is
// rotated.
bool rotates_copies(const Builder& b, bool grouped) {
  const bool in_place = b.style.fused_rotary && !b.style.rotary_in_place;
  return !in_place && b.fused_projection() && !copies_parts(b) &&
         !(b.style.copies_keys_values && grouped);
}

// Whether attention reads keys and values copied for every head. A single head is repeated by a
// view. What need not be repeated is copied out of transformers' packed projections all the same
// (4.53.3, integrations/sdpa_attention.py:49: contiguous).
bool repeats_keys(const Builder& b, const HeadShape& all, int heads, int kv_heads) {
  const bool asked = b.style.repeats_kv || takes_mask(b, b.kind, all.qk_dim, all.v_dim);
  return asked && (kv_heads > 1 || (b.style.repeats_single_head && heads > 1)) &&
         (kv_heads < heads || (b.style.copies_packed_kv && b.fused_projection())) &&
         fuses_core(b, all.qk_dim, all.v_dim);
}

// Keys and values are copied for every head. Attention then keeps the queries and the copies, which
// `qkv` becomes.
Node add_repeated_keys(Builder& b, Node node, const HeadShape& all, int heads, int kv_heads,
                       Tensor& qkv) {
  const std::int64_t e = b.element;
  const std::int64_t copied =
      b.tokens * heads * static_cast<std::int64_t>(all.qk_dim + all.v_dim) * e;
  qkv = b.tensor(b.tokens * heads * static_cast<std::int64_t>(all.qk_dim) * e + copied);
  Operator op = named(kRepeatedKeys, OpKind::elementwise, Module::attention);
  const std::int64_t moved = copied + copied * kv_heads / heads;
  moves(op, moved, moved, 2, 2);
  op.forward_output = Bytes(qkv.bytes);
  return b.add(std::move(op), {node});
}

}  // namespace

Node add_attention(Builder& b, Node from, const Tensor& input) {
  const job::Model& m = b.model;
  const int t = b.shard.tensor;
  const HeadShape all = head_shape(m, b.kind);
  const auto [heads, kv_heads, gathered] = rank_heads(all, t);
  const std::int64_t e = b.element;
  // Of the keys and values that this layer makes; those of an earlier one are kept there.
  const int made = all.shares_kv ? 0 : kv_heads;
  const std::int64_t qk_width = static_cast<std::int64_t>(heads + made) * all.qk_dim;
  const std::int64_t v_width = static_cast<std::int64_t>(made) * all.v_dim;
  const std::int64_t own_width = qk_width + v_width;  // that attention reads
  const std::int64_t width = qkv_width(all) / t;      // of this rank's columns
  const std::int64_t out_width = static_cast<std::int64_t>(heads) * all.v_dim;
  const std::int64_t gate_width = m.attention_gate ? out_width : 0;

  Tensor qkv = b.tensor(b.tokens * width * e);
  Operator project = linear({"qkv",
                             Module::attention,
                             TensorRole::column,
                             {b.tokens, width + gate_width, b.hidden, 1},
                             m.biases.qkv ? width + gate_width : 0,
                             e,
                             1});
  divide_projection(b, all, gate_width, project);
  keep(project, "input", input);
  const bool rotates = m.positions == job::Positions::rotary;
  bool copies = rotates && rotates_copies(b, made < heads);
  // The input of core attention is also listed by the operator that makes it, since selective
  // recomputation of core attention keeps it.
  const bool repeats = repeats_keys(b, all, heads, kv_heads);
  copies = copies && !repeats;  // attention reads copies of these
  const bool replaced = norm_replaces(b, all) && !gathered && !repeats;
  const Tensor read = replaced ? b.tensor(b.tokens * v_width * e) : qkv;
  b.narrow_qkv.reset();
  if (b.style.fp8_attention && !repeats) {
    b.narrow_qkv = b.tensor(b.tokens * own_width);
    if (!gathered) {
      keep(project, "output", *b.narrow_qkv);
    }
  } else if (!repeats && !gathered && !copies_parts(b) && !m.value_norm && !adds_bias(b)) {
    keep(project, "output", read);
  }
  Node node = b.add(std::move(project), {from});
  node = add_after_projection(b, node, qkv, b.tokens * v_width * e,
                              !repeats && !gathered && !b.narrow_qkv && !m.value_norm);
  if (gathered) {
    qkv = add_gathered_qkv(b, node, width, all, own_width);
  }
  const std::int64_t qk_elements = b.tokens * qk_width;
  const std::int64_t qk_bytes = qk_elements * e;
  const std::int64_t q_bytes = b.tokens * heads * static_cast<std::int64_t>(all.qk_dim) * e;
  const std::int64_t apart = gathered ? 0 : copied_queries(b, heads, made, q_bytes);
  if (m.qk_norm) {
    const auto dim = static_cast<std::int64_t>(all.qk_dim);
    const std::int64_t queries = m.qk_norm_whole ? heads * dim : dim;
    node = add_qk_norm(b, node, qkv, qk_elements, queries,
                       m.qk_norm_whole ? qk_width : (all.shares_kv ? 1 : 2) * dim, apart, repeats);
    if (replaced) {
      divide_kept(b, heads, made, b.graph.operators.back());
    }
    qkv = read;
  } else if (apart > 0 && !rotates) {
    node = add_query_copy(b, node, apart);
  }
  if (m.value_norm && !all.shares_kv) {
    node = add_value_norm(b, node, b.tokens * v_width, own_width,
                          !repeats && !b.style.fp8_attention, qkv);
  }
  if (rotates) {
    Operator op = rotary(b, q_bytes, qk_bytes - q_bytes);
    keep_rotated(b, copies, !fuses_core(b, all.qk_dim, all.v_dim), qk_bytes, op);
    node = b.add(std::move(op), {node});
  }

  if (repeats) {
    node = add_repeated_keys(b, node, all, heads, kv_heads, qkv);
  }
  Tensor output = b.tensor(b.tokens * out_width * e);
  node = add_core_attention(b, {heads, repeats ? heads : kv_heads, all.qk_dim, all.v_dim}, node,
                            qkv, output);
  if (gate_width > 0) {
    node = add_gate(b, "attention_gate", out_width, node, output);
  }
  node = add_copied_output(b, node, rotates && !b.style.fused_rotary, output);
  return add_linear(b,
                    {"out",
                     Module::attention,
                     TensorRole::row,
                     {b.tokens, b.hidden, out_width, 1},
                     m.biases.attention_out ? b.hidden : 0,
                     e,
                     1},
                    node, gate_width > 0 ? output : b.narrow_output.value_or(output));
}

}  // namespace stepcast::model
