// Bytes moved by one GPT layer, counted by hand, and what fusion may and may not change.
#include <algorithm>
#include <map>

#include "catch.hpp"
#include "models.h"
#include "operators.h"
#include "stepcast/model/operators.h"

using namespace stepcast;
using test::find;

namespace {

model::Shard shard(std::int64_t b, std::int64_t s, int t, bool sequence_parallel) {
  model::Shard r;
  r.sequences = b;
  r.sequence_length = s;
  r.tensor = t;
  r.sequence_parallel = sequence_parallel;
  return r;
}

struct Sums {
  std::int64_t forward = 0, backward = 0, saved = 0;
  int forward_kernels = 0, backward_kernels = 0;
};

Sums sums(const model::OperatorGraph& g) {
  Sums s;
  std::map<std::uint32_t, std::int64_t> storages;
  for (const auto& op : g.operators) {
    s.forward += op.forward_moved.count();
    s.backward += op.backward_moved.count();
    s.forward_kernels += op.forward_kernels;
    s.backward_kernels += op.backward_kernels;
    for (const auto& kept : op.saved) {
      storages[kept.storage] = kept.bytes.count();
    }
  }
  for (const auto& [storage, bytes] : storages) {
    s.saved += bytes;
  }
  return s;
}

}  // namespace

TEST_CASE("Each kernel of a GPT layer reads and writes every tensor once") {
  // GPT 22B of Korthikanti et al.: h 6144, a 64, s 2048, b 4, t 8; fp16, masks of one byte.
  auto m = test::gpt("gpt-22b", 48, 6144, 64, 51200, 2048);
  m.dropout = 0.1;
  model::Style style;
  style.dtype = job::DType::fp16;
  style.attention = job::AttentionKernel::unfused;
  const auto g = model::build_layer(m, model::LayerKind::dense, shard(4, 2048, 8, false), style);
  const std::int64_t tokens = 4 * 2048;
  const std::int64_t x = 2 * tokens * 6144;
  const std::int64_t scores = 4 * 64 / 8 * 2048LL * 2048;
  CHECK(find(g, "attention_norm").forward_moved == Bytes(2 * x));
  CHECK(find(g, "attention_norm").backward_moved == Bytes(3 * x));
  CHECK(find(g, "softmax").forward_moved == Bytes(4 * scores));
  CHECK(find(g, "softmax").backward_moved == Bytes(6 * scores));
  CHECK(find(g, "attn_dropout").forward_moved == Bytes(5 * scores));
  CHECK(find(g, "attn_dropout").backward_moved == Bytes(5 * scores));
  CHECK(find(g, "activation").forward_moved == Bytes(2 * 2 * tokens * 24576 / 8));
  // Reads the branch and the residual, writes the sum and the mask.
  CHECK(find(g, "attention_residual").forward_moved == Bytes(3 * x + x / 2));
  CHECK(find(g, "attention_residual").forward_kernels == 1);
  CHECK(find(g, "qkv").forward_moved ==
        Bytes(2 * (tokens * 6144 + 6144 * 3 * 6144 / 8 + tokens * 3 * 6144 / 8)));

  const model::Gemm qkv = *find(g, "qkv").gemm;
  CHECK(qkv.m == tokens);
  CHECK(qkv.n == 3 * 6144 / 8);
  CHECK(qkv.k == 6144);
  const model::Gemm product = *find(g, "scores").gemm;
  CHECK(product.batch == 4 * 64 / 8);
  CHECK(product.m == 2048);
  CHECK(product.n == 2048);
  CHECK(product.k == 96);
  CHECK(find(g, "context").gemm->n == 96);
  CHECK(find(g, "fc2").gemm->k == 24576 / 8);
}

