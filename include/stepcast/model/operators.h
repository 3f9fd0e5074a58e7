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
  gemm,             // Y[m,n] = X[m,k] W[k,n], with weights W
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
  permute,        // MoE token dispatch and return, local part
  fused_permute,  // the same by kernels that follow a map of rows
  cross_entropy,
};

// Elements that kernels take one by one, as PyTorch's do where operands are broadcast, strided or of unlike formats, and the
// bytes that these kernels move, among the operator's.
struct SingleElements {
  std::int64_t elements = 0;
  std::int64_t moved = 0;
};

// The part of the layer that an operator belongs to. Selective recomputation names these parts.
enum class Module { embedding, attention, core_attention, mlp, moe, shared_expert, head, streams };

// How tensor parallelism divides the operator's weights. column: output features (the operator needs its whole input);
// row: input features (its output is a partial sum); vocab_*: the vocabulary. gathered: it has no weights, and gathers the
// columns of all ranks, whose gradients it sums; joined: the same, but each rank cuts its columns out of the gradient.
enum class TensorRole { none, column, row, vocab_embedding, vocab_head, gathered, joined };

// What an operator does to tokens in a mixture of experts. choose: it names each token's experts; dispatch: it orders
// tokens by expert; combine: it restores their order. Tokens are sent to other ranks before or after dispatch and return
// after or before combine, depending on the dispatcher.
enum class ExpertRole { none, choose, dispatch, combine };

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
  double share = 1;         // computed share of the (causal) score matrix: packed documents, a context-parallel step
  bool masked = false;      // a mask in memory says which scores count; all are computed
};

// Number of scores computed for one sequence and head, on average over ranks that share a sequence: half of the square
// when causal, only those in the window, times `share`.
double attention_pairs(const AttentionShape& shape);

// The mask that attention's kernel adds to the scores: zeros and -inf in their format for each sequence, made of booleans
// that all sequences and layers share (torch's convert_boolean_attn_mask, a `where` for each call). The kernel wants rows in
// sixteens: others are copied to such.
struct MaskBytes {
  std::int64_t booleans = 0;
  std::int64_t made = 0;
  std::int64_t padded = 0;  // what is kept; as `made` where rows are in sixteens
};
// `element`: bytes of an element of the scores.
MaskBytes mask_bytes(const AttentionShape& shape, std::int64_t element);

// A tensor kept from forward to backward. Tensors of equal `storage` share one allocation (the input of three linears counts
// once); the id is unique within a graph. Tensors that core attention reads and writes are also listed by operators outside
// it. So, without the entries of a recomputed core, the tensors that its checkpoint keeps remain.
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
  Flops forward;  // on tensor cores; causal attention counts half
  Flops input_grad;
  Flops weight_grad;
  Bytes forward_moved;  // read and written in device memory
  Bytes backward_moved;
  SingleElements forward_singles;
  SingleElements backward_singles;
  std::int64_t row = 0;     // elements of a row that a fused causal softmax holds in registers; 0: others
  int forward_kernels = 1;  // launches
  int backward_kernels = 1;
  std::vector<Saved> saved;
  Bytes forward_output;     // bytes of the result
  Bytes forward_temporary;  // live only while it runs
  Bytes backward_temporary;
  Bytes largest_temporary;  // of a single tensor among those; 0: they are one tensor
  // Where the gradient of its input is written. own: in a tensor of its own. handed_on: in the gradient of its result, which
  // it equals or overwrites. in_kept: in a kept tensor, which lives until the producer's backward pass.
  enum class Gradient { own, handed_on, in_kept } gradient = Gradient::own;
  std::vector<std::int64_t> backward_tensors =
      {};  // the tensors of backward_temporary, in their order; none: by largest_temporary
  // Rotary positions by eager operators: of two halves, as transformers writes it; of complex numbers, whose table
  // (`table` bytes) each gradient copies; or of adjacent pairs of fp32 numbers, which are stacked (torchtune).
  enum class Rotation { other, halves, complex, pairs } rotation = Rotation::other;
  Bytes table;
  std::optional<Bytes> input_gradient;  // bytes of that gradient alive at once, where not those of the producer's result
  std::int64_t parameters = 0;          // elements on this rank that are trained
  std::int64_t frozen = 0;              // elements that take no gradient
  double frozen_width = 0;              // bytes of a frozen element; 0: as of parameters (QLoRA: half a byte)
  // Tensors of this rank's tokens that context ranks trade before it for the same of whole sequences and a part of the
  // heads, and behind it back again. Bytes of each.
  std::vector<std::int64_t> traded_before = {};
  std::vector<std::int64_t> traded_after = {};
  ExpertRole expert = ExpertRole::none;
  std::vector<std::int64_t> columns = {};  // of each product or norm that runs for this one; empty: they are equal
  std::int64_t bias = 0;                   // of a norm's parameters
  int row_parts = 1;                       // products of equal shares of its rows, one behind the other (chunks of a loss)
  bool in_place = false;                   // its result, and back the gradient of its input, is written over what it reads
  bool adapter = false;                    // a product of a low-rank adapter
  bool remade = false;                     // its result is not kept: the backward pass begins by making it once more
  bool sums_wide = false;                  // the gradients of its parts are added up in fp32
  bool forward_only = false;               // no gradient passes through it
  // Of tensor ranks that each read the same whole sequence: whole_input, the input is so without a gather, and its gradient
  // is summed whole; repeated, each makes the same result, with weights whose gradients are summed.
  bool whole_input = false;
  bool repeated = false;
  bool expert_parameters = false;  // sharded by expert parallelism, reduced over the expert-data group
};

