// The graph under construction, to which every operator function adds, and the local sizes of
// one rank.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "stepcast/model/operators.h"

namespace stepcast::model {

// Node ids are indices into OperatorGraph::operators; `outside` stands for the graph's input.
using Node = int;
inline constexpr Node outside = -1;

// A tensor in device memory: its allocation and its size.
struct Tensor {
  std::uint32_t storage = 0;
  std::int64_t bytes = 0;
  std::int64_t viewed = 0;  // bytes of the view that is read of it; 0: all

  std::int64_t read() const { return viewed > 0 ? viewed : bytes; }
};

// The style of what lies ahead of the layers and behind them.
inline Style of_ends(Style style) {
  style.compiled = style.compiled_ends;
  return style;
}

struct Builder {
  Builder(const job::Model& model_, const Shard& shard_, const Style& style_, LayerKind kind_ = {});

  const job::Model& model;
  const Shard& shard;
  const Style& style;
  LayerKind kind;  // of the layer under construction

  std::int64_t sequence =
      0;                    // tokens of one sequence; in encoder layers, of the encoder's sequence
  std::int64_t tokens = 0;  // of the micro-batch on this rank, after context parallelism: T
  std::int64_t local_tokens = 0;  // T / t with sequence parallelism, else T
  std::int64_t hidden = 0;
  std::int64_t routed = 0;   // elements of a token as it is dispatched to experts
  std::int64_t element = 2;  // bytes of an activation element
  OperatorGraph graph;
  // Queries, keys and values as fp8 attention keeps them, where an operator before it lists them.
  std::optional<Tensor> narrow_qkv;
  // The result of the attention added last as it is kept, where that is not in 16 bits.
  std::optional<Tensor> narrow_output;

  Tensor tensor(std::int64_t bytes) { return {next_storage_++, bytes}; }
  // Outside Megatron, Llama-style modules have separate projections for q, k and v (gate and up),
  // and GPT-style modules have one.
  bool fused_projection() const {
    return style.fused_qkv || model.positions != job::Positions::rotary;
  }
  bool fused_gate() const { return fused_projection() && style.fused_gate; }
  Tensor residual_stream() { return tensor(local_tokens * hidden * element); }

  // Appends an operator that reads the results of `from`.
  Node add(Operator op, std::initializer_list<Node> from);
  // Checks the graph and returns it.
  OperatorGraph finish();

