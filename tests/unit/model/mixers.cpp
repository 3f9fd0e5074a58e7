// Layers other than causal attention with a dense MLP: FLOPs and parameters by closed forms that
// are derived here from the papers named in each file of src/model.
#include <algorithm>
#include <map>
#include <string>

#include "catch.hpp"
#include "models.h"
#include "operators.h"
#include "stepcast/model/count.h"
#include "stepcast/model/operators.h"
#include "stepcast/strategy/rules.h"

using namespace stepcast;
using model::LayerKind;
using test::find;
using test::whole;

namespace {

bool has(const model::OperatorGraph& g, const std::string& name) {
  return std::any_of(g.operators.begin(), g.operators.end(),
                     [&](const auto& op) { return op.name == name; });
}

double forward_of(const model::OperatorGraph& g, const std::string& prefix) {
  double sum = 0;
  for (const auto& op : g.operators) {
    sum += op.name.rfind(prefix, 0) == 0 ? op.forward.count() : 0;
  }
  return sum;
}

std::int64_t parameters(const model::OperatorGraph& g) {
  std::int64_t sum = 0;
  for (const auto& op : g.operators) {
    sum += op.parameters;
  }
  return sum;
}

}  // namespace

TEST_CASE("A window computes the sum over queries of min(position, window)") {
  job::Model m = test::llama3_8b();
  m.sliding_window = 1024;
  m.mixers = "wa";
  for (const std::int64_t s : {512, 1024, 4096, 32768}) {
    double keys = 0;
    for (std::int64_t position = 1; position <= s; ++position) {
      keys += static_cast<double>(std::min<std::int64_t>(position, 1024));
    }
    const auto window = model::build_layer(m, model::layer_kind(m, 0), whole(s), {});
    const double expected = 2.0 * 32 * (128 + 128) * keys;
    // Half a key per query less: the causal half of the square excludes half of the diagonal.
    const double half = 2.0 * 32 * (128 + 128) * 0.5 * static_cast<double>(s);
    CHECK(find(window, "core_attention").forward.count() == Approx(expected).margin(half));
    CHECK(find(window, "core_attention").attention->window == 1024);
    const auto full = model::build_layer(m, model::layer_kind(m, 1), whole(s), {});
    CHECK(find(full, "core_attention").attention->window == 0);
    if (s <= 1024) {
      CHECK(find(window, "core_attention").forward.count() ==
            find(full, "core_attention").forward.count());
    }
  }
}

TEST_CASE("Under a mask attention computes all keys, and keeps the mask of each sequence") {
  job::Model m = test::llama3_8b();
  m.sliding_window = 1024;
  m.mixers = "wa";
  model::Style style;
  style.masks = job::AttentionMasks::needed;
  style.attention = job::AttentionKernel::flash2;
  model::Shard shard = whole(4100);
  shard.sequences = 3;
  const auto core = [&](int layer) {
    const auto graph = model::build_layer(m, model::layer_kind(m, layer), shard, style);
    return find(graph, "core_attention");
  };
  const auto mask_of = [](const model::Operator& op) {
    const auto at = std::find_if(op.saved.begin(), op.saved.end(),
                                 [](const auto& saved) { return saved.name == "mask"; });
    return at == op.saved.end() ? Bytes(0) : at->bytes;
  };
  const model::Operator window = core(0);
  CHECK(window.forward.count() == Approx(2.0 * 32 * 256 * 3 * 4100.0 * 4100.0));
  CHECK(mask_of(window) == Bytes(std::int64_t{3} * 4100 * 4112 * 2));  // rows in sixteens
  CHECK(model::attention_kernel(style, *window.attention) == job::AttentionKernel::efficient);
  // Keys and values are copied for each of 32 query heads.
  CHECK(window.attention->kv_heads == 32);

  const model::Operator full = core(1);
  CHECK(full.forward.count() == Approx(window.forward.count() / 2));
  CHECK(mask_of(full) == Bytes(0));
  CHECK(model::attention_kernel(style, *full.attention) == job::AttentionKernel::flash2);

  style.attention = job::AttentionKernel::cudnn;  // takes masks itself
  CHECK(model::attention_kernel(style, *core(0).attention) == job::AttentionKernel::cudnn);
  style.masks = job::AttentionMasks::all;
  CHECK(core(1).forward.count() == Approx(window.forward.count()));
  style.masks = job::AttentionMasks::needed;
  shard.sequence_length = 1000;  // the causal mask says it all
  CHECK(mask_of(core(0)) == Bytes(0));
}