TEST_CASE("Autograd's backward of an RMS norm in Python moves 92 bytes an element in 16 bits") {
  model::Style eager;
  eager.fused_norm = false;
  const auto g = model::build_layer(test::llama3_8b(), model::LayerKind::dense,
                                    shard(1, 1024, 1, false), eager);
  const std::int64_t elements = 1024 * 4096;
  // Weight (8 + 4), cast (6), scaling (8, 12, 4), mean (4), square (8, 8, 12), sum (12), cast (6).
  CHECK(find(g, "attention_norm").backward_moved == Bytes(92 * elements));
  // To fp32 (6), square (8), mean (4), scaling (8), from fp32 (6), weight (4).
  CHECK(find(g, "attention_norm").forward_moved == Bytes(36 * elements));
  // Of these kernels the upcast and both products with a factor that is broadcast have no vectors.
  CHECK(find(g, "attention_norm").forward_singles.elements == 3 * elements);
  CHECK(find(g, "attention_norm").forward_singles.moved == (6 + 8 + 4) * elements);
  CHECK(find(g, "attention_norm").backward_singles.elements == 5 * elements);
}

static model::Operator rotary_of(const model::Style& style) {
  return find(model::build_layer(test::llama3_8b(), model::LayerKind::dense,
                                 shard(1, 1024, 1, false), style),
              "rotary");
}

TEST_CASE("A rotation by eager operators takes elements one by one, unless a compiler fuses it") {
  model::Style eager;
  eager.fused_rotary = false;
  const std::int64_t elements = 1024 * (4096 + 1024);
  // Half of them negated, then all concatenated, multiplied twice and added.
  CHECK(rotary_of(eager).forward_singles.elements == elements / 2 + 4 * elements);
  eager.complex_rotary = true;
  CHECK(rotary_of(eager).forward_singles.elements == elements + elements / 2);  // upcast, pairs
  eager.compiled = true;
  CHECK(rotary_of(eager).forward_singles.elements == elements / 2);
  eager.complex_rotary = false;
  CHECK(rotary_of(eager).forward_singles.elements == 0);
}

// megatron-core 0.16.1, models/common/embeddings/rope_utils.py:122.
TEST_CASE("Tables of a rotation that each layer makes are kernels of their own") {
  model::Style eager;
  eager.fused_rotary = false;
  const model::Operator given = rotary_of(eager);
  CHECK(given.table == Bytes(0));
  eager.rotary_tables_anew = true;
  const model::Operator made = rotary_of(eager);
  CHECK(made.table == Bytes(2 * 1024 * 128));  // each of the four
  CHECK(made.forward_kernels == given.forward_kernels + 4 * 3);
  CHECK(made.forward_moved - given.forward_moved == Bytes(4 * 1024 * 128 * (8 + 8 + 6)));
  CHECK(made.backward_moved == given.backward_moved);
}

// torchtune 0.6.1, modules/position_embeddings.py:102: for queries and for keys a cast, four
// products, a difference, a sum, a stack, a cast; backward, the products also fill and copy zeros.
TEST_CASE("A rotation of pairs casts to fp32, takes every second number and stacks") {
  model::Style eager;
  eager.fused_rotary = false;
  eager.paired_rotary = true;
  const model::Operator op = find(model::build_layer(test::llama3_8b(), model::LayerKind::dense,
                                                     shard(1, 1024, 1, false), eager),
                                  "rotary");
  const std::int64_t elements = 1024 * (4096 + 1024);
  CHECK(op.forward_kernels == 2 * (1 + 4 + 2 + 1 + 1));
  CHECK(op.backward_kernels == 2 * (1 + 4 + 1 + 2 * 4 + 3 + 1));
  // Casts (6 each), products (4 of 4 + 2), difference and sum (2 of 6), the stack (8).
  CHECK(op.forward_moved == Bytes((12 + 24 + 12 + 8) * elements));
  // Casts, products (3 of 6 and one of 4), the negation (6), zeros (4 of 4), copies (4 of 6), sums
  // (3 of 12).
  CHECK(op.backward_moved == Bytes((12 + 22 + 6 + 16 + 24 + 36) * elements));
  CHECK(op.forward_singles.elements == 3 * elements);
  CHECK(op.backward_singles.elements == elements + 9 * elements / 2);
  CHECK(op.rotation == model::Operator::Rotation::pairs);
}

