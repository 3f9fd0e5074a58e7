// LAWS of operator graphs: acyclic, in order, every result read; parameters and FLOPs add up to the
// closed forms of count.h; cutting by t leaves (replicated + sharded / t) parameters and 1/t of the
// FLOPs; saved bytes of a Llama layer.
#include <algorithm>
#include <cstdint>
#include <map>

#include "../unit/model/models.h"
#include "catch.hpp"
#include "stepcast/model/count.h"
#include "stepcast/model/operators.h"
#include "stepcast/strategy/rules.h"

using namespace stepcast;
using model::LayerKind;
using model::OperatorGraph;
using model::Shard;
using model::Style;

namespace {

std::int64_t parameters(const OperatorGraph& g) {
  std::int64_t sum = 0;
  for (const auto& op : g.operators) {
    sum += op.parameters;
  }
  return sum;
}

double forward(const OperatorGraph& g) {
  double sum = 0;
  for (const auto& op : g.operators) {
    sum += op.forward.count();
  }
  return sum;
}

std::int64_t saved(const OperatorGraph& g) {
  std::map<std::uint32_t, std::int64_t> storages;
  for (const auto& op : g.operators) {
    for (const auto& s : op.saved) {
      storages[s.storage] = std::max(storages[s.storage], s.bytes.count());
    }
  }
  std::int64_t sum = 0;
  for (const auto& [storage, bytes] : storages) {
    sum += bytes;
  }
  return sum;
}

Shard shard(std::int64_t b, std::int64_t s, int t, bool sequence_parallel) {
  Shard r;
  r.sequences = b;
  r.sequence_length = s;
  r.tensor = t;
  r.sequence_parallel = sequence_parallel;
  return r;
}

std::vector<job::Model> models() {
  auto gpt = test::gpt("gpt", 4, 1024, 16, 51200, 2048);
  gpt.dropout = 0.1;
  auto parallel = test::gpt("gpt-j", 4, 1024, 16, 51200, 0);
  parallel.parallel_block = true;
  parallel.positions = job::Positions::rotary;
  auto qwen = test::llama("qwen", 4, 1024, 16, 8, 4096, 32000);
  qwen.qk_norm = true;
  qwen.biases.qkv = true;
  auto shared = test::moe(test::llama("qwen-moe", 6, 1024, 16, 8, 4096, 32000), 16, 4, 512);
  shared.moe->shared_experts = 1;
  shared.moe->shared_ffn = 2048;
  shared.moe->shared_gate = true;
  shared.moe->every = 2;
  auto lite = test::deepseek_v2();
  lite.layers = 3;
  lite.mla->q_lora_rank = 0;
  auto v3 = test::deepseek_v3();
  v3.layers = 5;
  return {gpt, parallel, test::llama3_8b(), qwen, test::mixtral_8x7b(), shared, lite, v3};
}

std::vector<Style> styles() {
  std::vector<Style> all;
  for (const auto attention : {job::AttentionKernel::unfused, job::AttentionKernel::flash2}) {
    for (const auto loss :
         {job::LossKernel::eager, job::LossKernel::fused, job::LossKernel::chunked,
          job::LossKernel::vocab_parallel, job::LossKernel::vocab_parallel_fused}) {
      for (const bool fused : {false, true}) {
        for (const bool compiled : {false, true}) {
          Style s;
          s.attention = attention;
          s.loss = loss;
          s.compiled = compiled;
          s.fused_norm = s.fused_softmax = s.fused_bias_activation = s.fused_bias_dropout_add =
              s.fused_rotary = fused;
          s.fused_qkv = fused;
          all.push_back(s);
        }
      }
    }
  }
  return all;
}

}  // namespace

TEST_CASE("Every graph is acyclic, in topological order, and every result is read") {
  for (const auto& m : models()) {
    INFO(m.name);
    for (const auto& style : styles()) {
      for (const int t : {1, 2}) {
        Shard r = shard(2, 512, t, t > 1);
        if (m.moe) {
          r.expert_tensor = t;
        }
        REQUIRE_FALSE(strategy::shard_fault(m, r));
        for (const auto kind : {LayerKind::dense, LayerKind::moe}) {
          if (kind == LayerKind::moe && !m.moe) {
            continue;
          }
          const auto g = model::build_layer(m, kind, r, style);
          CHECK_FALSE(model::graph_fault(g));
          CHECK(g.edges.size() + 1 >= g.operators.size());
          for (const auto& op : g.operators) {
            INFO(op.name);
            CHECK(op.forward_moved.count() > 0);
            CHECK(op.forward_kernels > 0);
            CHECK(op.forward_output.count() > 0);
          }
        }
        CHECK_FALSE(model::graph_fault(build_embedding(m, r, style)));
        CHECK_FALSE(model::graph_fault(build_head(m, r, style)));
      }
    }
  }
}