TEST_CASE("Chunks are sequences of their own") {
  job::Model m = test::llama3_8b();
  m.sliding_window = 1024;
  m.chunked_window = true;
  const auto chunked = model::build_layer(m, model::layer_kind(m, 0), whole(8192), {});
  const auto& shape = *find(chunked, "core_attention").attention;
  CHECK(shape.sequences == 8);
  CHECK(shape.query_length == 1024);
  CHECK(shape.key_length == 1024);
  CHECK(find(chunked, "core_attention").forward.count() ==
        Approx(2.0 * 32 * 256 * 8 * 1024.0 * 1024.0 / 2));
}

TEST_CASE("Letters name the layers, repeated") {
  job::Model m = test::llama3_8b();
  m.layers = 7;
  m.sliding_window = 128;
  m.mixers = "wwa";
  using Mixer = LayerKind::Mixer;
  const Mixer expected[] = {Mixer::window, Mixer::window,    Mixer::attention, Mixer::window,
                            Mixer::window, Mixer::attention, Mixer::window};
  for (int i = 0; i < 7; ++i) {
    CHECK(model::layer_kind(m, i).mixer == expected[i]);
  }
  m.mixers.clear();  // a window without a pattern applies to every layer (Mistral 7B v0.1)
  CHECK(model::layer_kind(m, 5).mixer == Mixer::window);
}

TEST_CASE(
    "A prediction layer is two norms, a product of 2h x h, a layer, and the model's own head") {
  job::Model m = test::deepseek_v3();
  const std::int64_t main_model = model::count_parameters(m).total;
  m.mtp_layers = 1;
  REQUIRE(model::layer_count(m) == 62);
  const LayerKind kind = model::layer_kind(m, 61);
  CHECK(kind.prediction);
  CHECK(kind.mlp == LayerKind::Mlp::moe);
  CHECK_FALSE(model::layer_kind(m, 60).prediction);
  const std::int64_t h = 7168;
  // DeepSeek-V3's published 14 B for the module include the shared table and head (0.9 B each).
  const std::int64_t own = model::layer_parameters(m, 60) + 2 * h * h + 3 * h;
  CHECK(model::count_parameters(m).total == main_model + own);
  CHECK(static_cast<double>(own + 2 * 129280 * h) / 1e9 == Approx(13.46).epsilon(0.001));

  const auto g = model::build_layer(m, kind, whole(4096), {});
  CHECK(parameters(g) == own);
  CHECK(find(g, "output").parameters == 0);
  // The shared matrix has a gradient here as well.
  CHECK(find(g, "output").weight_grad.count() > 0);
  CHECK(find(g, "mtp_projection").forward.count() == Approx(2.0 * 4096 * 2 * h * h));
  CHECK(find(g, "output").forward.count() == Approx(2.0 * 4096 * h * 129280));
}

TEST_CASE("A prediction layer that runs three times has one layer's parameters and three's FLOPs") {
  job::Model m = test::deepseek_v3();
  m.mtp_layers = 1;
  const model::Parameters one = model::count_parameters(m);
  m.mtp_layers = 3;
  const model::Parameters apart = model::count_parameters(m);
  const double flops = model::forward_flops(m, 4096, true).count();
  m.mtp_repeated = true;
  CHECK(model::count_parameters(m).total == one.total);
  CHECK(model::count_parameters(m).total < apart.total);
  CHECK(model::forward_flops(m, 4096, true).count() == flops);
  CHECK(model::layer_parameters(m, 61) > 0);
  CHECK(model::layer_parameters(m, 62) == 0);
  CHECK_FALSE(model::layer_kind(m, 61).repeats);
  CHECK(model::layer_kind(m, 62).repeats);
  CHECK(model::build_layer(m, model::layer_kind(m, 63), whole(4096), {}).kind.repeats);
}