 private:
  std::uint32_t next_storage_ = 0;
};

inline void keep(Operator& op, const char* name, const Tensor& t) {
  if (t.bytes > 0) {
    op.saved.push_back({name, Bytes(t.bytes), t.storage});
  }
}

inline Operator named(const char* name, OpKind kind, Module module) {
  Operator op;
  op.name = name;
  op.kind = kind;
  op.module = module;
  return op;
}

inline void moves(Operator& op, std::int64_t forward, std::int64_t backward, int forward_kernels,
                  int backward_kernels) {
  op.forward_moved = Bytes(forward);
  op.backward_moved = Bytes(backward);
  op.forward_kernels = forward_kernels;
  op.backward_kernels = backward_kernels;
}

// Y[m, n] = X[m, k] W[k, n] (+ bias), `gemm` being this rank's part.
struct Linear {
  const char* name = "";
  Module module = Module::mlp;
  TensorRole role = TensorRole::none;
  Gemm gemm;
  std::int64_t bias = 0;  // elements of the bias on this rank
  std::int64_t element = 2;
  int launches = 1;  // separate GEMMs that the framework launches for this one (such as q, k and v)
};
Operator linear(const Linear& l);
Node add_linear(Builder& b, const Linear& l, Node from, const Tensor& input);

// A product of two activations in a sequence mixer: no weights.
Node add_product(Builder& b, const char* name, const Gemm& g, Node from);

// norm.cpp. A norm of `rows` of `width` elements each; sets `output` to its result.
Node add_norm(Builder& b, const char* name, Module module, std::int64_t rows, std::int64_t width,
              std::int64_t parameters, Node from, const Tensor& input, const Tensor& output);
// Sets the bytes that a norm moves and the tensors that it keeps.
void describe_norm(Builder& b, Operator& op, std::int64_t elements, const Tensor& input);
// The same of a norm without weights, which frameworks write in Python even where others are fused.
void describe_plain_norm(Builder& b, Operator& op, std::int64_t elements, const Tensor& input);
// Whether the norm of that name is written in Python, kernel by kernel.
bool eager_norm(const Builder& b, std::string_view name);
// The bytes that such a norm moves where an element of its input has `e` bytes and of what the
// weight multiplies `w`.
void move_eager_norm(Operator& op, std::int64_t elements, std::int64_t e, std::int64_t w);
// (Bias +) (dropout +) residual: `bias` elements of the preceding row-parallel linear's bias.
Node add_residual(Builder& b, const char* name, Module module, std::int64_t bias, Node branch,
                  Node skip);

// attention_window.cpp. Heads of a layer over all ranks; window layers may differ from the others.
struct HeadShape {
  int heads = 0;
  int kv_heads = 0;
  int qk_dim = 0;
  int v_dim = 0;
  bool keys_as_values = false;  // values have no projection of their own
  bool shares_kv = false;       // keys and values are an earlier layer's
};
HeadShape head_shape(const job::Model& model, const LayerKind& kind);
// Columns of the projections of queries, keys and values over all ranks.
std::int64_t qkv_width(const HeadShape& all);

// attention_ranks.cpp. Heads of a layer on one of `tensor` ranks. gathered: several ranks share a
// key-value head.
struct RankHeads {
  int heads = 0;
  int kv_heads = 0;
  bool gathered = false;
};
RankHeads rank_heads(const HeadShape& all, int tensor);
// Gathers the ranks' parts of the projection, each of `part_width` columns, behind `node`, which
// becomes the gather. The result is whole on each rank, which reads `own_width` columns of it: its
// queries, and the keys and values of one head.
Tensor add_gathered_qkv(Builder& b, Node& node, std::int64_t part_width, const HeadShape& all,
                        std::int64_t own_width);
// Whether fused attention of a layer is given a mask (transformers 5.23.0, masking_utils.py:267,
// _ignore_causal_mask_sdpa).
bool takes_mask(const Builder& b, const LayerKind& kind, int qk_dim, int v_dim);
// Limits a shape to the window of a window layer.
void apply_window(const Builder& b, AttentionShape& shape);
// A sigmoid gate on `width` columns; `output` becomes the gated tensor.
Node add_gate(Builder& b, const char* name, std::int64_t width, Node from, Tensor& output);

// The next functions add one block each, from the normed input to the output of its last linear.
// `input` is the normed tensor.
Node add_attention(Builder& b, Node from, const Tensor& input);
Node add_mla(Builder& b, Node from, const Tensor& input);
// Core attention: scores, softmax, dropout, context, or one fused kernel. `output` is the tensor
// that the output projection reads.
struct CoreAttention {
  int heads = 0;
  int kv_heads = 0;
  int qk_dim = 0;
  int v_dim = 0;
};
// Whether one fused kernel computes it.
bool fuses_core(const Builder& b, int qk_dim, int v_dim);
Node add_core_attention(Builder& b, const CoreAttention& shape, Node from, const Tensor& qkv,
                        const Tensor& output);
// The same for any shape, causal or not.
Node add_core(Builder& b, const AttentionShape& shape, Node from, const Tensor& qkv,
              const Tensor& output);
// cross.cpp: attention of a decoder to the encoder's output.
Node add_cross(Builder& b, Node from, const Tensor& input);
// indexer.cpp: scores that choose each query's keys, before the attention itself.
Node add_indexer(Builder& b, Node from, const Tensor& input);
// compressed.cpp: attention of DeepSeek-V4.
Node add_compressed(Builder& b, Node from, const Tensor& input);
// attention.cpp: the core of attention whose fused kernels take a list of keys, so many for a
// query.
Node add_listed_core(Builder& b, const AttentionShape& shape, std::int64_t listed, Node from,
                     const Tensor& qkv, const Tensor& output);
Node add_delta_net(Builder& b, Node from, const Tensor& input);
Node add_mamba(Builder& b, Node from, const Tensor& input);
Node add_mlp(Builder& b, Module module, std::int64_t ffn, Node from, const Tensor& input);
Node add_moe(Builder& b, Node from, const Tensor& input);
// A tensor and the operator that makes it.
struct Stream {
  Node node = outside;
  Tensor tensor;
};
// The same where the router reads the residual stream, the routed experts a norm of it and the
// shared ones another (job::Moe::branch_norms).
Node add_moe(Builder& b, const Stream& stream, const Stream& routed, const Stream& shared);

// Bounds `elements` scores or logits by tanh, in kernels of its own.
Node add_softcap(Builder& b, const char* name, Module module, std::int64_t elements, Node from);

// The activation is gelu_new, composed of eight kernels (job::System::composed_gelu).
bool composes_gelu(const Builder& b);
// The first factor of such an activation, and what a composed ReLU2 squares, by which autocast
// finds them.
inline constexpr const char* kHalf = "half";
inline constexpr const char* kSquared = "squared";
// Norms over each head's query and key, or over all of them at once.
inline constexpr const char* kQkNorm = "qk_norm";
// The activation between the two linears, on rows x width elements, gated or not.
Operator activation(Builder& b, const char* name, Module module, std::int64_t rows,
                    std::int64_t width, std::int64_t bias, const Tensor& input,
                    const Tensor& output);

// hyper.cpp: several residual streams. What a layer's input is.
Tensor streams_of(Builder& b);
// What a block reads of the streams, and the weights with which they are written.
struct StreamsRead {
  Stream read;
  Stream weights;
};
StreamsRead add_streams_read(Builder& b, const std::string& name, const Stream& streams);
// The streams behind the block whose last node is `block`.
Stream add_streams_write(Builder& b, const std::string& name, Node block, const Stream& weights,
                         const Stream& streams);
Node add_streams_start(Builder& b, Node from);
Stream add_streams_end(Builder& b, const Stream& streams);

// residuals.cpp: attention over the streams with which blocks of layers began.
Stream add_residual_mix(Builder& b, const std::string& name, int blocks, const Stream& stream);
Node add_block_start(Builder& b, Node from);
// layer_embedding.cpp: what a token's embedding for the layer adds, and the table ahead of all
// layers.
Stream add_layer_embedding(Builder& b, const Stream& stream);
Node add_layer_tables(Builder& b, Node from);

// prediction.cpp: the input of a multi-token prediction layer, from the residual stream and the
// next tokens' embeddings.
Node add_prediction_input(Builder& b);
// embedding.cpp: the lookup. The parameters of a `shared` table are counted elsewhere.
Node add_word_embedding(Builder& b, const char* name, bool shared, Node from = outside);
// head.cpp: final norm, output projection (shared with the model's in a prediction layer), loss.
Node add_head(Builder& b, Node from, const Tensor& input);

// finetune.cpp: freezes the base of the graph and adds adapters, where the style asks for
// them.
void adapt(Builder& b);

// autocast.cpp: the residual stream in fp32 and 16-bit copies of what products read, where the
// style asks for them.
void run_under_autocast(Builder& b);

// Number of parameter vectors of a norm.
inline std::int64_t norm_width(const job::Model& m) { return norm_vectors(m.norm); }

inline std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

}  // namespace stepcast::model