TEST_CASE("Faulty graphs are recognised") {
  OperatorGraph g =
      model::build_layer(test::llama3_8b(), LayerKind::dense, shard(1, 128, 1, false), Style{});
  REQUIRE_FALSE(model::graph_fault(g));
  OperatorGraph cyclic = g;
  cyclic.edges.emplace_back(static_cast<int>(g.operators.size()) - 1, 0);
  CHECK(model::graph_fault(cyclic) == "the operators form a cycle");
  OperatorGraph outside = g;
  outside.edges.emplace_back(0, static_cast<int>(g.operators.size()));
  CHECK(model::graph_fault(outside) == "an edge leaves the graph");
  OperatorGraph dangling = g;
  dangling.operators.insert(dangling.operators.end(), g.operators.front());
  CHECK(model::graph_fault(dangling) == "no operator reads 'mlp_residual'");
  OperatorGraph swapped{
      .kind = {}, .operators = {g.operators[0], g.operators[1]}, .edges = {{1, 0}}};
  CHECK(model::graph_fault(swapped).has_value());
}

TEST_CASE("Parameters of the graphs add up to the closed forms") {
  for (const auto& m : models()) {
    INFO(m.name);
    const Shard whole = shard(1, 128, 1, false);
    const Style style;
    std::int64_t sum = parameters(model::build_embedding(m, whole, style));
    for (int i = 0; i < m.layers; ++i) {
      const auto layer = parameters(model::build_layer(m, model::layer_kind(m, i), whole, style));
      CHECK(layer == model::layer_parameters(m, i));
      sum += layer;
    }
    auto head = model::build_head(m, whole, style);
    sum += parameters(head);
    // A tied head has a copy of the table, which is counted only once.
    if (m.tied_embeddings) {
      sum -= m.vocab * m.hidden;
    }
    CHECK(sum == model::count_parameters(m).total);
  }
}

TEST_CASE("Forward FLOPs of the graphs are those of the closed form") {
  for (const auto& m : models()) {
    INFO(m.name);
    for (const bool causal : {true, false}) {
      // The fused kernel computes only the causal half, the unfused one the whole square.
      Style style;
      style.attention = causal ? job::AttentionKernel::flash2 : job::AttentionKernel::unfused;
      const Shard one = shard(1, 1024, 1, false);
      double sum = forward(model::build_head(m, one, style));
      for (int i = 0; i < m.layers; ++i) {
        sum += forward(model::build_layer(m, model::layer_kind(m, i), one, style));
      }
      CHECK(sum == Approx(model::forward_flops(m, 1024, causal).count()).epsilon(1e-12));
    }
  }
}

TEST_CASE("Backward takes twice the forward FLOPs, fused attention two and a half times its own") {
  for (const auto& m : models()) {
    INFO(m.name);
    for (const bool fused : {true, false}) {
      Style style;
      style.attention = fused ? job::AttentionKernel::flash2 : job::AttentionKernel::unfused;
      double backward = 0;
      double attention = 0;
      const auto add = [&](const OperatorGraph& g) {
        for (const auto& op : g.operators) {
          backward += op.input_grad.count() + op.weight_grad.count();
          if (op.attention) {
            attention += op.forward.count();
            // Reads q, k, v, o, do and the log-sum-exp, writes dq, dk, dv.
            CHECK(op.backward_moved.count() > 3 * op.forward_output.count());
          }
          if (op.parameters > 0 && op.gemm) {
            CHECK(op.input_grad == op.forward);
            CHECK(op.weight_grad == op.forward);
          }
          if (op.kind == model::OpKind::batched_gemm || op.attention) {
            CHECK(op.weight_grad.count() == 0);
          }
        }
      };
      const Shard one = shard(1, 1024, 1, false);
      for (int i = 0; i < m.layers; ++i) {
        add(model::build_layer(m, model::layer_kind(m, i), one, style));
      }
      add(model::build_head(m, one, style));
      const double whole = model::step_flops(m, 1024, 1,
                                             fused ? model::FlopConvention::megatron_causal
                                                   : model::FlopConvention::megatron_full)
                               .count();
      const double forward = model::forward_flops(m, 1024, fused).count();
      CHECK(forward + backward == Approx(whole + 0.5 * attention).epsilon(1e-12));
    }
  }
}