TEST_CASE("Kernels that follow a map of rows move the bytes of those that index, one a pass") {
  const job::Model m = test::deepseek_v3();
  const LayerKind kind = model::layer_kind(m, 60);
  REQUIRE(kind.mlp == LayerKind::Mlp::moe);
  model::Shard shard = whole(4096);
  shard.expert = 8;
  model::Style style;
  const auto indexed = model::build_layer(m, kind, shard, style);
  style.routing.fused_permute = true;
  const auto mapped = model::build_layer(m, kind, shard, style);
  for (const char* name : {"permute", "unpermute", "sort_by_expert", "sort_by_rank"}) {
    INFO(name);
    CHECK(find(indexed, name).kind == model::OpKind::permute);
    CHECK(find(mapped, name).kind == model::OpKind::fused_permute);
    CHECK(find(mapped, name).forward_moved == find(indexed, name).forward_moved);
    CHECK(find(mapped, name).backward_moved == find(indexed, name).backward_moved);
    CHECK(find(mapped, name).forward_kernels == 1);
    CHECK(find(mapped, name).backward_kernels == 1);
  }
  CHECK(find(indexed, "permute").forward_kernels == 2);
}

TEST_CASE("Rows that are moved by indexing alone are kept in fp32 for their weighted sum") {
  const job::Model m = test::deepseek_v3();
  const LayerKind kind = model::layer_kind(m, 60);
  model::Shard shard = whole(4096);
  shard.expert = 8;
  model::Style style;
  style.routing.indexed = true;
  const auto g = model::build_layer(m, kind, shard, style);
  const std::int64_t rows = std::int64_t{4096} * m.moe->topk;
  const model::Operator& sum = find(g, "weighted_sum");
  const auto kept = std::find_if(sum.saved.begin(), sum.saved.end(),
                                 [](const model::Saved& s) { return s.name == "expert_output"; });
  REQUIRE(kept != sum.saved.end());
  CHECK(kept->bytes == Bytes(4 * rows * m.hidden));
  // Rows are put into zeros of 16 bits, cast, and read again.
  CHECK(find(g, "unpermute").forward_output == Bytes(2 * rows * m.hidden));
  CHECK(sum.forward_moved >= Bytes((2 + 2 + 4 + 4) * rows * m.hidden));
  CHECK(find(g, "unpermute").saved.empty());
}

TEST_CASE("A router and weights in fp32 keep copies of the tokens and of what experts return") {
  const job::Model m = test::deepseek_v3();
  const LayerKind kind = model::layer_kind(m, 60);
  model::Style style;
  const auto narrow = model::build_layer(m, kind, whole(4096), style);
  style.routing.wide_router = true;
  style.routing.wide_weighing = true;
  const auto wide = model::build_layer(m, kind, whole(4096), style);
  const std::int64_t tokens = std::int64_t{4096} * m.hidden;
  const std::int64_t rows = tokens * m.moe->topk;
  CHECK(find(wide, "router").saved.front().bytes == Bytes(4 * tokens));
  CHECK(find(wide, "unpermute").saved.front().bytes == Bytes(4 * rows));
  CHECK(find(narrow, "unpermute").saved.front().bytes == Bytes(2 * rows));
  // A cast to fp32, a product there and a cast back come ahead of the sum.
  const Bytes more = find(wide, "weighing_cast").forward_moved +
                     find(wide, "unpermute").forward_moved -
                     find(narrow, "unpermute").forward_moved;
  CHECK(more == Bytes((2 + 4 + 4 + 4 + 4 + 2) * rows));
  CHECK(find(wide, "unpermute").expert == model::ExpertRole::none);
  CHECK(find(wide, "weighing_cast").expert == model::ExpertRole::combine);
  // A compiler keeps what the casts read.
  style.compiled = true;
  CHECK_FALSE(has(model::build_layer(m, kind, whole(4096), style), "weighing_cast"));
}