// The blocks of a layer. Layers of equal kind are equal in every rank's program.
struct LayerKind {
  enum class Mixer { attention, window, compressed, heavily_compressed, linear, mamba, none } mixer = Mixer::attention;
  enum class Mlp { dense, moe, none } mlp = Mlp::dense;
  bool encoder = false;         // attends both ways, over the encoder's sequence
  bool cross = false;           // has cross-attention to the encoder's output
  bool prediction = false;      // a multi-token prediction layer with its projection, norm, head and loss
  bool chosen_before = false;   // sparse attention to the keys that another layer's indexer chose
  bool attends_all = false;     // attention to all keys in a model with an indexer
  bool repeats = false;         // runs an earlier layer once more, with that layer's parameters
  std::int64_t ffn = 0;         // width of its dense MLP where layers differ; 0: job::Model::ffn
  bool hashed = false;          // a table names its tokens' experts
  int blocks = 0;               // earlier blocks' streams that it attends to (job::Model::residual_block)
  bool opens_block = false;     // it is the first of a block
  bool shares_kv = false;       // it attends to an earlier layer's keys and values
  bool wide = false;            // its products run in 16 bits where others have fewer
  bool untrained = false;       // nothing is trained in it or below, so no gradient reaches it (job::Tuned)
  bool stops_gradient = false;  // nothing is trained below it, so its input needs no gradient
  bool prompted = false;        // its attention reads a prompt beside the tokens
  auto operator<=>(const LayerKind&) const = default;

  // Its mixer passes a state along the sequence.
  bool recurrent() const { return mixer == Mixer::linear || mixer == Mixer::mamba; }

  static const LayerKind dense;
  static const LayerKind moe;
};
inline constexpr LayerKind LayerKind::dense = {};
inline constexpr LayerKind LayerKind::moe = {Mixer::attention, Mlp::moe, false, false, false};

struct OperatorGraph {
  LayerKind kind;                          // of a layer
  std::vector<Operator> operators;         // topological order, the order of execution
  std::vector<std::pair<int, int>> edges;  // producer, consumer
};

// The part of a micro-batch on one rank.
struct Shard {
  std::int64_t sequences = 1;        // micro-batch b
  std::int64_t sequence_length = 0;  // of the whole sequence: s
  int context = 1;                   // tokens on this rank: b * s / context
  int tensor = 1;
  bool sequence_parallel = false;  // norms, dropout and residuals run on 1/tensor of the tokens
  int expert = 1;
  int expert_tensor = 1;
  bool operator==(const Shard&) const = default;
};

