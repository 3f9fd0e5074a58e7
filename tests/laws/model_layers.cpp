// LAWS of layers that differ within one model: every kind of layer makes a sound graph under every
// kernel, cut or not; cutting by t leaves replicated + sharded / t parameters; work falls with the
// window and never with the sequence; adapters change nothing of the base's own work.
#include <cstdint>
#include <vector>

#include "../unit/model/models.h"
#include "catch.hpp"
#include "stepcast/model/count.h"
#include "stepcast/model/operators.h"
#include "stepcast/strategy/rules.h"

using namespace stepcast;
using model::OperatorGraph;
using model::Shard;
using model::Style;

namespace {

std::vector<job::Model> mixed_models() {
  auto windows = test::llama("windows", 4, 1024, 16, 8, 4096, 32000);
  windows.sliding_window = 256;
  windows.mixers = "wa";
  windows.sandwich_norms = windows.qk_norm = windows.sinks = true;
  windows.window_heads = job::WindowHeads{32, 16, 64, 32};
  auto chunks = test::moe(test::llama("chunks", 4, 1024, 16, 8, 4096, 32000), 16, 4, 512);
  chunks.sliding_window = 512;
  chunks.chunked_window = true;
  chunks.mixers = "wwwa";
  chunks.mtp_layers = 2;
  chunks.mtp_repeated = true;
  auto hybrid = test::moe(test::llama("hybrid", 6, 1024, 16, 8, 4096, 32000), 16, 4, 512);
  hybrid.mamba = job::Mamba{32, 64, 128, 8, 4, 128};
  hybrid.mixers = "m-ma-m";
  hybrid.mlps = "-e--d-";
  auto latent = hybrid;
  latent.name = "latent";
  latent.moe->latent = 256;
  latent.moe->shared_experts = 1;
  auto shared_heads = test::llama("shared heads", 2, 1024, 16, 2, 4096, 32000);
  shared_heads.qk_norm = shared_heads.biases.qkv = true;
  auto linear = test::llama("linear", 4, 1024, 16, 8, 4096, 32000);
  linear.linear = job::LinearAttention{8, 16, 128, 128, 4, 64, false};
  linear.attention_gate = true;
  linear.mixers = "llla";
  auto delta = linear;
  delta.name = "delta";
  delta.linear = job::LinearAttention{16, 16, 64, 64, 4, 64, true};
  auto bert = test::gpt("bert", 2, 1024, 16, 30522, 512);
  bert.encoder_layers = 2;
  bert.post_norm = bert.embedding_norm = bert.head_transform = bert.biases.head = true;
  bert.token_types = 2;
  auto t5 = test::gpt("t5", 4, 1024, 16, 32128, 0);
  t5.encoder_layers = 2;
  t5.encoder_sequence = 2048;
  t5.norm = job::Norm::rms;
  t5.positions = job::Positions::relative;
  auto sparse = test::deepseek_v3();
  sparse.layers = 4;
  sparse.indexer = job::Indexer{64, 128, 512, "iss"};
  auto branches = test::moe(test::llama("branches", 4, 1024, 16, 8, 4096, 32000), 16, 4, 512);
  branches.moe->shared_experts = 1;
  branches.moe->branch_norms = branches.sandwich_norms = true;
  branches.qk_norm = branches.value_norm = branches.keys_as_values = true;
  branches.head_dim = 128;
  branches.sliding_window = 256;
  branches.mixers = "wa";
  branches.window_heads = job::WindowHeads{16, 8, 64, 0};
  auto shapes = test::llama("shapes", 4, 1024, 16, 8, 4096, 32000);
  shapes.mlps = "dd-d";
  shapes.mixers = "aaa-";
  shapes.ffns = {4096, 512, 0, 1024};
  auto blocks = test::llama("blocks", 4, 1024, 16, 8, 4096, 32000);
  blocks.qk_norm = true;
  blocks.indexer = job::Indexer{8, 128, 512, "aiis", 128};
  auto streams = test::moe(test::llama("streams", 4, 1024, 16, 8, 4096, 32000), 16, 4, 512);
  streams.hyper_connections = job::HyperConnections{4, 20};
  streams.moe->hash_layers = 1;
  streams.moe->router_bias = true;
  streams.mtp_layers = 1;
  auto entries = test::llama("entries", 4, 1024, 16, 1, 4096, 32000);
  entries.compressed = job::CompressedAttention{256, 16, 4, 128, 4, 128};
  entries.indexer = job::Indexer{8, 64, 64};
  entries.sliding_window = 128;
  entries.sinks = true;
  entries.mixers = "wchc";
  entries.hyper_connections = job::HyperConnections{2, 4};
  auto residuals = delta;
  residuals.name = "residuals";
  residuals.residual_block = 3;
  residuals.linear->whole_gate = true;
  residuals.mixers = "l";
  auto tables = test::llama("tables", 4, 1024, 16, 8, 4096, 32000);
  tables.layer_embedding = job::LayerEmbedding{128, 16000};
  tables.qk_norm = tables.value_norm = true;
  tables.shared_kv_layers = 2;
  auto neox = test::gpt("neox", 2, 1024, 16, 50432, 0);
  neox.positions = job::Positions::rotary;
  neox.parallel_block = neox.parallel_norms = true;
  return {windows, chunks,   hybrid, latent, shared_heads, linear,  delta,     bert,   t5,
          sparse,  branches, shapes, blocks, streams,      entries, residuals, tables, neox};
}

Shard shard(std::int64_t s, int t, bool sequence_parallel) {
  Shard r;
  r.sequence_length = s;
  r.tensor = t;
  r.sequence_parallel = sequence_parallel;
  r.expert_tensor = t;
  return r;
}

std::vector<OperatorGraph> graphs(const job::Model& m, const Shard& cut, const Style& style) {
  std::vector<OperatorGraph> all = {model::build_embedding(m, cut, style),
                                    model::build_head(m, cut, style)};
  for (int i = 0; i < model::layer_count(m); ++i) {
    all.push_back(model::build_layer(m, model::layer_kind(m, i), cut, style));
  }
  return all;
}

double forward(const std::vector<OperatorGraph>& all) {
  double sum = 0;
  for (const auto& g : all) {
    for (const auto& op : g.operators) {
      sum += op.forward.count();
    }
  }
  return sum;
}

}  // namespace