TEST_CASE("Values of latent attention are copied, or read in the product that makes keys too") {
  const job::Model m = test::deepseek_v3();
  const LayerKind kind = model::layer_kind(m, 60);
  model::Style style;
  const auto copied = model::build_layer(m, kind, whole(4096), style);
  style.views_values = true;
  const auto viewed = model::build_layer(m, kind, whole(4096), style);
  const auto width = [&](int dim) { return Bytes(std::int64_t{2} * 4096 * m.heads * dim); };
  const auto kept = [](const model::OperatorGraph& g, const char* op, std::size_t k) {
    return find(g, op).saved.at(k);
  };
  const int keys = m.mla->qk_nope_dim + m.mla->qk_rope_dim;
  CHECK(kept(copied, "core_attention", 0).bytes == width(2 * keys + m.mla->v_dim));
  CHECK(kept(viewed, "core_attention", 0).bytes == width(2 * keys));
  const auto& values = find(viewed, "core_attention").saved.back();
  CHECK(values.bytes == width(m.mla->qk_nope_dim + m.mla->v_dim));
  CHECK(values.storage == find(viewed, "kv_up").saved.back().storage);
  // What the kernel reads is the same.
  CHECK(find(viewed, "core_attention").forward_moved ==
        find(copied, "core_attention").forward_moved);
}

TEST_CASE("Mamba-2 costs what its chunks multiply") {
  job::Model m = test::llama3_8b();
  m.mamba = job::Mamba{128, 64, 128, 8, 4, 256};
  m.mixers = "m";
  m.mlps = "-";
  const std::int64_t s = 8192;
  const std::int64_t h = 4096;
  const std::int64_t inner = 128 * 64;
  const auto g = model::build_layer(m, model::layer_kind(m, 0), whole(s), {});
  // z, x, B, C, dt; then the output projection.
  CHECK(find(g, "mamba_in").forward.count() ==
        Approx(2.0 * s * h * (2 * inner + 2 * 8 * 128 + 128)));
  CHECK(find(g, "mamba_out").forward.count() == Approx(2.0 * s * inner * h));
  const double chunks = forward_of(g, "mamba_scores") + forward_of(g, "mamba_states") +
                        forward_of(g, "mamba_chunk") + forward_of(g, "mamba_read");
  CHECK(chunks == Approx(2.0 * s * (8 * 256 * 128 + 128 * 256 * 64 + 2.0 * 128 * 128 * 64)));
  CHECK_FALSE(has(g, "fc1"));
  // mamba_ssm's Mamba2: conv1d (4 taps and a bias per channel), A, D and dt's bias, gated norm,
  // norm.
  const std::int64_t convolved = inner + 2 * 8 * 128;
  CHECK(parameters(g) ==
        h * (2 * inner + 2 * 8 * 128 + 128) + inner * h + convolved * 5 + 3 * 128 + inner + h);
  // Linear in the sequence: twice the tokens take twice the FLOPs.
  const auto twice = model::build_layer(m, model::layer_kind(m, 0), whole(2 * s), {});
  CHECK(forward_of(twice, "mamba") == Approx(2 * forward_of(g, "mamba")));
}