// How tokens reach their experts. `load`: rows of the most loaded expert-parallel rank after drops, over the mean
// before drops; `kept`: share of the tokens' copies that is not dropped.
struct Routing {
  job::MoeRuntime::Dispatcher dispatcher = job::MoeRuntime::Dispatcher::alltoall;
  double load = 1;
  double kept = 1;
  bool biases_apart = false;       // experts' output biases are added expert by expert, weighted in fp32
  bool biases_in_product = false;  // the grouped products add them, which weights rows behind the activation
  bool biases_gathered = false;    // they are rows of a table by expert, copied in pieces and added to the products' results
  bool pads = false;               // rows of each expert are copied to padded blocks of a narrow format, and back
  bool weighted_inside = false;    // rows are weighted between an expert's two products, not at the sum per token
  bool shared_beside = false;      // shared experts run while tokens are dispatched to the routed ones
  bool fp8_dispatch = false;       // tokens and gradients of what experts return travel in blocks of FP8
  bool fused_permute = false;      // rows move by kernels that follow a map of rows (OpKind::fused_permute)
  bool one_hot = false;            // rows move by products with masks, to buffers that are computed whole
  bool sends_probabilities = true;  // copies travel with their probabilities, counts by a gather; else by all-to-all
  bool whole_sequence = false;      // tensor ranks route all tokens of the sequence, and each sends them all
  bool sends_parts = false;         // or the copies of its part of these
  bool weighs_rows = false;         // what experts return is weighted as a whole ahead of its sum (Megatron-LM's unpermute)
  bool joins_experts = false;       // results of experts that run one by one are joined (Megatron-LM's SequentialMLP)
  bool grouped = false;             // an expert's products are parts of one operator
  bool indexed = false;             // rows move by indexing, into zeros and padded copies, and are summed in fp32
  bool wide_router = false;         // the router reads an fp32 copy of the tokens, and keeps it
  bool wide_weighing = false;       // what experts return is multiplied by weights in an fp32 copy, which is kept
  bool fused_experts = false;       // kernels of experts gather their rows themselves, and keep what they activate alone
  bool every_token = false;         // each expert computes every token, weighted ahead of it
  bool operator==(const Routing&) const = default;
};

// How a framework runs operators, and in which precision.
struct Style {
  Routing routing;
  job::DType dtype = job::DType::bf16;  // of activations
  job::AttentionKernel attention = job::AttentionKernel::flash2;
  job::SplashAttention splash = {};  // of TPUs
  int widest_fused_head = 256;       // dimensions of a head; attention of wider ones is not fused; 0: any
  job::LossKernel loss = job::LossKernel::vocab_parallel;
  bool fused_norm = true;
  bool eager_qk_norm = false;  // norms of queries and keys are not, where others are
  bool norm_in_place = false;  // a fused norm's gradient is written over that of its result
  bool rotary_in_place = false;
  bool gate_in_place = false;  // a fused gated activation's gradients are written over the halves that it keeps
  bool fused_softmax = true;
  int fused_softmax_keys = 0;        // job::System::fused_softmax_keys
  bool widens_scores_first = false;  // an eager softmax casts scores to fp32 ahead of the mask
  bool fused_bias_activation = true;
  bool fused_bias_dropout_add = true;
  bool fused_rotary = true;
  bool rotary_tables_anew = false;  // where it is not: each layer makes cosines and sines for queries and for keys
  bool complex_rotary = false;      // rotation in complex numbers: separate kernels even where all else is compiled
  bool joined_rotary = false;       // rotated queries and keys lie head by head, as attention's result then does
  bool reorders_attention = false;  // attention's result is copied to the stream's order, if there are several sequences
  bool copies_keys_values = false;  // keys and values are rotated in a tensor of their own
  bool views_values = false;        // values of latent attention are a view of the product that makes keys too
  bool paired_rotary = false;       // rotation of adjacent pairs in fp32, of queries ahead of the projection to keys
  bool compiled = false;            // a compiler fuses chains of elementwise operators and saves only their inputs
  bool compiled_ends = false;       // so is what lies ahead of the layers and behind them
  bool compiled_loss = false;       // so is an eager loss, or one in chunks
  bool fused_qkv = true;            // one projection for q, k, v (and gate, up); else Llama-style models have one for each
  bool interleaved_qkv = false;     // that one holds them group by group: queries of several groups are copied apart
  bool sequence_first = false;      // positions lie ahead of sequences in the stream, behind them in the embedding's result
  bool divides_prediction = false;  // the projection of a prediction layer is cut over tensor ranks, and its result gathered
  bool holds_prediction_logits = false;  // logits of the last prediction layer stand until the model's own loss is there
  bool fused_gate = true;                // where that is so, one for gate and up as well; else these are apart
  bool unpads_attention = false;         // what flash attention reads and writes is copied apart from padding (System)
  bool copied_qkv = false;               // one projection for q, k, v, whose parts are copied apart; fused_qkv is false
  bool fused_linear_bias = false;        // the qkv bias is added in the GEMM's epilogue
  int loss_metrics = 0;                  // further cross entropies of the same logits, for the trainer's metrics
  bool metrics_before_backward = false;  // they are computed behind the loss; else behind the backward pass
  bool whole_latents = false;            // job::System::whole_latents
  bool embedding_by_width = false;       // tensor ranks hold columns of the word embedding
  bool composed_gelu = false;            // job::System::composed_gelu
  bool gate_first = false;               // eager gated MLPs: the gate's linear and activation run ahead of the other half's
  bool wide_norm = false;                // a norm that is not fused scales by its weight in fp32
  bool fused_streams = false;            // job::System::fused_streams
  bool logsumexp_sinks = false;          // job::Modules::logsumexp_sinks
  bool repeats_kv = false;               // keys and values are copied for every query head ahead of fused attention
  bool repeats_single_head = false;      // and a single head of them
  bool copies_packed_kv = false;         // and, out of a packed projection, where each head has its own
  job::AttentionMasks masks = job::AttentionMasks::none;  // layers whose fused attention is given a mask
  bool holds_masks = false;                               // checkpoints of layers hold the booleans of which masks are made
  bool keeps_logits = false;                              // a pipeline's last stage keeps the logits until its backward pass
  bool autocast = false;               // fp32 parameters under torch.autocast: products cast what they read
  bool autocasts_units = false;        // 16-bit parameters under torch.autocast: norms and powers are in fp32
  bool casts_adapter_inputs = false;   // each adapter keeps a cast copy of its input
  bool casts_adapters_once = false;    // only in the first pass through its layer
  bool fp8_attention = false;          // fused attention reads, writes and keeps 8-bit tensors, between casts
  bool fused_casts = false;            // an MLP's norm and activation write 8-bit operands of the next products
  bool casts_apart = false;            // 8-bit operands of weight gradients are cast by kernels of their own
  bool fp8_activation_input = false;   // inputs of gated activations are kept in 8 bits
  bool fp12_attention_output = false;  // attention and the product behind it keep one copy of its result, in 12 bits
  bool frozen_inputs = false;          // frozen products of the base keep inputs that no gradient needs
  Quantizer quantizer = Quantizer::hugging_face;
  bool parted_adapters = false;  // job::System::parted_adapters
  job::Finetune finetune;        // adapters on a frozen base
  bool operator==(const Style&) const = default;
};

