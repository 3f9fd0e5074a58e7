// Which operators a recomputation names: Megatron-LM's modules (megatron/core/transformer,
// --recompute-modules) and torchtitan's selective policy (torchtitan/distributed/
// activation_checkpoint.py).
#include <algorithm>
#include <numeric>
#include <string_view>
#include <utility>
#include <vector>

#include "memory_budget.h"
#include "redone.h"

namespace stepcast::lower {

using model::Module;
using model::Operator;
using model::OperatorGraph;
using model::OpKind;

namespace {

bool has(const std::vector<std::string>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// A norm of the residual stream: before, or behind, a block.
bool block_norm(const Operator& op) {
  return op.kind == OpKind::norm &&
         (op.name == "attention_norm" || op.name == "cross_norm" || op.name == "mlp_norm");
}

// All of an attention block but the norms before and behind it.
bool in_attention(const Operator& op) {
  return (op.module == Module::attention || op.module == Module::core_attention) &&
         op.kind != OpKind::residual && !block_norm(op) && op.name != "attention_post_norm";
}

// A norm of the router or of what experts return, which a layer of experts runs itself
// (Megatron-Bridge 0.6.2, models/gemma/modeling_gemma4.py:1430, custom_forward).
bool branch_norm(const Operator& op) {
  return op.kind == OpKind::norm && (op.name == "router_norm" || op.name == "experts_post_norm" ||
                                     op.name == "shared_post_norm");
}

// Transformer Engine runs this norm inside the product that reads it (LayerNormLinear): it is no
// module of its own, and an MLP's checkpoint begins before it. MLA's and a mixture of experts' are
// apart (gpt_layer_specs.py).
bool inside_product(const strategy::Plan& plan, const OperatorGraph& graph, const Operator& op) {
  if (!plan.recompute.norms_in_products) {
    return false;
  }
  const bool experts = std::any_of(graph.operators.begin(), graph.operators.end(),
                                   [](const Operator& o) { return o.kind == OpKind::router; });
  return op.name == "mlp_norm" ? !experts : !plan.model.mla;
}

Redo::Kind kind_of(const strategy::Plan& plan, const OperatorGraph& graph, const Operator& op) {
  const auto& modules = plan.recompute.modules;
  // Whole regions keep what they read and what is read of them.
  if (has(modules, "core_attn") && op.module == Module::core_attention) {
    return Redo::Kind::again;
  }
  const bool residual = op.kind == OpKind::residual;
  if (has(modules, "block_norms") && block_norm(op)) {
    return Redo::Kind::again;
  }
  if (has(modules, "attn") && in_attention(op)) {
    return Redo::Kind::again;
  }
  if (has(modules, "mlp") && op.module == Module::mlp && !residual &&
      (!block_norm(op) || inside_product(plan, graph, op)) && op.name != "mlp_post_norm") {
    return Redo::Kind::again;
  }
  const bool shared = op.module == Module::shared_expert;
  if (has(modules, "moe") && (op.module == Module::moe || shared) && !residual &&
      (op.kind != OpKind::norm || branch_norm(op))) {
    return Redo::Kind::again;
  }
  // Megatron-Bridge 0.6.2, recipes/deepseek/h100/deepseek_v4.py:104: what hyper-connections make.
  if (has(modules, "mhc") && op.module == Module::streams) {
    return Redo::Kind::again;
  }
  if (has(modules, "shared_experts") && shared && op.name != "shared_add" && !branch_norm(op)) {
    return Redo::Kind::again;
  }
  // Modules whose output is dropped once it has been read.
  if (has(modules, "norm") && block_norm(op)) {
    return Redo::Kind::dropped;
  }
  if (has(modules, "layernorm") && block_norm(op) && !inside_product(plan, graph, op)) {
    return Redo::Kind::dropped;
  }
  // gpt-oss's clamps are in the function that runs again (Megatron-LM core 0.15.0 to 0.16.1,
  // transformer/moe/experts.py: bias_act_func).
  if (has(modules, "moe_act") && (op.name == "expert_act" || op.name == "expert_clamp")) {
    return Redo::Kind::dropped;
  }
  if (has(modules, "act") && op.kind == OpKind::activation) {
    return Redo::Kind::dropped;
  }
  if (has(modules, "mla_up_proj") && plan.model.mla) {
    const bool norm = op.name == "q_norm" || op.name == "kv_norm";
    const bool up = op.name == "q_up" || op.name == "q" || op.name == "kv_up";
    const bool rotates = op.kind == OpKind::rotary && op.module == Module::attention;
    if (up || rotates || (norm && plan.recompute.norms_in_products)) {
      return Redo::Kind::dropped;
    }
  }
  return Redo::Kind::no;
}

// Torch's checkpoint without reentrance stops ahead of a function's last product, which saves only
// what it reads (redone.h, operators_again).
void stop_early(const OperatorGraph& graph, Redone& redone) {
  for (const Replay& replay : replays(graph, redone)) {
    // A frozen product saves its weight.
    const auto last =
        std::find_if(replay.operators.rbegin(), replay.operators.rend(), [&](std::size_t i) {
          return !graph.operators[i].saved.empty() || graph.operators[i].gemm;
        });
    if (last == replay.operators.rend() || !graph.operators[*last].gemm) {
      continue;
    }
    for (const std::size_t i : replay.operators) {
      redone[i].share = i >= *last ? 0 : redone[i].share;
    }
  }
}

Redone by_modules(const strategy::Plan& plan, const OperatorGraph& graph) {
  Redone out(graph.operators.size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    const Operator& op = graph.operators[i];
    out[i].kind = kind_of(plan, graph, op);
    if (plan.recompute.blocks && block_norm(op)) {
      out[i].region = static_cast<int>(i) + 1;
    }
  }
  if (plan.recompute.stops_early) {
    stop_early(graph, out);
  }
  return out;
}

// The last operator that saves anything.
std::size_t last_saving(const OperatorGraph& graph) {
  std::size_t last = 0;
  for (std::size_t i = 0; i < graph.operators.size(); ++i) {
    last = graph.operators[i].saved.empty() ? last : i;
  }
  return last;
}

// Share of each of the products that an operator stands for: of queries, keys and values by heads.
std::vector<double> parts_of(const strategy::Plan& plan, const Operator& op) {
  const int parts = op.kind == OpKind::gemm ? std::max(op.forward_kernels, 1) : 1;
  if (op.gemm && !op.columns.empty()) {
    const auto all =
        static_cast<double>(std::accumulate(op.columns.begin(), op.columns.end(), std::int64_t{0}));
    std::vector<double> out;
    for (const std::int64_t one : op.columns) {
      out.push_back(static_cast<double>(one) / all);
    }
    return out;
  }
  if (parts == 3) {
    const auto heads = static_cast<double>(plan.model.heads + 2 * plan.model.kv_heads);
    return {plan.model.heads / heads, plan.model.kv_heads / heads, plan.model.kv_heads / heads};
  }
  return std::vector<double>(static_cast<std::size_t>(parts), 1.0 / parts);
}

// torchao's products in 4 bits are an autograd function over kernels of its own (torchtitan 0.3.0,
// components/quantization/nvfp4.py:77), of which the policy sees no `mm`; those in 8 bits are `mm`
// of a tensor subclass.
bool hides_products(const strategy::Plan& plan) {
  return plan.precision.casts_operands_twice && plan.precision.products == DType::nvfp4;
}

// The policy keeps the part that each rank has of such a product's sum (passes_tensor_cut.cpp,
// kept_scattered_result). A compiled layer then drops the product itself, which nothing else reads.
bool unread(const strategy::Plan& plan, const Operator& op) {
  return plan.style.compiled && scatters_result(plan.shard, op);
}

// Of what the policy keeps, the products that a budget lets stay.
Redone within_budget(const strategy::Plan& plan, const OperatorGraph& graph, Redone redone) {
  std::vector<std::vector<double>> parts;
  for (const Operator& op : graph.operators) {
    parts.push_back(parts_of(plan, op));
  }
  const std::vector<double> again = products_again(plan, graph, redone, parts);
  for (std::size_t i = 0; i < redone.size(); ++i) {
    if (again[i] > 0) {
      redone[i] = {Redo::Kind::dropped, std::min(again[i], 1.0)};
    }
  }
  return redone;
}

// Results of attention kernels and of every second product, beginning with the first, stay; grouped
// products are no `mm`. Redoing stops at the last operator that saves anything (early_stop).
// `products`: those of all products stay, as where torch.compile has a budget of memory
// (torch 2.15, _functorch/partitioners.py:3569, choose_saved_values_set: of what is cheap to make
// again nothing is kept; below that some products run again, memory_budget.h).
Redone selective_policy(const strategy::Plan& plan, const OperatorGraph& graph) {
  const bool keeps_products = plan.recompute.policy == "products";
  Redone out(graph.operators.size());
  const std::size_t end = last_saving(graph);
  int products = 0;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const Operator& op = graph.operators[i];
    out[i].kind = Redo::Kind::dropped;
    if (op.kind == OpKind::fused_attention) {
      out[i].kind = Redo::Kind::kept;
    } else if ((op.kind == OpKind::gemm || op.kind == OpKind::router) && op.gemm &&
               (keeps_products || !hides_products(plan))) {
      double again = 0;
      for (const double part : parts_of(plan, op)) {
        again += !keeps_products && ++products % 2 == 0 ? part : 0;
      }
      out[i].share = again > 0 ? again : 1;
      const bool drops = again > 0 || (keeps_products && unread(plan, op));
      out[i].kind = drops ? Redo::Kind::dropped : Redo::Kind::kept;
    }
    if (out[i].kind == Redo::Kind::dropped && unread(plan, op)) {
      out[i].share = 0;
    }
    if (i >= end && out[i].kind == Redo::Kind::dropped) {
      out[i] = {};
    }
  }
  return plan.recompute.share < 1 ? within_budget(plan, graph, std::move(out)) : out;
}

// A prediction layer's checkpoint lies between the embedding that it reads and its own norm, ahead
// of the model's head (megatron-core 0.16.1, transformer/multi_token_prediction.py:842; 0.19.2,
// :1405). In blocks such layers do not run again.
Redone ahead_of_head(const OperatorGraph& graph) {
  Redone out(graph.operators.size());
  for (std::size_t i = 0; i < out.size() && graph.operators[i].name != "final_norm"; ++i) {
    if (graph.operators[i].kind != OpKind::embedding) {
      out[i].kind = Redo::Kind::again;
    }
  }
  return out;
}

}  // namespace

bool redoes_units(const strategy::Recompute& recompute) {
  using Kind = RecomputeKind;
  switch (recompute.kind) {
    case Kind::full:
    case Kind::every:
    case Kind::uniform:
    case Kind::block:
    case Kind::optimal:
      return true;
    default:
      return false;
  }
}

std::size_t operators_again(const strategy::Recompute& recompute, const OperatorGraph& graph) {
  return recompute.stops_early ? last_saving(graph) : graph.operators.size();
}

Redone redone_of(const strategy::Plan& plan, const OperatorGraph& graph) {
  switch (plan.recompute.kind) {
    case RecomputeKind::selective:
    case RecomputeKind::modules:
      return by_modules(plan, graph);
    case RecomputeKind::per_op:
      return selective_policy(plan, graph);
    case RecomputeKind::full:
    case RecomputeKind::uniform:
      return graph.kind.prediction ? ahead_of_head(graph) : Redone();
    default:
      return {};
  }
}

}  // namespace stepcast::lower