// Kernel by kernel as an H100 ran them (tests/oracle/gpu, one-8b-l4-eager-norm).
TEST_CASE("Under autocast an RMS norm in Python reads fp32 and casts nothing") {
  model::Style eager;
  eager.fused_norm = false;
  eager.autocast = true;
  const auto g = model::build_layer(test::llama3_8b(), model::LayerKind::dense,
                                    shard(1, 1024, 1, false), eager);
  const std::int64_t elements = 1024 * 4096;
  // Square (8), mean (4), scaling (8), weight (8).
  CHECK(find(g, "attention_norm").forward_moved == Bytes(28 * elements));
  // Weight (12 + 4 + 8), scaling (8, 12, 4), mean (4), square (8, 8, 12), sum (12).
  CHECK(find(g, "attention_norm").backward_moved == Bytes(92 * elements));
}

TEST_CASE("Dropout of probabilities in torch keeps fp32, its result and a mask; not what it read") {
  auto m = test::llama3_8b();
  model::Style torch;
  torch.attention = job::AttentionKernel::unfused;
  torch.fused_softmax = false;
  const auto layer = [&] {
    return sums(model::build_layer(m, model::LayerKind::dense, shard(1, 1024, 1, false), torch));
  };
  const std::int64_t scores = 32 * 1024LL * 1024;
  const std::int64_t residual_masks = 2 * 1024 * 4096;
  const std::int64_t without = layer().saved;
  m.dropout = 0.1;
  CHECK(layer().saved == without + scores + residual_masks);
  torch.fused_softmax = true;
  const std::int64_t fused = layer().saved;
  m.dropout = 0;
  CHECK(fused == layer().saved + 3 * scores + residual_masks);
}

// megatron-core 0.16.1, fusions/fused_softmax.py:299 (forward_torch_softmax): a cast, a fill in
// place, softmax and a cast; backward, a cast, a product and softmax, a copy and its fill, a cast.
TEST_CASE("Megatron's eager softmax stands kernel by kernel and keeps fp32 and its narrow copy") {
  auto m = test::gpt("gpt-22b", 48, 6144, 64, 51200, 2048);
  model::Style style;
  style.attention = job::AttentionKernel::unfused;
  style.fused_softmax = false;
  const auto saved = [&] {
    return sums(model::build_layer(m, model::LayerKind::dense, shard(1, 2048, 8, false), style))
        .saved;
  };
  const std::int64_t in_one = saved();
  style.widens_scores_first = true;
  const auto g = model::build_layer(m, model::LayerKind::dense, shard(1, 2048, 8, false), style);
  const std::int64_t mask = 2048LL * 2048;
  const std::int64_t scores = 64 / 8 * mask;
  const auto& widened = find(g, "widened_scores");
  CHECK(widened.forward_moved == Bytes((2 + 4 + 4 + 4) * scores + mask));
  CHECK(widened.backward_moved == Bytes((4 + 4 + 4 + 4 + 4 + 2) * scores + mask));
  CHECK(widened.forward_output == Bytes(4 * scores));
  CHECK(find(g, "softmax").forward_moved == Bytes(8 * scores));
  CHECK(find(g, "softmax").backward_moved == Bytes((4 + 4 + 4 + 4 + 4 + 4) * scores));
  CHECK(find(g, "narrowed_softmax").forward_moved == Bytes(6 * scores));
  CHECK(saved() == in_one);
}

TEST_CASE("Sequence parallelism divides what norms, dropout and residuals move") {
  auto m = test::gpt("gpt-22b", 48, 6144, 64, 51200, 2048);
  m.dropout = 0.1;
  const model::Style style;
  const auto whole =
      model::build_layer(m, model::LayerKind::dense, shard(4, 2048, 8, false), style);
  const auto cut = model::build_layer(m, model::LayerKind::dense, shard(4, 2048, 8, true), style);
  for (const char* name : {"attention_norm", "attention_residual", "mlp_norm", "mlp_residual"}) {
    INFO(name);
    CHECK(find(whole, name).forward_moved == find(cut, name).forward_moved * 8);
    CHECK(find(whole, name).backward_moved == find(cut, name).backward_moved * 8);
  }
  for (const char* name : {"qkv", "core_attention", "out", "fc1", "activation", "fc2"}) {
    INFO(name);
    CHECK(find(whole, name).forward_moved == find(cut, name).forward_moved);
  }
}