TEST_CASE("Context ranks divide the heads of Mamba-2, and copy groups that are too few") {
  job::Model m = test::llama3_8b();
  m.mamba = job::Mamba{128, 64, 128, 8, 4, 256};
  m.mixers = "m";
  m.mlps = "-";
  const std::int64_t s = 8192;
  const auto on = [&](int ranks) {
    model::Shard shard = whole(s);
    shard.context = ranks;
    return model::build_layer(m, model::layer_kind(m, 0), shard, {});
  };
  const auto all = on(1);
  CHECK(find(all, "mamba_conv").traded_before.empty());
  for (const int ranks : {2, 8, 16}) {
    INFO(ranks);
    const auto part = on(ranks);
    CHECK(parameters(part) == parameters(all));
    const double copies = ranks > 8 ? ranks / 8.0 : 1;  // of each of the eight groups
    CHECK(forward_of(part, "mamba_scores") ==
          Approx(copies * forward_of(all, "mamba_scores") / ranks));
    for (const char* name :
         {"mamba_in", "mamba_states", "mamba_chunk", "mamba_read", "mamba_out"}) {
      CHECK(find(part, name).forward.count() == Approx(find(all, name).forward.count() / ranks));
    }
    // z and x; B and C of each group; dt. Of this rank's tokens, in 16 bits.
    const std::int64_t tokens = s / ranks;
    const auto state = static_cast<std::int64_t>(copies * 8 * 128);
    CHECK(find(part, "mamba_conv").traded_before ==
          std::vector<std::int64_t>{tokens * 128 * 64 * 2, tokens * 128 * 64 * 2,
                                    tokens * state * 2, tokens * state * 2, tokens * 128 * 2});
    CHECK(find(part, "mamba_read").traded_after ==
          std::vector<std::int64_t>{tokens * 128 * 64 * 2});
  }
}

TEST_CASE("Context ranks divide the heads of the gated delta rule") {
  job::Model m = test::llama3_8b();
  m.linear = job::LinearAttention{16, 32, 128, 128, 4, 64, false};
  m.mixers = "l";
  model::Shard shard = whole(4096);
  const auto all = model::build_layer(m, model::layer_kind(m, 0), shard, {});
  shard.context = 4;
  const auto part = model::build_layer(m, model::layer_kind(m, 0), shard, {});
  CHECK(forward_of(part, "linear") == Approx(forward_of(all, "linear") / 4));
  const std::int64_t tokens = 4096 / 4;
  CHECK(find(part, "linear_decay").traded_before ==
        std::vector<std::int64_t>{tokens * (2 * 16 * 128 + 2 * 32 * 128 + 2 * 32) * 2});
  CHECK(find(part, "linear_norm").traded_after == std::vector<std::int64_t>{tokens * 32 * 128 * 2});
}

TEST_CASE("The gated delta rule costs what its chunks multiply") {
  job::Model m = test::llama3_8b();
  m.linear = job::LinearAttention{16, 32, 128, 128, 4, 64, false};
  m.mixers = "l";
  const std::int64_t s = 4096;
  const auto g = model::build_layer(m, model::layer_kind(m, 0), whole(s), {});
  double core = 0;
  for (const char* name :
       {"linear_scores", "linear_solve", "linear_read", "linear_chunk", "linear_update"}) {
    core += find(g, name).forward.count();
  }
  CHECK(core == Approx(32.0 * s * (2.0 * 64 * (3 * 128 + 2 * 128) + 6.0 * 128 * 128)));
  const std::int64_t keys = 16 * 128;
  const std::int64_t values = 32 * 128;
  CHECK(find(g, "linear_in").parameters == 4096 * (2 * keys + 2 * values + 2 * 32));
}

TEST_CASE("An encoder sees both ways, a decoder its own past and the encoder's output") {
  job::Model m = test::gpt("t5", 4, 1024, 16, 32128, 0);
  m.encoder_layers = 2;
  m.encoder_sequence = 512;
  m.positions = job::Positions::relative;
  const std::int64_t s = 128;
  const auto encoder = model::build_layer(m, model::layer_kind(m, 0), whole(s), {});
  const auto& seen = *find(encoder, "core_attention").attention;
  CHECK_FALSE(seen.causal);
  CHECK(seen.query_length == 512);
  CHECK(find(encoder, "fc1").gemm->m == 512);
  CHECK(find(encoder, "core_attention").forward.count() == Approx(2.0 * 1024 * 2 * 512 * 512));

  const auto decoder = model::build_layer(m, model::layer_kind(m, 2), whole(s), {});
  CHECK(find(decoder, "fc1").gemm->m == s);
  CHECK(find(decoder, "cross_kv").gemm->m == 512);
  CHECK(find(decoder, "cross_q").gemm->m == s);
  bool causal = false;
  bool across = false;
  for (const auto& op : decoder.operators) {
    causal = causal || (op.attention && op.attention->causal && op.attention->key_length == s);
    across = across || (op.attention && !op.attention->causal && op.attention->key_length == 512 &&
                        op.attention->query_length == s);
  }
  CHECK(causal);
  CHECK(across);
  // Encoder 4 h^2 and decoder 8 h^2 of attention, 8 h^2 of MLP each, plus biases and norms.
  const double h = 1024;
  CHECK(static_cast<double>(model::layer_parameters(m, 0)) / (h * h) == Approx(12).epsilon(0.002));
  CHECK(static_cast<double>(model::layer_parameters(m, 2)) / (h * h) == Approx(16).epsilon(0.002));
}

