// GEMMs: the shapes of real models, a space-filling sweep, experts' grouped products, and a few
// that are held at the power limit.
#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <set>

#include "harness/estimate.h"
#include "harness/plan.h"
#include "stepcast/config/config.h"
#include "stepcast/model/operators.h"
#include "stepcast/strategy/rules.h"

namespace stepcast::harness {
namespace {

using interop::GemmCase;
using interop::GemmLayout;
using interop::GpuCase;
using job::DType;

struct Shape {
  std::int64_t m = 0, n = 0, k = 0;
  auto operator<=>(const Shape&) const = default;
};

// The three passes of a linear layer.
GemmCase pass(const Shape& s, GemmLayout layout) {
  switch (layout) {
    case GemmLayout::forward:
      return {.layout = layout, .m = s.m, .n = s.n, .k = s.k};
    case GemmLayout::input_grad:
      return {.layout = layout, .m = s.m, .n = s.k, .k = s.n};
    case GemmLayout::weight_grad:
      break;
  }
  return {.layout = GemmLayout::weight_grad, .m = s.k, .n = s.n, .k = s.m};
}

constexpr std::array kLayouts = {GemmLayout::forward, GemmLayout::input_grad,
                                 GemmLayout::weight_grad};

std::vector<job::Model> models_of(const PlanOptions& options) {
  std::vector<job::Model> models;
  for (const std::string& name : options.models.empty() ? config::list("models") : options.models) {
    models.push_back(config::model(name));
  }
  return models;
}

// Of every linear of every model, forward, as the operator graph has it.
std::vector<Shape> linear_shapes(const std::vector<job::Model>& models) {
  std::set<Shape> shapes;
  for (const job::Model& m : models) {
    for (const int tensor : {1, 2, 4, 8}) {
      for (const std::int64_t tokens : {1024, 2048, 4096, 8192, 16384}) {
        model::Shard shard;
        shard.sequence_length = tokens;
        shard.tensor = tensor;
        shard.expert_tensor = tensor;
        if (strategy::shard_fault(m, shard)) {
          continue;
        }
        const auto add = [&](const model::OperatorGraph& graph) {
          for (const model::Operator& op : graph.operators) {
            if (op.kind == model::OpKind::gemm && op.gemm) {
              shapes.insert({op.gemm->m, op.gemm->n, op.gemm->k});
            }
          }
        };
        const model::Style style;
        add(model::build_layer(m, model::layer_kind(m, m.layers - 1), shard, style));
        add(model::build_head(m, shard, style));
      }
    }
  }
  return {shapes.begin(), shapes.end()};
}

bool whole(const GemmCase& c, std::int64_t by) {
  return c.m % by == 0 && c.n % by == 0 && c.k % by == 0;
}

// cublasLt asks 8-bit operands for rows of whole 16 bytes, and is slow on 16-bit ones without.
std::int64_t alignment(DType dtype) {
  return dtype == DType::fp8 ? 16 : dtype == DType::fp8_block ? 128 : 1;
}

// The radical inverse of i: the i-th point of Halton's sequence in one dimension (Halton 1960).
double halton(std::uint64_t i, std::uint64_t base) {
  double value = 0;
  double digit = 1;
  for (; i > 0; i /= base) {
    digit /= static_cast<double>(base);
    value += digit * static_cast<double>(i % base);
  }
  return value;
}

// s, one execution: larger products behave as these. Types that little training uses get by with
// less, so that each has enough shapes for a fit within the shortest usual run.
double longest(DType dtype) {
  const bool major = dtype == DType::bf16 || dtype == DType::fp8 || dtype == DType::fp8_block;
  return major ? 20e-3 : 4e-3;
}

// Evenly over log m, log n, log k: what models do not cover, so that a fit need not extrapolate.
std::vector<GpuCase> sweep(DType dtype, const Abilities& on, std::size_t points,
                           std::uint64_t seed) {
  const std::int64_t align = std::max<std::int64_t>(alignment(dtype), 8);
  const auto between = [](double u, double low, double high) {
    return low * std::pow(high / low, u);
  };
  const auto rounded = [](double value, std::int64_t to) {
    return std::max<std::int64_t>(to, std::llround(value / static_cast<double>(to)) * to);
  };
  std::vector<GpuCase> cases;
  for (std::uint64_t i = 1 + seed % 1024; cases.size() < points && i < 20 * points + 1024; ++i) {
    GemmCase c;
    c.dtype = dtype;
    c.layout = kLayouts.at(static_cast<std::size_t>(3 * halton(i, 7)));
    // Every fourth has a ragged number of tokens: rows of the operands, never their length, which
    // would be another matter (src/cost/row_alignment.h).
    const bool weights = c.layout == GemmLayout::weight_grad;
    const bool ragged = align == 8 && halton(i, 11) < 0.25;
    const auto of_rows = [&](bool tokens) { return ragged && tokens ? 1 : align; };
    c.m =
        std::max<std::int64_t>(16, rounded(between(halton(i, 2), 16, 1 << 20), of_rows(!weights)));
    c.n = rounded(between(halton(i, 3), 64, 1 << 16), align);
    c.k = rounded(between(halton(i, 5), 64, 1 << 16), of_rows(weights));
    if (seconds_once(c, on) <= longest(dtype) && memory_of(c) < on.memory / 2) {
      cases.emplace_back(c);
    }
  }
  return cases;
}

Strand of_models(DType dtype, const std::vector<Shape>& shapes, double share, std::size_t most,
                 const Abilities& on, const PlanOptions& options, bool accumulate = false) {
  Strand strand{.share = share, .cases = {}};
  for (const Shape& shape : shapes) {
    for (const GemmLayout layout : kLayouts) {
      GemmCase c = pass(shape, layout);
      c.dtype = dtype;
      c.accumulate_fp32 = accumulate;
      if (whole(c, alignment(dtype)) && seconds_once(c, on) <= longest(dtype) &&
          (!accumulate || layout == GemmLayout::weight_grad)) {
        strand.cases.emplace_back(c);
      }
    }
  }
  shuffle(strand.cases, options.seed);
  strand.cases.resize(std::min(strand.cases.size(), most));
  return strand;
}

Strand experts(DType dtype, const std::vector<job::Model>& models, double share, std::size_t most,
               const PlanOptions& options) {
  Strand strand{.share = share, .cases = {}};
  for (const job::Model& m : models) {
    if (!m.moe) {
      continue;
    }
    const std::int64_t up = (m.gated_mlp ? 2 : 1) * m.moe->ffn;
    for (int groups = 2; groups <= std::min(m.moe->experts, 64); groups *= 2) {
      for (const std::int64_t tokens : {64, 256, 1024, 4096, 8192}) {
        for (const Shape& shape :
             {Shape{tokens, up, m.hidden}, Shape{tokens, m.hidden, m.moe->ffn}}) {
          for (const GemmLayout layout : kLayouts) {
            GemmCase c = pass(shape, layout);
            c.dtype = dtype;
            c.groups = groups;
            if (whole(c, std::min<std::int64_t>(alignment(dtype), 16))) {
              strand.cases.emplace_back(c);
            }
          }
        }
      }
    }
  }
  shuffle(strand.cases, options.seed);
  strand.cases.resize(std::min(strand.cases.size(), most));
  return strand;
}

GpuCase sustained(DType dtype, std::int64_t m, std::int64_t n, std::int64_t k) {
  GemmCase c{.dtype = dtype, .m = m, .n = n, .k = k};
  c.sustained = true;
  return c;
}

}  // namespace

std::vector<Strand> gemm_strands(const Abilities& on, const PlanOptions& options) {
  const std::vector<job::Model> models = models_of(options);
  const std::vector<Shape> shapes = linear_shapes(models);
  struct Row {
    DType dtype;
    double models, sweep, experts;               // shares of the time
    std::size_t most, most_sweep, most_experts;  // cases
  };
  // Training runs in bf16 and fp8: these get most of the time.
  constexpr std::array<Row, 6> kRows = {{
      {DType::bf16, 10, 5, 3, 1200, 500, 200},
      {DType::fp8, 6, 3, 1.5, 600, 300, 100},
      {DType::fp8_block, 4, 2, 0.5, 400, 200, 50},
      {DType::fp16, 1.2, 0.8, 0, 150, 80, 0},
      {DType::tf32, 1.8, 1, 0, 150, 80, 0},
      {DType::fp32, 2.2, 1.2, 0, 120, 60, 0},
  }};
  std::vector<Strand> strands;
  for (const Row& row : kRows) {
    if (!on.has(row.dtype)) {
      continue;
    }
    strands.push_back(of_models(row.dtype, shapes, row.models, row.most, on, options));
    strands.push_back(
        {.share = row.sweep, .cases = sweep(row.dtype, on, row.most_sweep, options.seed)});
    if (row.experts > 0) {
      strands.push_back(experts(row.dtype, models, row.experts, row.most_experts, options));
    }
  }
  strands.push_back(of_models(DType::bf16, shapes, 1.5, 150, on, options, true));
  Strand held{.share = 4, .cases = {}};
  for (const Shape& s :
       {Shape{8192, 8192, 8192}, Shape{16384, 16384, 4096}, Shape{4096, 28672, 8192}}) {
    for (const DType dtype :
         {DType::bf16, DType::fp8, DType::fp8_block, DType::fp16, DType::tf32}) {
      const bool first = s.m == 8192;
      if (on.has(dtype) && (first || dtype == DType::bf16 || dtype == DType::fp8)) {
        held.cases.push_back(sustained(dtype, s.m, s.n, s.k));
      }
    }
  }
  strands.push_back(std::move(held));
  return strands;
}

}  // namespace stepcast::harness
