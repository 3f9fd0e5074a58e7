#include "memory_budget.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>

namespace stepcast::lower {
namespace {

using model::Operator;
using model::OperatorGraph;

struct Product {
  std::size_t op = 0;
  double part = 1;
  double bytes = 0;
  double flops = 0;
};

// Results of collectives, which always stay (partitioners.py:2343, force_save_collectives): what
// products over tensor ranks gather, and the parts of their sums.
struct Collected {
  double gathered = 0;
  double scattered = 0;
};

Collected collected_bytes(const strategy::Plan& plan, const OperatorGraph& graph,
                          const Redone& redone) {
  Collected out;
  const double ranks = plan.shard.tensor;
  if (ranks == 1 || !plan.shard.sequence_parallel) {
    return out;
  }
  for (std::size_t i = 0; i < graph.operators.size(); ++i) {
    const Operator& op = graph.operators[i];
    if (op.gemm && op.tensor == model::TensorRole::column) {
      out.gathered += static_cast<double>(op.gemm->m) * static_cast<double>(op.gemm->k) *
                      bytes_per_element(plan.style.dtype);
    } else if (scatters_result(plan.shard, op) && read_backward(graph, redone, i)) {
      out.scattered += static_cast<double>(op.forward_output.count()) / ranks;
    }
  }
  return out;
}

// What a compiled layer keeps by itself beside its input.
double kept_bytes(const OperatorGraph& graph) {
  std::map<std::uint32_t, double> storages;
  for (const Operator& op : graph.operators) {
    for (const model::Saved& saved : op.saved) {
      if (maker_of(graph, saved.storage)) {
        storages[saved.storage] = static_cast<double>(saved.bytes.count());
      }
    }
  }
  double out = 0;
  for (const auto& [storage, bytes] : storages) {
    out += bytes;
  }
  return out;
}

// torch's formula of attention ignores the causal mask (utils/flop_counter.py: sdpa_flop).
double counted_flops(const Operator& op) {
  const double flops = op.forward.count();
  return op.attention && op.attention->causal ? 2 * flops : flops;
}

// Bytes of all results: attention's kernel has the sums of rows beside its own.
double result_bytes(const Operator& op) {
  auto out = static_cast<double>(op.forward_output.count());
  for (const model::Saved& saved : op.saved) {
    out += op.attention && saved.name == "lse" ? static_cast<double>(saved.bytes.count()) : 0;
  }
  return out;
}

// Products whose results the backward pass reads, and not only the part of a sum.
std::vector<Product> products_of(const strategy::Plan& plan, const OperatorGraph& graph,
                                 const Redone& redone,
                                 const std::vector<std::vector<double>>& parts) {
  std::vector<Product> out;
  for (std::size_t i = 0; i < graph.operators.size(); ++i) {
    const Operator& op = graph.operators[i];
    if (redone[i].kind != Redo::Kind::kept || !read_backward(graph, redone, i) ||
        scatters_result(plan.shard, op)) {
      continue;
    }
    for (const double part : parts[i]) {
      out.push_back({i, part, part * result_bytes(op), part * counted_flops(op)});
    }
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const Product& a, const Product& b) { return a.bytes > b.bytes; });
  return out;
}

// The items that stay: the most FLOPs that fit, by torch's table over ten-thousandths of the whole
// in single precision, of equal sums that without the later item
// (_activation_checkpointing/knapsack.py:64, dp_knapsack).
std::vector<bool> knapsack(const std::vector<Product>& items, double whole, double budget) {
  constexpr double kScale = 10000;
  const auto most = static_cast<std::size_t>(std::nearbyint(budget * kScale));
  std::vector<std::size_t> weights;
  for (const Product& item : items) {
    weights.push_back(static_cast<std::size_t>(std::nearbyint(item.bytes / whole * kScale)));
  }
  std::vector<std::vector<float>> best(items.size() + 1, std::vector<float>(most + 1, 0.0F));
  for (std::size_t i = 0; i < items.size(); ++i) {
    const auto flops = static_cast<float>(items[i].flops);
    best[i + 1] = best[i];
    for (std::size_t j = weights[i]; j <= most; ++j) {
      best[i + 1][j] = std::max(best[i][j], best[i][j - weights[i]] + flops);
    }
  }
  std::vector<bool> stays(items.size());
  std::size_t j = most;
  for (std::size_t i = items.size(); i-- > 0;) {
    stays[i] = best[i + 1][j] != best[i][j];
    j -= stays[i] ? weights[i] : 0;
  }
  return stays;
}

}  // namespace

std::vector<double> products_again(const strategy::Plan& plan, const OperatorGraph& graph,
                                   const Redone& redone,
                                   const std::vector<std::vector<double>>& parts) {
  std::vector<double> out(graph.operators.size());
  const double budget = plan.recompute.share;
  const std::vector<Product> products = products_of(plan, graph, redone, parts);
  const Collected collected = collected_bytes(plan, graph, redone);
  // Of what is gathered, this rank's part is counted among the tensors that operators save.
  const double whole = kept_bytes(graph) + collected.scattered +
                       collected.gathered * (plan.shard.tensor - 1) / plan.shard.tensor;
  double kept = collected.gathered + collected.scattered;
  for (const Product& product : products) {
    kept += product.bytes;
  }
  if (products.empty() || whole <= 0 || kept < budget * whole) {
    return out;
  }
  const std::vector<bool> stays = knapsack(products, whole, budget);
  for (std::size_t n = 0; n < products.size(); ++n) {
    out[products[n].op] += stays[n] ? 0 : products[n].part;
  }
  return out;
}

}  // namespace stepcast::lower