Style style_of(const job::Job& job);

// The kernel of a layer's attention: one that takes masks where the shape has one.
job::AttentionKernel attention_kernel(const Style& style, const AttentionShape& shape);

// `layer` is the index among the model's layers, followed by its multi-token prediction layers.
LayerKind layer_kind(const job::Model& model, int layer);
// The kinds of the model's layers, each once, in the order in which they first appear.
std::vector<LayerKind> layer_kinds(const job::Model& model);
// Hidden width of the dense MLP of a layer.
std::int64_t dense_width(const job::Model& model, const LayerKind& kind);
// Residual streams that a layer hands on.
inline int stream_count(const job::Model& model) { return model.hyper_connections ? model.hyper_connections->streams : 1; }
// Layers that pipeline stages divide: the model's, with its multi-token prediction layers.
int layer_count(const job::Model& model);

// Tokens of one sequence in encoder layers: an encoder-decoder model may have another length there.
std::int64_t encoder_sequence(const job::Model& model, std::int64_t sequence_length);

OperatorGraph build_layer(const job::Model& model, LayerKind kind, const Shard& shard, const Style& style);
OperatorGraph build_embedding(const job::Model& model, const Shard& shard, const Style& style);
// Final norm, output projection, loss.
OperatorGraph build_head(const job::Model& model, const Shard& shard, const Style& style);
// Forward alone: the trainer's metrics of a micro-batch's logits, behind its backward pass (Style::loss_metrics; none where
// they come ahead of it).
OperatorGraph build_metrics(const job::Model& model, const Shard& shard, const Style& style);

// The fault of a graph: an edge out of range, a cycle, an order that is not topological, a result that no operator reads, a
// storage of two sizes. nullopt: the graph is sound. The build functions call it themselves.
std::optional<std::string> graph_fault(const OperatorGraph& graph);

// The vocabulary padded as Megatron-LM does, to a multiple of --make-vocab-size-divisible-by times the tensor-parallel size;
// divisor 1: not padded.
std::int64_t padded_vocab(std::int64_t vocab, std::int64_t divisor, int tensor);

}  // namespace stepcast::model
