// Attention of DeepSeek-V4 to a window and to entries that stand for several tokens each
// (transformers 5.24.0, models/deepseek_v4/modeling_deepseek_v4.py:765, DeepseekV4Attention;
// nemo-automodel 0.7.0, components/models/deepseek_v4/layers.py and flops.py). One head of D
// dimensions is key and value of all H query heads. Queries come through a latent, the result
// leaves in groups of heads that are projected to one each.
//
// Layers c (compressed sparse attention): an entry of each m tokens is a softmax-weighted sum of 2
// m tokens' projections, each token having one for its own entry and one for the next; an indexer,
// whose own entries are made likewise, chooses a query's k best ones. Layers h (heavily
// compressed): an entry of each m' tokens, and queries attend to all earlier ones. Layers w: the
// window alone.
//
// LAW  a query at position p, counted from one, scores min(p, w) keys of the window w, and
//      min(floor(p / m), k) or floor(p / m') entries: 4 H D FLOPs each. The indexer scores floor(p
//      / m) entries with 2 H_i d_i FLOPs and has no gradient: its choice is a top-k (flops.py:37).
//
// The rotation of entries, of T / m rows, and reductions of the sinks' gradient are left out.
#include <algorithm>

#include "builder.h"
#include "stepcast/model/count.h"