TEST_CASE("An indexer leaves as many keys as it chooses") {
  job::Model m = test::deepseek_v3();
  const std::int64_t s = 32768;
  const auto dense = model::build_layer(m, model::layer_kind(m, 10), whole(s), {});
  m.indexer = job::Indexer{64, 128, 2048};
  const auto sparse = model::build_layer(m, model::layer_kind(m, 10), whole(s), {});
  const double share = (2048.0 * 32768 - 2048.0 * 2048 / 2) / (32768.0 * 32768 / 2);
  CHECK(find(sparse, "core_attention").forward.count() ==
        Approx(share * find(dense, "core_attention").forward.count()));
  CHECK(find(sparse, "index_scores").forward.count() ==
        Approx(2.0 * 64 * 128 * 32768.0 * 32768.0 / 2));
}

TEST_CASE("Keys that serve as values are projected once, normed twice, and all kept") {
  job::Model m = test::llama("tied", 2, 1024, 16, 2, 4096, 32000);
  m.qk_norm = m.value_norm = m.keys_as_values = true;
  const std::int64_t s = 2048;
  const auto bytes = [](const model::Operator& op, const std::string& name) {
    for (const auto& saved : op.saved) {
      if (saved.name == name) {
        return saved.bytes.count();
      }
    }
    return std::int64_t{0};
  };
  model::Style apart;
  apart.fused_qkv = apart.fused_norm = false;
  const auto layer = model::build_layer(m, model::layer_kind(m, 0), whole(s), apart);
  const auto& project = find(layer, "qkv");
  CHECK(project.gemm->n == (16 + 2) * 64);
  CHECK(project.forward_kernels == 2);
  CHECK(project.columns == std::vector<std::int64_t>{16 * 64, 2 * 64});
  // The fp32 copies of both norms of keys, and what attention reads; no projection beside them.
  CHECK(bytes(project, "output") == 0);
  CHECK(bytes(find(layer, "qk_norm"), "upcast") == s * (16 + 2) * 64 * 4);
  CHECK(bytes(find(layer, "v_norm"), "upcast") == s * 2 * 64 * 4);
  CHECK(bytes(find(layer, "v_norm"), "output") == s * (16 + 2 + 2) * 64 * 2);
  CHECK(find(layer, "v_norm").parameters == 0);
  CHECK(bytes(find(layer, "core_attention"), "qkv") == s * (16 + 2 + 2) * 64 * 2);
  job::Model own = m;
  own.keys_as_values = false;
  CHECK(model::layer_parameters(own, 0) - model::layer_parameters(m, 0) == 1024 * 2 * 64);
}