TEST_CASE("A fused softmax that asks for fours falls back to separate kernels") {
  const auto m = test::gpt("gpt", 2, 1024, 16, 51200, 2048);
  const auto moved = [&](int keys, std::int64_t sequences, std::int64_t length, int tensor,
                         bool fused) {
    model::Style style;
    style.attention = job::AttentionKernel::unfused;
    style.fused_softmax = fused;
    style.fused_softmax_keys = keys;
    const auto s = sums(model::build_layer(m, model::LayerKind::dense,
                                           shard(sequences, length, tensor, false), style));
    return std::pair(s.forward, s.saved);
  };
  // Sequences, length, tensor ranks of 16 heads, and whether Megatron-LM's kernel of 2048 keys
  // runs.
  for (const auto& [sequences, length, tensor, runs] : {std::tuple{1, 1024, 4, true},
                                                        {1, 1024, 8, false},
                                                        {2, 1024, 8, true},
                                                        {3, 1024, 8, false},
                                                        {4, 1024, 16, true},
                                                        {1, 2048, 1, true},
                                                        {1, 2052, 1, false},
                                                        {1, 1022, 1, false}}) {
    INFO(sequences << " of " << length << " tokens, " << tensor << " tensor ranks");
    CHECK((moved(2048, sequences, length, tensor, true) ==
           moved(0, sequences, length, tensor, true)) == runs);
    CHECK((moved(2048, sequences, length, tensor, true) ==
           moved(0, sequences, length, tensor, false)) == !runs);
  }
}

TEST_CASE("Fusing moves fewer bytes, launches fewer kernels and keeps no more") {
  auto gpt = test::gpt("gpt", 4, 1024, 16, 51200, 2048);
  gpt.dropout = 0.1;
  for (const auto& m : {gpt, test::llama3_8b(), test::mixtral_8x7b()}) {
    INFO(m.name);
    const auto kind = m.moe ? model::LayerKind::moe : model::LayerKind::dense;
    model::Style fused;
    fused.attention = job::AttentionKernel::unfused;
    const Sums base = sums(model::build_layer(m, kind, shard(2, 1024, 1, false), fused));
    const auto compare = [&](bool model::Style::*flag, bool matters) {
      model::Style eager = fused;
      eager.*flag = false;
      const Sums s = sums(model::build_layer(m, kind, shard(2, 1024, 1, false), eager));
      CHECK(s.forward >= base.forward);
      CHECK(s.backward >= base.backward);
      CHECK(s.saved >= base.saved);
      CHECK((s.forward_kernels > base.forward_kernels) == matters);
      CHECK((s.forward > base.forward) == matters);
    };
    const bool is_gpt = m.norm == job::Norm::layer;
    compare(&model::Style::fused_norm, !is_gpt);  // PyTorch's LayerNorm is one kernel
    compare(&model::Style::fused_softmax, true);
    compare(&model::Style::fused_bias_activation, true);
    compare(&model::Style::fused_bias_dropout_add,
            is_gpt);  // nothing except the addition without bias and dropout
    compare(&model::Style::fused_rotary, !is_gpt);
    // Compiled eager code moves no more bytes than hand-fused code.
    model::Style compiled = fused;
    compiled.fused_norm = compiled.fused_softmax = compiled.fused_bias_activation =
        compiled.fused_bias_dropout_add = compiled.fused_rotary = false;
    compiled.compiled = true;
    const Sums c = sums(model::build_layer(m, kind, shard(2, 1024, 1, false), compiled));
    CHECK(c.forward <= base.forward);
    // But for rotated queries and keys beside the packed projection, in which a fused kernel
    // rotates.
    const std::int64_t rotated =
        is_gpt ? 0 : 2 * 2 * 1024 * static_cast<std::int64_t>(m.heads + m.kv_heads) * m.head_dim;
    CHECK(c.saved <= base.saved + rotated);
    CHECK(c.forward_kernels <= base.forward_kernels);
    // FlashAttention does not store the square of scores.
    model::Style flash;
    CHECK(sums(model::build_layer(m, kind, shard(2, 1024, 1, false), flash)).saved < base.saved);
  }
}