TEST_CASE("Fused attention moves its inputs and outputs once") {
  const auto m = test::llama3_70b();
  const auto g = model::build_layer(m, LayerKind::dense, shard(1, 8192, 8, true), Style{});
  for (const auto& op : g.operators) {
    if (!op.attention) {
      continue;
    }
    const std::int64_t qkv = 2 * 8192 * (64 + 2 * 8) / 8 * 128;
    const std::int64_t out = 2 * 8192 * 64 / 8 * 128;
    const std::int64_t lse = 4 * 8192 * 64 / 8;
    CHECK(op.forward_moved == Bytes(qkv + out + lse));
    CHECK(op.backward_moved == Bytes(2 * qkv + 2 * out + lse));
    // dq in fp32, rowsum(dO O) in fp32, gradients of keys and values for each query head.
    CHECK(op.backward_temporary == Bytes(2 * out + lse + 2 * out));
  }
}

TEST_CASE("FLOPs are linear in the micro-batch and fall with 1/t") {
  for (const auto& m : models()) {
    INFO(m.name);
    for (const auto kind : {LayerKind::dense, LayerKind::moe}) {
      if (kind == LayerKind::moe && !m.moe) {
        continue;
      }
      const auto layer = [&](std::int64_t b, int t) {
        Shard r = shard(b, 1024, t, t > 1);
        if (m.moe) {
          r.expert_tensor = t;
        }
        return forward(model::build_layer(m, kind, r, Style{}));
      };
      CHECK(layer(3, 1) == Approx(3 * layer(1, 1)).epsilon(1e-12));
      for (const int t : {2, 4, 8}) {
        CHECK(layer(2, t) * t == Approx(layer(2, 1)).epsilon(1e-12));
      }
    }
  }
}

TEST_CASE("Tensor shards hold the replicated parameters and 1/t of the others") {
  for (const auto& m : models()) {
    INFO(m.name);
    for (const auto kind : {LayerKind::dense, LayerKind::moe}) {
      if (kind == LayerKind::moe && !m.moe) {
        continue;
      }
      const auto held = [&](int t) {
        Shard r = shard(1, 1024, t, t > 1);
        if (m.moe) {
          r.expert_tensor = t;
        }
        return parameters(model::build_layer(m, kind, r, Style{}));
      };
      // Replicated: norms, biases of row-parallel linears, MLA's down projections, router.
      const std::int64_t h = m.hidden;
      const std::int64_t norm = m.norm == job::Norm::layer ? 2 : 1;
      std::int64_t replicated = (m.parallel_block ? 1 : 2) * norm * h;
      if (m.biases.attention_out) {
        replicated += h;
      }
      if (m.biases.mlp) {
        replicated += h;
      }
      if (m.qk_norm) {
        replicated += 2 * m.head_dim;
      }
      if (m.mla) {
        replicated +=
            m.mla->q_lora_rank * (h + 1) + m.mla->kv_lora_rank * (h + 1) + m.mla->qk_rope_dim * h;
      }
      if (kind == LayerKind::moe) {
        replicated += m.moe->experts * h;
        if (m.moe->router_bias) {
          replicated += m.moe->experts;
        }
        if (m.moe->shared_gate) {
          replicated += h;
        }
      }
      for (const int t : {2, 4, 8}) {
        CHECK(t * (held(t) - replicated) == held(1) - replicated);
      }
    }
    const auto ends = [&](int t) {
      const Shard r = shard(1, 1024, t, t > 1);
      return parameters(model::build_embedding(m, r, Style{})) +
             parameters(model::build_head(m, r, Style{}));
    };
    std::int64_t replicated = (m.norm == job::Norm::layer ? 2 : 1) * m.hidden;
    if (m.positions == job::Positions::learned) {
      replicated += m.max_positions * m.hidden;
    }
    for (const int t : {2, 4, 8}) {
      CHECK(t * (ends(t) - replicated) == ends(1) - replicated);
    }
  }
}

