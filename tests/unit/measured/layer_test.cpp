// The kernels of a measured layer are those of the model. They are derived from its published sizes
// and not from the operator graph of the plan.
#include <string>
#include <vector>

#include "catch.hpp"
#include "stepcast/config/config.h"
#include "stepcast/measured/kernels.h"

using namespace stepcast;
using interop::AttentionCase;
using interop::GemmCase;
using interop::GemmLayout;
using interop::LayerCase;
using interop::MemoryCase;
using measured::LayerKernel;

namespace {

LayerCase layer(std::int64_t sequences, std::int64_t length, int tensor, bool backward) {
  LayerCase c;
  c.sequences = sequences;
  c.length = length;
  c.tensor = tensor;
  c.backward = backward;
  return c;
}

std::vector<LayerKernel> layer_kernels(const job::Model& model, const LayerCase& what) {
  return std::get<0>(measured::layer_kernels(model, what));
}

bool refused(const std::string& model, const LayerCase& what) {
  return std::holds_alternative<Infeasible>(measured::layer_kernels(config::model(model), what));
}

template <typename Case>
std::vector<Case> all(const std::vector<LayerKernel>& kernels) {
  std::vector<Case> found;
  for (const LayerKernel& kernel : kernels) {
    if (const auto* what = std::get_if<Case>(&kernel.what)) {
      found.push_back(*what);
    }
  }
  return found;
}

double flops(const std::vector<GemmCase>& gemms) {
  double sum = 0;
  for (const GemmCase& g : gemms) {
    sum += 2.0 * static_cast<double>(g.m) * static_cast<double>(g.n) * static_cast<double>(g.k) *
           static_cast<double>(g.batch) * g.groups;
  }
  return sum;
}

}  // namespace

TEST_CASE("Llama 3 8B forward: four products, one attention, norms, rotary, SwiGLU, two adds") {
  const job::Model model = config::model("llama-3-8b");
  const auto kernels = layer_kernels(model, layer(2, 4096, 1, false));
  const auto gemms = all<GemmCase>(kernels);
  // hidden 4096, 32 heads and 8 key-value heads of 128, MLP 14336; 8192 tokens.
  REQUIRE(gemms.size() == 4);
  const auto is = [](const GemmCase& g, std::int64_t m, std::int64_t n, std::int64_t k) {
    return g.m == m && g.n == n && g.k == k && g.layout == GemmLayout::forward &&
           !g.accumulate_fp32 && g.groups == 1 && g.batch == 1;
  };
  CHECK(is(gemms[0], 8192, (32 + 8 + 8) * 128, 4096));
  CHECK(is(gemms[1], 8192, 4096, 4096));
  CHECK(is(gemms[2], 8192, 2 * 14336, 4096));
  CHECK(is(gemms[3], 8192, 4096, 14336));
  const auto attention = all<AttentionCase>(kernels);
  REQUIRE(attention.size() == 1);
  AttentionCase expected;
  expected.sequences = 2;
  expected.length = 4096;
  expected.heads = 32;
  expected.kv_heads = 8;
  expected.head_dim = 128;
  CHECK(attention[0] == expected);
  int norms = 0, activations = 0, adds = 0;
  for (const LayerKernel& kernel : kernels) {
    if (const auto* m = std::get_if<MemoryCase>(&kernel.what)) {
      norms += m->op == "norm" ? kernel.launches : 0;
      activations += m->op == "activation" ? kernel.launches : 0;
      adds += m->op == "add" ? kernel.launches : 0;
      CHECK_FALSE(m->backward);
      if (m->op == "norm") {
        CHECK(m->bytes == 2 * 2 * 8192 * 4096);
      }
      if (m->op == "activation") {
        CHECK(m->bytes == 3 * 2 * 8192 * 14336);
      }
    }
  }
  CHECK(norms == 2);
  CHECK(activations == 1);
  CHECK(adds == 2 + 2);  // residuals; rotation of queries and of keys
}