TEST_CASE("Every kind of layer makes a sound graph under every kernel, cut or not") {
  for (const auto& m : mixed_models()) {
    INFO(m.name);
    for (const auto attention : {job::AttentionKernel::unfused, job::AttentionKernel::flash2}) {
      for (const bool compiled : {false, true}) {
        for (const auto kind : {job::Finetune::Kind::none, job::Finetune::Kind::lora,
                                job::Finetune::Kind::qlora, job::Finetune::Kind::adapter}) {
          Style style;
          style.attention = attention;
          style.compiled = compiled;
          style.finetune = {kind, 8, {"q", "k", "v", "o", "gate", "up", "down"}};
          for (const int t : m.compressed ? std::vector{1} : std::vector{1, 2, 8}) {
            const Shard cut = shard(1024, t, t > 1);
            REQUIRE_FALSE(strategy::shard_fault(m, cut));
            for (const auto& g : graphs(m, cut, style)) {
              CHECK_FALSE(model::graph_fault(g));
              for (const auto& op : g.operators) {
                CHECK(op.forward.count() >= 0);
                CHECK(op.parameters >= 0);
                CHECK(op.forward_moved.count() >= 0);
                CHECK((kind == job::Finetune::Kind::none ? op.frozen == 0 : true));
              }
            }
          }
        }
      }
    }
  }
}

TEST_CASE("Parameters and FLOPs of every kind add up to the closed forms") {
  for (const auto& m : mixed_models()) {
    INFO(m.name);
    const auto all = graphs(m, shard(2048, 1, false), Style{});
    std::int64_t sum = m.tied_embeddings ? -m.vocab * m.hidden : 0;
    for (const auto& g : all) {
      for (const auto& op : g.operators) {
        sum += g.kind.repeats ? 0 : op.parameters;
      }
    }
    CHECK(sum == model::count_parameters(m).total);
    CHECK(forward(all) == Approx(model::forward_flops(m, 2048, true).count()).epsilon(1e-12));
  }
}

TEST_CASE("Tensor ranks cut what has a role and hold the rest whole") {
  for (const auto& m : mixed_models()) {
    INFO(m.name);
    if (m.compressed) {
      continue;  // it is whole on every rank
    }
    for (int i = 0; i < model::layer_count(m); ++i) {
      if (model::layer_kind(m, i).mlp == model::LayerKind::Mlp::moe) {
        continue;  // if tensor ranks share experts, there are other operators: see model_graph.cpp
      }
      const auto whole =
          model::build_layer(m, model::layer_kind(m, i), shard(1024, 1, false), Style{});
      const auto half =
          model::build_layer(m, model::layer_kind(m, i), shard(1024, 2, true), Style{});
      REQUIRE(whole.operators.size() == half.operators.size());
      for (std::size_t k = 0; k < whole.operators.size(); ++k) {
        const auto& a = whole.operators[k];
        const auto& b = half.operators[k];
        INFO(a.name);
        // Each rank chooses the keys for its own heads from the scores of all queries.
        const double share = a.name == "index_scores" ? 1 : 0.5;
        CHECK(b.forward.count() == Approx(share * a.forward.count()).epsilon(0.01));
        CHECK(2 * b.parameters >= a.parameters);
        CHECK(b.parameters <= a.parameters);
      }
    }
  }
}

TEST_CASE("A wider window never computes less, and beyond the sequence it is none") {
  auto m = test::llama("windows", 1, 1024, 16, 8, 4096, 32000);
  double before = 0;
  for (const std::int64_t window : {1, 64, 256, 1000, 1024, 2048, 4096}) {
    m.sliding_window = window;
    const double now = model::forward_flops(m, 2048, true).count();
    CHECK(now >= before);
    before = now;
  }
  m.sliding_window = 0;
  CHECK(before == model::forward_flops(m, 2048, true).count());
}