TEST_CASE("Expert parallelism cuts experts alone") {
  const auto m = test::mixtral_8x7b();
  Shard r = shard(1, 4096, 1, false);
  const auto whole = model::build_layer(m, LayerKind::moe, r, Style{});
  r.expert = 4;
  const auto quarter = model::build_layer(m, LayerKind::moe, r, Style{});
  // Rows from several ranks are sorted by expert and back, which takes two more operators.
  REQUIRE(whole.operators.size() + 2 == quarter.operators.size());
  for (const auto& a : whole.operators) {
    const auto b = std::find_if(quarter.operators.begin(), quarter.operators.end(),
                                [&](const auto& other) { return other.name == a.name; });
    INFO(a.name);
    REQUIRE(b != quarter.operators.end());
    CHECK(a.parameters == b->parameters * (a.expert_parameters ? 4 : 1));
    // Balanced load: a rank sends as many rows as it receives.
    CHECK(a.forward == b->forward);
  }
}

TEST_CASE("A Llama layer keeps the bytes of the fused-attention formula") {
  // Per token, bf16, no dropout: norm inputs and outputs 8 h; q, k, v and the attention output 2 (2
  // a + 2 k) d; gate, up and their product 2 * 3 f; log-sum-exp 4 a; all but the first divided by
  // t, and that too with sequence parallelism (facts: Megatron with Transformer Engine).
  const auto m = test::llama3_70b();
  for (const int t : {1, 2, 8}) {
    for (const bool sp : {false, true}) {
      const std::int64_t tokens = 2 * 8192;
      const std::int64_t per_token = (2 * (2 * 64 + 2 * 8) * 128 + 2 * 3 * 28672 + 4 * 64) / t;
      const std::int64_t norms = sp ? 8 * 8192 / t : 8 * 8192;
      CHECK(saved(model::build_layer(m, LayerKind::dense, shard(2, 8192, t, sp), Style{})) ==
            tokens * (per_token + norms));
    }
  }
}

TEST_CASE("Context parallelism divides tokens, not keys") {
  const auto m = test::llama3_8b();
  Shard r = shard(1, 8192, 1, false);
  const auto whole = model::build_layer(m, LayerKind::dense, r, Style{});
  r.context = 4;
  const auto part = model::build_layer(m, LayerKind::dense, r, Style{});
  CHECK(saved(whole) == 4 * saved(part));
  CHECK(forward(whole) == Approx(4 * forward(part)).epsilon(1e-12));
  for (const auto& op : part.operators) {
    if (!op.attention) {
      continue;
    }
    CHECK(op.attention->query_length == 2048);
    CHECK(op.attention->key_length == 8192);
  }
}

TEST_CASE("Impossible cuts are named") {
  const auto key = [](const job::Model& m, const Shard& r) {
    const auto fault = strategy::shard_fault(m, r);
    return fault ? fault->key : std::string();
  };
  const auto llama = test::llama3_70b();
  CHECK(key(llama, shard(1, 8192, 8, true)).empty());
  CHECK(key(llama, shard(1, 8192, 3, false)) == "parallelism.tensor");
  CHECK(
      key(llama, shard(1, 8192, 16, false)).empty());  // two ranks share each of 8 key-value heads
  job::Model gated = llama;
  gated.attention_gate = true;
  CHECK(key(gated, shard(1, 8192, 16, false)) == "parallelism.tensor");
  CHECK(key(llama, shard(1, 8190, 4, true)) == "parallelism.sequence_parallel");
  Shard context = shard(1, 8192, 1, false);
  context.context = 3;
  CHECK(key(llama, context) == "parallelism.context");
  Shard expert = shard(1, 8192, 1, false);
  expert.expert = 2;
  CHECK(key(llama, expert) == "parallelism.expert");
  CHECK(key(test::mixtral_8x7b(), expert).empty());
  expert.expert = 3;
  CHECK(key(test::mixtral_8x7b(), expert) == "parallelism.expert");
  expert.expert = 2;
  expert.tensor = 2;
  CHECK(key(test::mixtral_8x7b(), expert) == "parallelism.sequence_parallel");
}

TEST_CASE("Megatron pads the vocabulary to a multiple of divisor times tensor size") {
  CHECK(model::padded_vocab(50257, 128, 1) == 50304);
  CHECK(model::padded_vocab(50257, 128, 8) == 51200);
  CHECK(model::padded_vocab(128256, 128, 8) == 129024);
  CHECK(model::padded_vocab(50257, 1, 8) == 50257);
}