namespace stepcast::model {
namespace {

constexpr std::int64_t kWide = 4;  // bytes of fp32

Operator product_of(const Builder& b, const char* name, std::int64_t n, std::int64_t k) {
  return linear(
      {name, Module::attention, TensorRole::none, {b.local_tokens, n, k, 1}, 0, b.element, 1});
}

void without_gradient(Operator& op) {
  op.forward_only = true;
  op.input_grad = op.weight_grad = Flops(0);
  op.backward_moved = Bytes(0);
  op.backward_kernels = 0;
  op.backward_temporary = Bytes(0);
  op.saved.clear();
}

// How entries are made of tokens.
struct Entries {
  const char* project;
  const char* pool;
  const char* norm;
  std::int64_t rate = 1;   // tokens of an entry
  std::int64_t width = 0;  // its elements
  bool overlaps = false;   // with the one before
  bool learns = true;
};

// The sum over an entry's tokens of what they project to, weighted by a softmax over as many gates
// with a bias for each place, in fp32. Overlapping entries are first laid out whole, in zeros.
Operator pool_of(Builder& b, const Entries& entries, std::int64_t rows) {
  const std::int64_t e = b.element;
  const std::int64_t columns = (entries.overlaps ? 2 : 1) * entries.width;
  const std::int64_t elements = b.local_tokens * columns;
  const std::int64_t result = rows * entries.width * e;
  Operator op = named(entries.pool, OpKind::elementwise, Module::attention);
  op.parameters = entries.rate * columns;
  op.forward_output = Bytes(result);
  if (b.style.compiled) {
    moves(op, 2 * elements * e + result, 4 * elements * e + result, 1, 2);
    keep(op, "values", b.tensor(elements * e));
    keep(op, "gates", b.tensor(elements * e));
    return op;
  }
  // Forward: the bias is added, which makes gates fp32; softmax; its cast; the product; the sum.
  // Backward: both gradients of the product; the cast; softmax in two kernels; the bias' sum; the
  // cast.
  std::int64_t forward = (e + kWide) + 2 * kWide + (kWide + e) + 3 * e + e;
  std::int64_t backward = 2 * 3 * e + (e + kWide) + 6 * kWide + kWide + (kWide + e);
  int kernels = 5;
  int back = 8;
  if (entries.overlaps) {  // both tensors are filled, and halves copied; their gradients' halves
                           // joined
    forward += e + 2 * e + kWide + 2 * kWide;
    backward += 2 * (e + kWide) + 3 * (e + kWide);
    kernels += 2 + 4;
    back += 4 + 2;
  }
  moves(op, elements * forward, elements * backward, kernels, back);
  op.forward_singles = {2 * elements, elements * (e + kWide + kWide + e)};
  op.backward_singles = {2 * elements, elements * 2 * (e + kWide)};
  op.forward_temporary = Bytes(elements * kWide);
  op.backward_temporary = Bytes(2 * elements * kWide);
  op.largest_temporary = Bytes(elements * kWide);
  keep(op, "values", b.tensor(elements * e));
  keep(op, "softmax_fp32", b.tensor(elements * kWide));
  keep(op, "weights", b.tensor(elements * e));
  return op;
}

// The entries' norm is the last node; `output` is its result.
Node add_entries(Builder& b, const Entries& entries, Node from, const Tensor& input,
                 Tensor& output) {
  const std::int64_t columns = (entries.overlaps ? 2 : 1) * entries.width;
  const std::int64_t rows = b.shard.sequences * (b.sequence / entries.rate);
  Operator project = product_of(b, entries.project, 2 * columns, b.hidden);
  project.forward_kernels = 2;  // values and gates
  project.backward_kernels = 4;
  project.columns = {columns, columns};
  keep(project, "input", input);
  Operator pool = pool_of(b, entries, rows);
  const Tensor pooled = b.tensor(pool.forward_output.count());
  output = b.tensor(pooled.bytes);
  if (!entries.learns) {
    without_gradient(project);
    without_gradient(pool);
  }
  const Node pools = b.add(std::move(pool), {b.add(std::move(project), {from})});
  const Node node = add_norm(b, entries.norm, Module::attention, rows, entries.width,
                             norm_width(b.model) * entries.width, pools, pooled, output);
  if (!entries.learns) {
    without_gradient(b.graph.operators.back());
  }
  return node;
}

// The scores of all queries' heads and entries, causal or not.
Node add_eager_scores(Builder& b, const AttentionShape& shape, std::initializer_list<Node> from) {
  const Gemm g{shape.query_length * shape.heads, shape.key_length, shape.qk_dim, shape.sequences};
  Operator op = named("index_scores", OpKind::batched_gemm, Module::attention);
  op.gemm = g;
  op.forward = Flops(2.0 * static_cast<double>(g.m) * static_cast<double>(g.n) *
                     static_cast<double>(g.k) * static_cast<double>(g.batch));
  moves(op, g.batch * ((g.m + g.n) * g.k * b.element + g.m * g.n * kWide), 0, 1, 0);
  op.forward_output = Bytes(kWide * g.batch * g.m * g.n);
  without_gradient(op);
  return b.add(std::move(op), from);
}

// The indexer of a layer c reads the queries' latent `latent` and the layer's input, and has no
// gradient.
Node add_entry_indexer(Builder& b, Node from, const Tensor& input, Node latent) {
  const job::Indexer& x = *b.model.indexer;
  const job::CompressedAttention& c = *b.model.compressed;
  const std::int64_t e = b.element;
  const std::int64_t width = static_cast<std::int64_t>(x.heads) * x.dim;
  const auto alone = [&](Operator op, std::initializer_list<Node> reads) {
    without_gradient(op);
    return b.add(std::move(op), reads);
  };
  Tensor keys;
  const Node entries = add_entries(
      b, {"index_entries", "index_pool", "index_norm", c.sparse_rate, x.dim, true, false}, from,
      input, keys);
  const Node queries = alone(product_of(b, "index_q", width, c.q_lora_rank), {latent});
  const Node weights = alone(product_of(b, "index_weights", x.heads, b.hidden), {from});

  AttentionShape shape;
  shape.sequences = b.shard.sequences;
  shape.query_length = b.sequence;
  shape.key_length = std::max<std::int64_t>(1, b.sequence / c.sparse_rate);
  shape.heads = x.heads;
  shape.kv_heads = 1;
  shape.qk_dim = x.dim;
  shape.v_dim = 0;
  shape.causal = false;  // `share` counts what a query sees
  const double scored = entry_pairs(b.sequence, c.sparse_rate, b.sequence);
  shape.share = scored / attention_pairs(shape);
  const double pairs = static_cast<double>(shape.sequences) * scored;
  const bool eager = b.style.attention == job::AttentionKernel::unfused;
  const std::int64_t square = shape.sequences * shape.query_length * shape.key_length;
  const std::int64_t bytes = eager ? kWide * square : static_cast<std::int64_t>(kWide * pairs);
  Node scored_by = outside;
  if (eager) {
    scored_by = add_eager_scores(b, shape, {entries, queries});
    Operator weigh = named("index_sum", OpKind::elementwise, Module::attention);
    // Rectified, scaled, weighted and summed over heads, in fp32 (modeling_deepseek_v4.py:467).
    moves(weigh, x.heads * square * 7 * kWide + bytes, 0, 4, 0);
    weigh.forward_output = Bytes(bytes);
    scored_by = alone(std::move(weigh), {scored_by, weights});
  } else {
    Operator scores = named("index_scores", OpKind::fused_attention, Module::attention);
    scores.attention = shape;
    scores.forward = Flops(2.0 * pairs * static_cast<double>(width));
    moves(scores, b.tokens * width * e + keys.bytes + bytes, 0, 1, 0);
    scores.forward_output = Bytes(bytes);
    scored_by = alone(std::move(scores), {entries, queries, weights});
  }
  Operator choose = named("index_top_k", OpKind::softmax, Module::attention);
  moves(choose, 2 * bytes, 0, 2, 0);
  choose.forward_output = Bytes(4 * b.tokens * std::min<std::int64_t>(x.topk, shape.key_length));
  return alone(std::move(choose), {scored_by});
}

// The core. `entries` stand behind the keys of the sequence. Its fused kernels (tilelang, FlashMLA)
// take lists of keys and heads as wide as these; torch's eager one scores every key and entry.
Node add_entry_core(Builder& b, std::int64_t entries, Node from, const Tensor& qkv,
                    const Tensor& output) {
  AttentionShape shape;
  shape.sequences = b.shard.sequences;
  shape.query_length = b.sequence;
  shape.key_length = b.sequence + entries;
  shape.heads = b.model.heads;
  shape.kv_heads = 1;
  shape.qk_dim = shape.v_dim = b.model.head_dim;
  shape.causal = false;  // `share` counts what a query sees
  const double pairs = compressed_pairs(b.model, b.kind, b.sequence);
  shape.share = pairs / attention_pairs(shape);
  const bool sparse = b.kind.mixer == LayerKind::Mixer::compressed;
  const std::int64_t listed =
      std::min(b.sequence, b.model.sliding_window) +
      (sparse ? std::min<std::int64_t>(b.model.indexer->topk, entries) : entries);
  return add_listed_core(b, shape, listed, from, qkv, output);
}

}  // namespace

double entry_pairs(std::int64_t length, std::int64_t rate, std::int64_t most) {
  // Of the queries that see fewer than `most` entries, `rate` see each number of them.
  const std::int64_t prefix = std::min(length, rate * most);
  const auto groups = static_cast<double>(prefix / rate);
  const auto rest = static_cast<double>(prefix % rate);
  return static_cast<double>(rate) * groups * (groups - 1) / 2 + groups * (rest + 1) +
         static_cast<double>(length - prefix) * static_cast<double>(most);
}

double compressed_pairs(const job::Model& model, const LayerKind& kind, std::int64_t length) {
  const job::CompressedAttention& c = *model.compressed;
  const auto window = static_cast<double>(std::min(length, model.sliding_window));
  const double near = window * (window + 1) / 2 + (static_cast<double>(length) - window) * window;
  switch (kind.mixer) {
    case LayerKind::Mixer::compressed:
      return near + entry_pairs(length, c.sparse_rate, model.indexer->topk);
    case LayerKind::Mixer::heavily_compressed:
      return near + entry_pairs(length, c.heavy_rate, length);
    default:
      return near;
  }
}

Node add_compressed(Builder& b, Node from, const Tensor& input) {
  using Mixer = LayerKind::Mixer;
  const job::CompressedAttention& c = *b.model.compressed;
  const std::int64_t e = b.element;
  const std::int64_t dim = b.model.head_dim;
  const std::int64_t heads = b.model.heads;
  const auto rows = [&](std::int64_t width) { return b.tensor(b.tokens * width * e); };

  const Tensor down = rows(c.q_lora_rank);
  const Tensor normed = rows(c.q_lora_rank);
  Operator query = product_of(b, "q_down", c.q_lora_rank, b.hidden);
  keep(query, "input", input);
  const Node latent =
      add_norm(b, "q_norm", Module::attention, b.tokens, c.q_lora_rank,
               norm_width(b.model) * c.q_lora_rank, b.add(std::move(query), {from}), down, normed);
  Operator up = product_of(b, "q_up", heads * dim, c.q_lora_rank);
  keep(up, "input", normed);
  const Tensor wide = rows(heads * dim);
  Operator each =
      named("q_head_norm", OpKind::norm, Module::attention);  // of every head, without weights
  if (b.style.fused_streams) {
    moves(each, 2 * wide.bytes, 3 * wide.bytes, 1, 1);
    keep(each, "input", wide);
  } else {
    describe_plain_norm(b, each, b.tokens * heads * dim, wide);
  }
  each.forward_output = Bytes(wide.bytes);
  const Node queries = b.add(std::move(each), {b.add(std::move(up), {latent})});

  Operator project = product_of(b, "kv_down", dim, b.hidden);
  keep(project, "input", input);
  const Node key =
      add_norm(b, "kv_norm", Module::attention, b.tokens, dim, norm_width(b.model) * dim,
               b.add(std::move(project), {from}), rows(dim), rows(dim));

  // Heads are copied with their rotated parts (modeling_deepseek_v4.py:353; nemo-automodel's
  // layers.py:168).
  const bool fused = b.style.fused_rotary || b.style.compiled;
  const std::int64_t turned = b.tokens * (heads + 1) * c.rope_dim * e;
  const std::int64_t copied = b.tokens * (heads + 1) * dim * e;
  const std::int64_t turning = fused ? 2 * turned : 10 * turned + 2 * copied;
  Operator rotary = named("rotary", OpKind::rotary, Module::attention);
  moves(rotary, turning, turning, fused ? 2 : 12, fused ? 2 : 20);
  rotary.forward_output = Bytes(copied);
  Node joined = b.add(std::move(rotary), {queries, key});

  std::int64_t entries = 0;
  if (b.kind.mixer == Mixer::compressed || b.kind.mixer == Mixer::heavily_compressed) {
    const bool sparse = b.kind.mixer == Mixer::compressed;
    const int rate = sparse ? c.sparse_rate : c.heavy_rate;
    entries = b.sequence / rate;
    Tensor made;
    Node node = add_entries(b, {"entries", "entry_pool", "entry_norm", rate, dim, sparse, true},
                            from, input, made);
    const Node chosen = sparse ? add_entry_indexer(b, from, input, latent) : node;
    Operator join = named("entry_join", OpKind::elementwise, Module::attention);
    const std::int64_t all = b.tokens * dim * e + made.bytes;
    moves(join, 2 * all, 2 * all, 1, 1);
    join.forward_output = Bytes(all);
    joined = b.add(std::move(join), {joined, node, chosen});
  }
  const Tensor qkv = b.tensor((b.tokens * (heads + 1) + b.shard.sequences * entries) * dim * e);
  keep(b.graph.operators.back(), "output", qkv);
  const Tensor output = rows(heads * dim);
  Node node = add_entry_core(b, entries, joined, qkv, output);

  // Values were rotated as keys; their sum is turned back.
  const std::int64_t back = b.tokens * heads * c.rope_dim * e;
  const std::int64_t turning_back = fused ? 2 * back : 10 * back + 2 * output.bytes;
  Operator unrotary = named("output_rotary", OpKind::rotary, Module::attention);
  moves(unrotary, turning_back, turning_back, fused ? 1 : 6, fused ? 1 : 10);
  unrotary.forward_output = Bytes(output.bytes);
  node = b.add(std::move(unrotary), {node});

  const std::int64_t latents = static_cast<std::int64_t>(c.o_groups) * c.o_lora_rank;
  Operator grouped = linear({"out_down",
                             Module::attention,
                             TensorRole::none,
                             {b.tokens, c.o_lora_rank, heads * dim / c.o_groups, c.o_groups},
                             0,
                             e,
                             1});
  grouped.kind = OpKind::gemm;  // of each group of heads; no experts'
  keep(grouped, "input", rows(heads * dim));
  node = b.add(std::move(grouped), {node});
  Operator out = product_of(b, "out", b.hidden, latents);
  keep(out, "input", rows(latents));
  return b.add(std::move(out), {node});
}

}  // namespace stepcast::model