TEST_CASE("A trainer's metrics read the logits again behind the backward pass") {
  const auto m = test::gpt("gpt", 4, 1024, 16, 51200, 2048);
  for (const auto loss : {job::LossKernel::eager, job::LossKernel::fused}) {
    model::Style plain;
    plain.loss = loss;
    model::Style metered = plain;
    metered.loss_metrics = 2;
    const std::int64_t logits = 2LL * 1024 * 51200;
    const auto graph = model::build_metrics(m, shard(2, 1024, 1, false), metered);
    const auto metrics = find(graph, "train_metrics");
    // Each: log_softmax reads and writes 16 bits, its cast reads them and writes fp32.
    CHECK(metrics.forward_moved == Bytes(2 * (2 + 2 + 2 + 4) * logits));
    CHECK(metrics.forward_temporary == Bytes((2 + 4) * logits));
    CHECK(metrics.backward_moved == Bytes(0));
    CHECK(metrics.saved.empty());
    for (const auto build : {model::build_embedding, model::build_head}) {
      CHECK(sums(build(m, shard(2, 1024, 1, false), plain)).forward ==
            sums(build(m, shard(2, 1024, 1, false), metered)).forward);
    }
  }
}

TEST_CASE("torch.nn.Linear adds its bias; its gradient stays a sum") {
  const auto m = test::gpt("gpt", 4, 1024, 16, 51200, 2048);
  model::Style eager;
  eager.fused_bias_activation = eager.fused_bias_dropout_add = false;
  model::Style epilogue = eager;
  epilogue.fused_linear_bias = true;
  const auto kind = model::LayerKind::dense;
  const Sums apart = sums(model::build_layer(m, kind, shard(2, 1024, 1, false), eager));
  const Sums within = sums(model::build_layer(m, kind, shard(2, 1024, 1, false), epilogue));
  // Read and written in 16 bits: q, k and v, the MLP's inner width, and two outputs per block.
  CHECK(apart.forward - within.forward == 2LL * 2 * 2 * 1024 * (3 + 4 + 1 + 1) * 1024);
  CHECK(apart.backward == within.backward);
}

TEST_CASE("The style of a job") {
  job::Job job;
  job.workload.precision = job::DType::fp8;
  job.kernels.compile = true;
  job.kernels.attention = job::AttentionKernel::flash3;
  job.kernels.loss = job::LossKernel::chunked;
  job.system.fused_norm = false;
  job.system.habits.packs_projections = false;
  model::Style s = model::style_of(job);
  CHECK(s.dtype ==
        job::DType::bf16);  // fp8 recipes keep activations in bf16 between their products
  CHECK(s.compiled);
  CHECK(s.attention == job::AttentionKernel::flash3);
  CHECK(s.loss == job::LossKernel::chunked);
  CHECK_FALSE(s.fused_norm);
  CHECK_FALSE(s.fused_qkv);
  job.workload.precision = job::DType::tf32;
  CHECK(model::style_of(job).dtype == job::DType::fp32);
  job.workload.precision = job::DType::fp16;
  job.system.habits.packs_projections = true;
  s = model::style_of(job);
  CHECK(s.dtype == job::DType::fp16);
  CHECK(s.fused_qkv);
}

TEST_CASE("MoE layers stand where the model puts them") {
  auto m = test::deepseek_v3();
  CHECK(model::layer_kind(m, 2) == model::LayerKind::dense);
  CHECK(model::layer_kind(m, 3) == model::LayerKind::moe);
  m.moe->dense_layers = 0;
  m.moe->every = 2;
  CHECK(model::layer_kind(m, 0) == model::LayerKind::dense);
  CHECK(model::layer_kind(m, 1) == model::LayerKind::moe);
  CHECK(model::layer_kind(test::llama3_8b(), 5) == model::LayerKind::dense);
}

