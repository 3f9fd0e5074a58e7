// The operator graph of a transformer on one rank: every operator with its local shapes, FLOPs,
// bytes moved and bytes saved for the backward pass. Graphs are directed and acyclic (Boost.Graph
// inside); outside they are plain vectors in topological order.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "stepcast/base/diagnostics.h"
#include "stepcast/base/quantity.h"
#include "stepcast/job/job.h"

namespace stepcast::model {

enum class OpKind {
  gemm,             // Y[m,n] = X[m,k] W[k,n]: has weights
  batched_gemm,     // no weights: the two products of unfused attention
  grouped_gemm,     // experts
  fused_attention,  // FlashAttention, cuDNN
  norm,
  softmax,
  activation,  // GeLU, SwiGLU
  rotary,
  dropout,      // alone
  residual,     // (bias +) (dropout +) add
  elementwise,  // casts, transposes, bias adds that are not fused
  embedding,
  router,
  permute,  // MoE token dispatch and return, local part
  cross_entropy,
};

// The part of the layer an operator belongs to: what selective recomputation names.
enum class Module { embedding, attention, core_attention, mlp, moe, shared_expert, head };

// How tensor parallelism cuts the operator's weights. column: output features (its input is needed
// whole); row: input features (its output is a partial sum); vocab_*: the vocabulary.
enum class TensorRole { none, column, row, vocab_embedding, vocab_head };

// Where tokens change ranks in a mixture of experts. dispatch: the operator that lays tokens out by expert; combine: the
// one that takes them back. Dispatchers send before or after the first and return after or before the second.
enum class ExpertRole { none, dispatch, combine };

struct Gemm {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  std::int64_t batch = 1;
};

struct AttentionShape {
  std::int64_t sequences = 0;
  std::int64_t query_length = 0;
  std::int64_t key_length = 0;
  int heads = 0;     // on this rank
  int kv_heads = 0;  // on this rank
  int qk_dim = 0;
  int v_dim = 0;
  bool causal = true;
  std::int64_t window = 0;  // keys that a query sees at most; 0: all
  double share = 1;         // of the (causal) score matrix that is computed: packed documents, a context-parallel step
};

// Scores that are computed for one sequence and head, on average over ranks that share a sequence: half of the square
// when causal, what lies in the window, the share that is left.
double attention_pairs(const AttentionShape& shape);

// A tensor kept from forward to backward. Tensors of equal `storage` share one allocation (a
// linear's input that three linears read counts once); the id is unique within a graph. What
// core attention reads and writes is listed by operators outside it as well, so leaving out the
// entries of a recomputed core leaves what its checkpoint keeps.
struct Saved {
  std::string name;
  Bytes bytes;
  std::uint32_t storage = 0;
};

struct Operator {
  std::string name;  // "qkv", "fc1", "attention_softmax"
  OpKind kind = OpKind::elementwise;
  Module module = Module::mlp;
  TensorRole tensor = TensorRole::none;
  std::optional<Gemm> gemm;  // forward; input gradient is (m, k, n), weight gradient (k, n, m)
  std::optional<AttentionShape> attention;
  Flops forward;  // of tensor cores; causal attention counts half
  Flops input_grad;
  Flops weight_grad;
  Bytes forward_moved;  // read and written in device memory
  Bytes backward_moved;
  int forward_kernels = 1;  // launches
  int backward_kernels = 1;
  std::vector<Saved> saved;
  Bytes forward_output;     // bytes of the result
  Bytes forward_temporary;  // live only while it runs
  Bytes backward_temporary;
  // Where the gradient of its input is written. handed_on: it is that of its result, or overwrites it. in_kept: over a
  // kept tensor, which lives on until the producer's backward pass.
  enum class Gradient { own, handed_on, in_kept } gradient = Gradient::own;
  std::optional<Bytes> input_gradient;  // bytes of it at one time, where not those of the producer's result
  std::int64_t parameters = 0;          // elements on this rank that are trained
  std::int64_t frozen = 0;              // elements that take no gradient
  double frozen_width = 0;              // bytes of one of them; 0: the parameters' (QLoRA: half a byte)
  ExpertRole expert = ExpertRole::none;
  bool expert_parameters = false;  // sharded by expert parallelism, reduced over the expert-data group
};

struct OperatorGraph {
  std::vector<Operator> operators;         // topological order, the order of execution
  std::vector<std::pair<int, int>> edges;  // producer, consumer
};

// What one rank holds of a micro-batch.
struct Shard {
  std::int64_t sequences = 1;        // micro-batch b
  std::int64_t sequence_length = 0;  // whole sequence s
  int context = 1;                   // tokens on this rank: b * s / context
  int tensor = 1;
  bool sequence_parallel = false;  // norms, dropout and residuals run on 1/tensor of the tokens
  int expert = 1;
  int expert_tensor = 1;
};

// How tokens reach their experts. `load`: rows of the most loaded expert-parallel rank over the mean of all tokens, after
// capacity; `kept`: share of the tokens' copies that is not dropped.
struct Routing {
  job::MoeRuntime::Dispatcher dispatcher = job::MoeRuntime::Dispatcher::alltoall;
  double load = 1;
  double kept = 1;
  bool biases_apart = false;   // experts' output biases are added expert by expert, weighted in fp32
  bool pads = false;           // rows of each expert are copied out to whole blocks of a narrow format, and back
  bool shared_beside = false;  // shared experts run while tokens travel to the routed ones
};

// What the framework does with operators and precision.
struct Style {
  Routing routing;
  job::DType dtype = job::DType::bf16;  // of activations
  job::AttentionKernel attention = job::AttentionKernel::flash2;
  job::LossKernel loss = job::LossKernel::vocab_parallel;
  bool fused_norm = true;
  bool fused_softmax = true;
  bool fused_bias_activation = true;
  bool fused_bias_dropout_add = true;
  bool fused_rotary = true;
  bool complex_rotary = false;     // kernels of their own even where all else is compiled
  bool compiled = false;           // elementwise chains fused by a compiler, their inputs alone saved
  bool fused_qkv = true;           // one projection for q, k, v (and gate, up); else Llama-style ones have one each
  bool fused_linear_bias = false;  // the qkv bias is added in the GEMM's epilogue
  int loss_metrics = 0;            // cross entropies of the logits that are computed again for the trainer's metrics
  bool quantized_inputs = false;   // 4-bit products keep inputs that no gradient needs
  job::Finetune finetune;          // adapters on a frozen base
};

Style style_of(const job::Job& job);

// What a layer is made of. Layers of equal kind are alike in every rank's program.
struct LayerKind {
  enum class Mixer { attention, window, linear, mamba, none } mixer = Mixer::attention;
  enum class Mlp { dense, moe, none } mlp = Mlp::dense;
  bool encoder = false;     // attends both ways, over the encoder's sequence
  bool cross = false;       // has cross-attention to the encoder's output
  bool prediction = false;  // a multi-token prediction layer with its projection, norm, head and loss
  auto operator<=>(const LayerKind&) const = default;

