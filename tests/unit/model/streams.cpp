// Models whose layers have several residual streams, entries that stand for several tokens, or
// parts of other layers.
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "catch.hpp"
#include "models.h"
#include "operators.h"
#include "stepcast/model/count.h"
#include "stepcast/model/operators.h"

using namespace stepcast;
using test::find;
using test::whole;

namespace {

// As transformers runs operators.
model::Style eager() {
  model::Style style;
  style.fused_norm = style.fused_qkv = style.fused_bias_activation = style.fused_rotary = false;
  style.fused_softmax = false;
  style.wide_norm = true;
  return style;
}

// Bytes that operators whose name begins so keep, once for each storage.
std::int64_t kept(const model::OperatorGraph& g, const std::vector<std::string>& prefixes) {
  std::map<std::uint32_t, std::int64_t> by_storage;
  for (const auto& op : g.operators) {
    const bool wanted = std::any_of(prefixes.begin(), prefixes.end(),
                                    [&](const auto& p) { return op.name.rfind(p, 0) == 0; });
    for (const auto& saved : op.saved) {
      if (wanted) {
        by_storage[saved.storage] = saved.bytes.count();
      }
    }
  }
  std::int64_t sum = 0;
  for (const auto& [storage, bytes] : by_storage) {
    sum += bytes;
  }
  return sum;
}

job::Model compressed() {
  job::Model m = test::llama("compressed", 3, 256, 8, 1, 1024, 1000);
  m.head_dim = 64;
  m.compressed = job::CompressedAttention{96, 16, 2, 48, 4, 32};
  m.indexer = job::Indexer{4, 32, 16};
  m.sliding_window = 32;
  m.sinks = true;
  m.mixers = "wch";
  m.hyper_connections = job::HyperConnections{4, 20};
  return m;
}

}  // namespace

// Tensors that transformers 5.24.0 (models/deepseek_v4, bf16, on a CPU) handed to
// torch.autograd.graph.saved_tensors_hooks, once for each storage.
TEST_CASE("Hyper-connections keep what transformers keeps") {
  const job::Model m = compressed();
  constexpr std::int64_t s = 256;
  const auto layer = model::build_layer(m, model::layer_kind(m, 0), whole(s), eager());
  constexpr std::int64_t kStatistics = 4 * s;  // of each token's norm
  CHECK(kept(layer, {"attention_stream"}) + kStatistics == 3474432);
  CHECK(kept(layer, {"attention_residual"}) == 665600);
  // With a compiler, the streams, the result, and the weights before and behind their
  // normalisation.
  model::Style compiled = eager();
  compiled.compiled = true;
  const auto fused = model::build_layer(m, model::layer_kind(m, 0), whole(s), compiled);
  CHECK(kept(fused, {"attention_stream", "attention_residual"}) ==
        s * 4 * 256 * 2 + s * 4 * 256 * 4 + s * 256 * 2 + 2 * s * 24 * 4);
  // Fused kernels keep no normed copy of them, and have the same parameters and FLOPs.
  model::Style streams = eager();
  streams.fused_streams = true;
  const auto own = model::build_layer(m, model::layer_kind(m, 0), whole(s), streams);
  CHECK(kept(own, {"attention_stream", "attention_residual"}) ==
        s * 4 * 256 * 2 + s * 256 * 2 + 2 * s * 24 * 4);
  const auto parameters = [](const model::OperatorGraph& g) {
    std::int64_t sum = 0;
    for (const auto& op : g.operators) {
      sum += op.parameters;
    }
    return sum;
  };
  CHECK(parameters(own) == parameters(layer));
  for (const char* name : {"attention_stream_weights", "attention_residual", "q_up"}) {
    CHECK(find(own, name).forward.count() == find(layer, name).forward.count());
  }
}

TEST_CASE("Entries keep what transformers keeps of them") {
  const job::Model m = compressed();
  constexpr std::int64_t s = 256;
  const auto sparse = model::build_layer(m, model::layer_kind(m, 1), whole(s), eager());
  const auto heavy = model::build_layer(m, model::layer_kind(m, 2), whole(s), eager());
  CHECK(kept(sparse, {"entry_pool"}) == 131072 + 2 * 65536);
  CHECK(kept(heavy, {"entry_pool"}) == 65536 + 2 * 32768);
  for (const char* name : {"index_entries", "index_pool", "index_norm", "index_q", "index_weights",
                           "index_scores", "index_top_k"}) {
    const auto& op = find(sparse, name);
    CHECK(op.forward_only);
    CHECK(op.saved.empty());
    CHECK(op.input_grad.count() == 0);
  }
}

TEST_CASE("Queries of compressed attention score a window and the entries behind them") {
  const job::Model m = compressed();
  for (const std::int64_t s : {31, 64, 100, 1024, 4095}) {
    double window = 0, chosen = 0, all = 0;
    for (std::int64_t p = 1; p <= s; ++p) {
      window += static_cast<double>(std::min<std::int64_t>(p, 32));
      chosen += static_cast<double>(std::min<std::int64_t>(p / 4, 16));
      all += static_cast<double>(p / 32);
    }
    const auto pairs = [&](int layer) {
      return model::compressed_pairs(m, model::layer_kind(m, layer), s);
    };
    CHECK(pairs(0) == window);
    CHECK(pairs(1) == window + chosen);
    CHECK(pairs(2) == window + all);
    const auto layer = model::build_layer(m, model::layer_kind(m, 1), whole(s), {});
    CHECK(find(layer, "core_attention").forward.count() ==
          Approx(4.0 * 8 * 64 * (window + chosen)).epsilon(1e-12));
  }
}

TEST_CASE("Each block of attention residuals begins with a stream more") {
  job::Model m = test::llama("residuals", 8, 1024, 16, 16, 4096, 32000);
  m.residual_block = 3;
  const std::int64_t stream = 2048 * 1024 * 2;
  int blocks = 0;
  for (int i = 0; i < 8; ++i) {
    const auto kind = model::layer_kind(m, i);
    CHECK(kind.blocks == blocks);
    CHECK(kind.opens_block == (i % 3 == 0));
    const auto layer = model::build_layer(m, kind, whole(2048), {});
    blocks += kind.opens_block ? 1 : 0;
    if (kind.opens_block) {
      CHECK(find(layer, "block_start").forward_output.count() == blocks * stream);
    }
    CHECK(kept(layer, {"mlp_residual_mix"}) == 2 * (blocks + 1) * stream * 2);
  }
  CHECK(model::layer_parameters(m, 4) -
            model::layer_parameters(test::llama("plain", 8, 1024, 16, 16, 4096, 32000), 4) ==
        4 * 1024);
}

TEST_CASE("Layers that share keys project queries alone") {
  job::Model m = test::llama("shared", 6, 1024, 16, 4, 4096, 32000);
  m.qk_norm = m.value_norm = true;
  m.sliding_window = 256;
  m.mixers = "wwa";
  m.shared_kv_layers = 3;
  const auto own = model::build_layer(m, model::layer_kind(m, 1), whole(2048), {});
  const auto shared = model::build_layer(m, model::layer_kind(m, 4), whole(2048), {});
  CHECK(find(own, "qkv").gemm->n == (16 + 2 * 4) * 64);
  CHECK(find(shared, "qkv").gemm->n == 16 * 64);
  CHECK(find(shared, "qk_norm").parameters == 64);
  CHECK(find(shared, "core_attention").forward == find(own, "core_attention").forward);
  CHECK(model::layer_parameters(m, 1) - model::layer_parameters(m, 4) == 1024 * 2 * 4 * 64 + 64);
}