// Tensors that transformers 5.23.0 (torch 2.15, models/gemma4, a dense layer in bf16, sdpa) handed
// to torch.autograd.graph.saved_tensors_hooks, once for each storage, on a CPU.
TEST_CASE("A layer of Gemma 4 keeps what transformers keeps") {
  job::Model m = test::llama("gemma 4", 2, 512, 8, 2, 1024, 1000);
  m.head_dim = 128;
  m.sandwich_norms = m.qk_norm = m.value_norm = m.keys_as_values = true;
  m.sliding_window = 64;
  m.mixers = "wa";
  m.window_heads = job::WindowHeads{8, 4, 64, 0};
  model::Style style;
  style.fused_norm = style.fused_qkv = style.fused_bias_activation = style.fused_rotary = false;
  style.wide_norm = true;
  constexpr std::int64_t s = 256;
  const auto kept = [&](int n) {
    std::map<std::uint32_t, std::int64_t> by_storage;
    for (const auto& op :
         model::build_layer(m, model::layer_kind(m, n), whole(s), style).operators) {
      for (const auto& saved : op.saved) {
        by_storage[saved.storage] = saved.bytes.count();
      }
    }
    std::int64_t sum = 0;
    for (const auto& [storage, bytes] : by_storage) {
      sum += bytes;
    }
    return sum;
  };
  // Left out: two statistics of each row and norm (one: of each head), the fp32 copies of the
  // norms' weights, and the cosines and sines, which layers share.
  const auto rest = [](std::int64_t heads, std::int64_t kv_heads, std::int64_t dim) {
    const std::int64_t statistics = 2 * 4 * s * (4 + heads + 2 * kv_heads);
    return statistics + 4 * (4 * 512 + 2 * dim) + 2 * 2 * s * dim;
  };
  CHECK(kept(0) + rest(8, 4, 64) == 9560576);
  CHECK(kept(1) + rest(8, 2, 128) == 11191296);
}

TEST_CASE("Norms of queries and keys alone are in Python where a library leaves them") {
  job::Model m = test::llama("heads", 2, 1024, 16, 4, 4096, 32000);
  m.qk_norm = true;
  model::Style style;
  style.fused_qkv = false;
  style.eager_qk_norm = true;
  constexpr std::int64_t s = 256;
  const auto layer = model::build_layer(m, model::layer_kind(m, 0), whole(s), style);
  std::vector<std::int64_t> copies;  // fp32, of queries and of keys
  for (const auto& saved : find(layer, "qk_norm").saved) {
    if (saved.name == "upcast") {
      copies.push_back(saved.bytes.count());
    }
  }
  CHECK(copies == std::vector<std::int64_t>{s * 16 * 64 * 4, s * 4 * 64 * 4});
  CHECK(find(layer, "mlp_norm").forward_temporary.count() == 0);
}

TEST_CASE("Sinks that scale attention's result keep the masked scores") {
  job::Model m = test::llama("sinks", 2, 1024, 16, 4, 4096, 32000);
  m.sinks = true;
  model::Style style;
  style.attention = job::AttentionKernel::unfused;
  style.fused_softmax = false;
  constexpr std::int64_t s = 256;
  const auto kept = [&] {
    std::int64_t sum = 0;
    const auto layer = model::build_layer(m, model::layer_kind(m, 0), whole(s), style);
    for (const auto& saved : find(layer, "softmax").saved) {
      sum += saved.bytes.count();
    }
    return sum;
  };
  const std::int64_t column = kept();
  style.logsumexp_sinks = true;
  const std::int64_t scores = 16 * s * s;
  CHECK(kept() == scores * (2 + 4));  // in 16 bits, beside softmax's result in fp32
  CHECK(column == scores * 2);
  style.autocast = true;
  CHECK(kept() >= scores * (4 + 4));
}

TEST_CASE("Attention of heads that are too wide for a fused kernel is not fused") {
  job::Model m = test::llama("wide", 2, 1024, 16, 2, 4096, 32000);
  m.head_dim = 512;
  m.sliding_window = 1024;
  m.mixers = "wa";
  m.window_heads = job::WindowHeads{16, 8, 256, 0};
  const auto layer = [&](int n, const model::Style& style) {
    return model::build_layer(m, model::layer_kind(m, n), whole(2048), style);
  };
  CHECK(has(layer(0, {}), "core_attention"));
  CHECK_FALSE(has(layer(1, {}), "core_attention"));
  CHECK(find(layer(1, {}), "scores").gemm->k == 512);
  model::Style tpu;
  tpu.widest_fused_head = 0;
  CHECK(has(layer(1, tpu), "core_attention"));
}

