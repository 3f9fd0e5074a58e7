// What torch.compile makes of a layer, a loss and of what is not compiled.
#include "catch.hpp"
#include "models.h"
#include "operators.h"
#include "stepcast/model/operators.h"

using namespace stepcast;
using test::find;
using test::whole;

namespace {

std::int64_t kept(const model::Operator& op) {
  std::int64_t sum = 0;
  for (const model::Saved& saved : op.saved) {
    sum += saved.bytes.count();
  }
  return sum;
}

model::Style compiled_layers() {
  model::Style s;
  s.loss = job::LossKernel::eager;
  s.compiled = true;
  s.fused_norm = s.fused_qkv = s.fused_gate = s.fused_rotary = false;
  s.fused_bias_activation = s.fused_bias_dropout_add = false;
  return s;
}

// Bytes of everything but products and attention.
struct Fused {
  double forward = 0, backward = 0;  // MiB
};
Fused fused(const model::OperatorGraph& g) {
  constexpr double kMib = 1 << 20;
  Fused out;
  for (const model::Operator& op : g.operators) {
    if (!op.gemm && !op.attention) {
      out.forward += static_cast<double>(op.forward_moved.count()) / kMib;
      out.backward += static_cast<double>(op.backward_moved.count()) / kMib;
    }
  }
  return out;
}

job::Model llama3_8b() { return test::llama("Llama-3 8B", 32, 4096, 32, 8, 14336, 128256); }

// Whether the graphs move as much as was counted, within a tenth; gradients of an input that
// several products read are added up outside the graph (lower/passes), which is why less may be
// backward.
void check_near(const Fused& ours, const Fused& counted) {
  CHECK(ours.forward > 0.9 * counted.forward);
  CHECK(ours.forward < 1.1 * counted.forward);
  CHECK(ours.backward > 0.8 * counted.backward);
  CHECK(ours.backward < 1.1 * counted.backward);
}

}  // namespace

TEST_CASE("fused kernels of a layer of Llama-3 8B move what Inductor's kernels do") {
  const job::Model m = llama3_8b();
  model::Style style = compiled_layers();
  const model::LayerKind kind = model::layer_kind(m, 0);
  // Torch 2.15.0, tests/unit/model/inductor_bytes.py.
  check_near(fused(model::build_layer(m, kind, whole(8192), style)), {1416, 2506.2});
  style.autocast = true;
  check_near(fused(model::build_layer(m, kind, whole(4096), style)), {2088, 2858});
}

TEST_CASE("under autocast a compiled layer makes one 16-bit copy of its input for all products") {
  const job::Model m = llama3_8b();
  model::Style style = compiled_layers();
  style.autocast = true;
  const model::LayerKind kind = model::layer_kind(m, 0);
  const std::int64_t copy = 2 * 4096 * m.hidden;
  const auto copied = [&] {
    return find(model::build_layer(m, kind, whole(4096), style), "qkv_casts").forward_output;
  };
  CHECK(copied() == Bytes(copy));
  style.compiled = false;
  CHECK(copied() == Bytes(3 * copy));
}

TEST_CASE("a compiled loss keeps the logits as they are") {
  const job::Model m = llama3_8b();
  model::Style style = compiled_layers();
  const std::int64_t logits = 4096 * m.vocab;
  const auto loss = [&] { return find(model::build_head(m, whole(4096), style), "loss"); };
  CHECK(kept(loss()) == 4 * logits);
  const Bytes eager = loss().forward_moved;
  style.compiled_loss = true;
  CHECK(kept(loss()) == 2 * logits);
  CHECK(loss().forward_moved < eager);
}

TEST_CASE("where layers alone are compiled the last norm is eager") {
  const job::Model m = llama3_8b();
  model::Style style = compiled_layers();
  const auto norm = [&] { return find(model::build_head(m, whole(4096), style), "final_norm"); };
  const int eager = norm().forward_kernels;
  style.compiled_ends = true;
  CHECK(norm().forward_kernels == 1);
  CHECK(eager > 1);
}

TEST_CASE("one projection of queries, keys and values stays one where it is compiled") {
  const job::Model m = llama3_8b();
  model::Style style = compiled_layers();
  style.copied_qkv = true;
  const auto graph = model::build_layer(m, model::layer_kind(m, 0), whole(4096), style);
  CHECK(find(graph, "qkv").forward_kernels == 1);
  // Rotation reads its part of it: values alone are copied.
  const std::int64_t values = 2 * 4096 * m.kv_heads * m.head_dim;
  CHECK(find(graph, "qkv_split").forward_moved == Bytes(2 * values));
}