TEST_CASE("backward: each product twice, the last operator first") {
  const job::Model model = config::model("llama-3-8b");
  const auto forward = all<GemmCase>(layer_kernels(model, layer(1, 2048, 1, false)));
  const auto kernels = layer_kernels(model, layer(1, 2048, 1, true));
  const auto gemms = all<GemmCase>(kernels);
  REQUIRE(gemms.size() == 2 * forward.size());
  CHECK(flops(gemms) == 2 * flops(forward));
  for (std::size_t i = 0; i < forward.size(); ++i) {
    const GemmCase& f = forward[forward.size() - 1 - i];
    const GemmCase& dgrad = gemms[2 * i];
    const GemmCase& wgrad = gemms[2 * i + 1];
    CHECK(dgrad.layout == GemmLayout::input_grad);
    CHECK((dgrad.m == f.m && dgrad.n == f.k && dgrad.k == f.n));
    CHECK_FALSE(dgrad.accumulate_fp32);
    CHECK(wgrad.layout == GemmLayout::weight_grad);
    CHECK((wgrad.m == f.k && wgrad.n == f.n && wgrad.k == f.m));
    CHECK_FALSE(wgrad.accumulate_fp32);
  }
  REQUIRE(all<AttentionCase>(kernels).size() == 1);
  CHECK(all<AttentionCase>(kernels)[0].backward);
  CHECK(std::holds_alternative<MemoryCase>(kernels.front().what));  // a residual addition
}

TEST_CASE("tensor parallelism divides the products, and not the norms") {
  const job::Model model = config::model("llama-3-8b");
  const auto one = layer_kernels(model, layer(1, 4096, 1, false));
  const auto four = layer_kernels(model, layer(1, 4096, 4, false));
  CHECK(flops(all<GemmCase>(one)) == 4 * flops(all<GemmCase>(four)));
  CHECK(all<AttentionCase>(four)[0].heads == 8);
  CHECK(all<AttentionCase>(four)[0].kv_heads == 2);
  CHECK(all<MemoryCase>(one)[0] == all<MemoryCase>(four)[0]);
}

TEST_CASE("experts are grouped products; the router's product is not 8-bit") {
  const job::Model model = config::model("mixtral-8x7b");
  LayerCase what = layer(1, 4096, 1, false);
  what.dtype = job::DType::fp8;
  const auto gemms = all<GemmCase>(layer_kernels(model, what));
  int grouped = 0;
  for (const GemmCase& g : gemms) {
    if (g.groups > 1) {
      ++grouped;
      CHECK(g.groups == 8);
      CHECK(g.m == 4096 * 2 / 8);  // two experts per token, balanced
      CHECK(g.dtype == job::DType::fp8);
    }
    if (g.n == 8) {
      CHECK(g.dtype == job::DType::bf16);
    }
  }
  CHECK(grouped == 2);
}

TEST_CASE("8-bit layers keep 16-bit activations") {
  LayerCase what = layer(1, 4096, 1, false);
  what.dtype = job::DType::mxfp8;
  const auto kernels = layer_kernels(config::model("llama-3-8b"), what);
  for (const GemmCase& g : all<GemmCase>(kernels)) {
    CHECK(g.dtype == job::DType::mxfp8);
  }
  for (const MemoryCase& m : all<MemoryCase>(kernels)) {
    CHECK(m.dtype == job::DType::bf16);
  }
  CHECK(all<AttentionCase>(kernels)[0].dtype == job::DType::bf16);
}

TEST_CASE("a layer that cannot be cut or has no kernel is refused") {
  CHECK(refused("llama-3-8b", layer(1, 4096, 3, false)));
  CHECK(refused("llama-3-8b", layer(1, 0, 1, false)));
  // Latent attention: queries of 192, values of 128.
  CHECK(refused("deepseek-v3", layer(1, 4096, 1, false)));
}