TEST_CASE("Routed and shared experts with norms of their own") {
  job::Model m = test::moe(test::llama("branches", 2, 1024, 16, 8, 4096, 32000), 16, 4, 512);
  m.moe->shared_experts = 1;
  const auto before = model::layer_parameters(m, 0);
  m.moe->branch_norms = true;
  // Norms of what the routed experts read and return and of what the shared one returns; a weight
  // of each channel and of each expert in the router.
  CHECK(model::layer_parameters(m, 0) - before == 3 * 1024 + 1024 + 16);
  const auto layer = model::build_layer(m, model::layer_kind(m, 0), whole(2048), {});
  for (const char* name :
       {"router_norm", "experts_norm", "experts_post_norm", "shared_post_norm"}) {
    CHECK(has(layer, name));
  }
}

TEST_CASE("Layers of unlike widths are kinds of their own") {
  job::Model m = test::llama("widths", 6, 1024, 16, 8, 4096, 32000);
  m.ffns = {4096, 512};
  m.mixers = "aa-";
  CHECK(model::layer_kinds(m).size() == 4);
  const auto narrow = model::build_layer(m, model::layer_kind(m, 1), whole(2048), {});
  CHECK(find(narrow, "fc1").gemm->n == 2 * 512);
  CHECK_FALSE(has(model::build_layer(m, model::layer_kind(m, 2), whole(2048), {}), "qkv"));
}

TEST_CASE("An indexer of blocks scores with every head, and leaves whole blocks") {
  job::Model m = test::llama("blocks", 3, 1024, 16, 4, 4096, 32000);
  m.indexer = job::Indexer{4, 128, 2048, "aii", 128};
  const std::int64_t s = 32768;
  const auto all = model::build_layer(m, model::layer_kind(m, 0), whole(s), {});
  CHECK_FALSE(has(all, "index_scores"));
  const auto sparse = model::build_layer(m, model::layer_kind(m, 1), whole(s), {});
  CHECK_FALSE(has(sparse, "index_weights"));
  CHECK(find(sparse, "index_scores").forward.count() == Approx(2.0 * 4 * 128 * s * s / 2));
  // The best score of each block in fp32, and the numbers of 16 blocks for each head.
  CHECK(find(sparse, "index_scores").forward_output.count() == 4 * 4 * (s * s / 2 / 128));
  CHECK(find(sparse, "index_top_k").saved[0].bytes.count() == 4 * 4 * s * 16);
  CHECK(find(sparse, "core_attention").forward.count() ==
        Approx(find(all, "core_attention").forward.count() * (2048.0 * s - 2048.0 * 2048 / 2) /
               (static_cast<double>(s) * s / 2)));
}

TEST_CASE("Ranks that share a key-value head cut the projection's rows evenly") {
  job::Model palm = test::llama("palm", 8, 18432, 48, 1, 73728, 256000);
  palm.head_dim = 256;
  model::Shard shard = whole(2048);
  shard.tensor = 16;
  CHECK_FALSE(strategy::shard_fault(palm, shard));  // 800 of (48 + 2) x 256 rows each
  shard.tensor = 12;
  REQUIRE(strategy::shard_fault(palm, shard));
  CHECK(strategy::shard_fault(palm, shard)->reason ==
        "tensor 12 does not divide rows of the projection to queries, keys and values: 12800; "
        "expected a divisor");
}

TEST_CASE("Heads of other layers are cut by tensor ranks as well") {
  job::Model m = test::llama3_8b();
  model::Shard shard = whole(4096);
  shard.tensor = 8;
  CHECK_FALSE(strategy::shard_fault(m, shard));
  m.mamba = job::Mamba{128, 64, 128, 4, 4, 256};
  REQUIRE(strategy::shard_fault(m, shard));
  CHECK(strategy::shard_fault(m, shard)->reason ==
        "the number of Mamba groups (4) is not divisible by 8");
  m.mamba.reset();
  m.linear = job::LinearAttention{4, 32, 128, 128, 4, 64, false};
  REQUIRE(strategy::shard_fault(m, shard));
  CHECK(strategy::shard_fault(m, shard)->key == "parallelism.tensor");
}