  static const LayerKind dense;
  static const LayerKind moe;
};
inline constexpr LayerKind LayerKind::dense = {};
inline constexpr LayerKind LayerKind::moe = {Mixer::attention, Mlp::moe, false, false, false};
// `layer` counts the model's layers, multi-token prediction layers behind the last.
LayerKind layer_kind(const job::Model& model, int layer);
// The kinds of the model's layers, each once, in the order in which they first appear.
std::vector<LayerKind> layer_kinds(const job::Model& model);
// Layers that pipeline stages divide: the model's, with its multi-token prediction layers.
int layer_count(const job::Model& model);

// Tokens of one sequence in encoder layers: an encoder-decoder model may have another length there.
std::int64_t encoder_sequence(const job::Model& model, std::int64_t sequence_length);

OperatorGraph build_layer(const job::Model& model, LayerKind kind, const Shard& shard, const Style& style);
OperatorGraph build_embedding(const job::Model& model, const Shard& shard, const Style& style);
// Final norm, output projection, loss.
OperatorGraph build_head(const job::Model& model, const Shard& shard, const Style& style);

// What is wrong with a graph: an edge out of range, a cycle, an order that is not topological, a
// result that nobody reads, a storage of two sizes. nullopt: nothing. The build functions check it
// themselves.
std::optional<std::string> graph_fault(const OperatorGraph& graph);

// Vocabulary padded as Megatron does (--make-vocab-size-divisible-by times tensor size); divisor 1:
// not padded.
std::int64_t padded_vocab(std::int64_t vocab, std::int64_t divisor, int tensor);

}  // namespace stepcast::model