TEST_CASE("The losses keep and move what their frameworks do") {
  // Bytes per logit kept for the backward pass: 4 (Megatron's softmax in place), 4 (the log-softmax
  // of fp32 logits that are not kept otherwise), 2 (the gradient overwrites the logits), 0 (logits
  // live only for one chunk).
  const auto m = test::llama3_8b();
  const std::int64_t tokens = 4096;
  const std::int64_t logits = tokens * 128256;
  const std::int64_t inputs = 2 * 2 * tokens * 4096;
  const auto kept = [&](job::LossKernel loss) {
    model::Style style;
    style.loss = loss;
    return sums(model::build_head(m, shard(1, tokens, 1, false), style)).saved;
  };
  CHECK(kept(job::LossKernel::vocab_parallel) == inputs + 4 * logits);
  CHECK(kept(job::LossKernel::eager) == inputs + 4 * logits);
  CHECK(kept(job::LossKernel::fused) == inputs + 2 * logits);
  CHECK(kept(job::LossKernel::chunked) == inputs + 2 * tokens * 4096);
  // Heads that copy the rows that have labels keep where those were, and the tiled one a label, the
  // logarithm of a sum and an entropy of each.
  CHECK(kept(job::LossKernel::checkpointed_chunks) == inputs + 16 * tokens);
  CHECK(kept(job::LossKernel::tiled_linear) == inputs + (16 + 16) * tokens);
}

TEST_CASE("A tiled head has a tile of logits and sums its gradients in fp32") {
  const auto m = test::llama3_8b();
  const std::int64_t tokens = 6000;
  model::Style style;
  style.loss = job::LossKernel::tiled_linear;
  const auto graph = model::build_head(m, shard(1, tokens, 1, false), style);
  const model::Operator& output = find(graph, "output");
  CHECK(output.row_parts == 2);
  CHECK(output.forward_output.count() == std::int64_t{2} * 4096 * 32768);
  CHECK(output.backward_temporary.count() == 4 * 4096 * (tokens + 128256));
  CHECK(find(graph, "loss").forward_kernels == 2 * 4);
  style.autocast = true;  // sums have the formats of what they are of; rows and weights are cast
  const auto wide = model::build_head(m, shard(1, tokens, 1, false), style);
  CHECK(find(wide, "output").backward_temporary.count() ==
        std::int64_t{2} * 4096 * (4096 + 2 * 32768));
}

TEST_CASE("Norms of blocks' results read what the block returns, and the block the stream") {
  auto m = test::llama3_8b();
  const auto at = [&](const char* name) {
    const auto graph = model::build_layer(m, model::LayerKind::dense, shard(1, 64, 1, false), {});
    return std::find_if(graph.operators.begin(), graph.operators.end(),
                        [&](const model::Operator& op) { return op.name == name; }) -
           graph.operators.begin();
  };
  CHECK(at("mlp_norm") < at("fc1"));
  m.output_norms = true;
  CHECK(at("attention_norm") > at("out"));
  CHECK(at("mlp_norm") > at("fc2"));
  CHECK(at("mlp_norm") < at("mlp_residual"));
}

TEST_CASE("Kernels of Megatron's loss that broadcast along rows take logits one by one") {
  model::Style style;
  style.loss = job::LossKernel::vocab_parallel;
  const auto head = model::build_head(test::llama3_8b(), shard(1, 4096, 1, false), style);
  const std::int64_t logits = 4096LL * 128256;
  const model::Operator& loss = find(head, "loss");
  CHECK(loss.forward_moved == Bytes((6 + 4 + 8 + 8 + 4 + 8) * logits));
  CHECK(loss.forward_singles.elements == 3 * logits);  // cast, difference, quotient
  CHECK(loss.backward_singles.elements == logits);
}

TEST_CASE("An unfused activation takes the halves of a packed projection one by one") {
  model::Style style;
  style.fused_bias_activation = style.fused_qkv = style.fused_gate = false;
  const auto apart = model::build_layer(test::llama3_8b(), model::LayerKind::dense,
                                        shard(1, 4096, 1, false), style);
  style.fused_qkv = style.fused_gate = true;
  const auto packed = model::build_layer(test::llama3_8b(), model::LayerKind::dense,
                                         shard(1, 4096, 1, false), style);
  const std::int64_t half = 4096LL * 14336;
  CHECK(find(apart, "activation").forward_singles.elements == 0);
  CHECK(find(packed, "activation").forward_singles.elements == 2 * half);
  CHECK(find(packed, "activation").backward_singles.elements == 2 * half);
  // The gradients of both halves are joined.
  CHECK(find(packed, "activation").backward_moved ==
        Bytes(find(apart, "activation").backward_moved.count() + 2 * 2 * 2 * half));
}

TEST_CASE("gpt-oss's experts take clamps and biases row by row, but not in a graph of the step") {
  job::Job job;
  job.model = test::moe(test::llama("gpt-oss", 2, 2880, 64, 8, 2880, 1024), 8, 4, 2880);
  job.model.biases.mlp = true;
  job.moe.grouped = true;
  job.moe.weighted_inside = true;
  job.system.transformer_engine = true;
  const auto layer = [&] {
    return model::build_layer(job.model, model::LayerKind::moe, shard(1, 4096, 1, false),
                              model::style_of(job));
  };
  const model::OperatorGraph eager = layer();
  const std::int64_t rows = 4096LL * 4;
  CHECK(find(eager, "expert_clamp").forward_singles.elements == rows * 2 * 2880);
  // A row of biases times a column of weights, and the sum of fp32 and bf16.
  CHECK(find(eager, "expert_bias").forward_singles.elements == 2 * rows * 2880);
  CHECK(find(eager, "expert_bias").forward_singles.moved == (4 + 10) * rows * 2880);
  job.kernels.cuda_graph = true;
  const model::OperatorGraph graph = layer();
  CHECK(std::none_of(graph.operators.begin(), graph.operators.end(),
                     [](const auto& op) { return op.name == "expert_clamp"; }));
  CHECK(find(graph, "expert_bias").forward_moved == Bytes(0));
  CHECK(sums(graph).forward < sums(eager).forward);
  // Gathered for each row: unweighted in pieces behind the first product, by one kernel behind the
  // second; of few rows whole, and weighted in fp32.
  job.kernels.cuda_graph = false;
  job.system.habits.adds_expert_bias_apart = false;
  job.moe.gathered_biases = true;
  const model::OperatorGraph gathered = layer();
  CHECK(find(gathered, "expert_fc1_bias").forward_moved == Bytes(rows * 2 * 2880 * 3 * 4));
  CHECK(find(gathered, "expert_fc1_bias").forward_kernels == 4 * 3 + 2);
  CHECK(find(gathered, "expert_fc2_bias").forward_moved == Bytes(rows * 2880 * 2 * 2));
  CHECK(find(gathered, "expert_fc2_bias").backward_moved == Bytes(rows * 2880 * 2 * 2));
  CHECK(sums(gathered).saved == sums(graph).saved);
  const model::OperatorGraph few = model::build_layer(
      job.model, model::LayerKind::moe, shard(1, 1024, 1, false), model::style_of(job));
  CHECK(find(few, "expert_fc1_bias").forward_moved == Bytes(rows / 4 * 2 * 2880 * 4 * 2));
  CHECK(find(few, "expert_fc2_bias").forward_moved == Bytes(rows / 4 * 2880 * 28));
  // Experts one by one have neither form: their products add biases as any linear layer's do.
  job.moe.grouped = false;
  const model::OperatorGraph one_by_one = layer();
  CHECK(std::none_of(one_by_one.operators.begin(), one_by_one.operators.end(), [](const auto& op) {
    return op.name == "expert_bias" || op.name == "expert_weigh";
  }));
}
