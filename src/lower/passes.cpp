// One unit's operators as kernels and collectives in issue order.
#include <algorithm>
#include <cmath>

#include "data_parallel.h"
#include "pass_builder.h"
#include "stepcast/lower/lower.h"

namespace stepcast::lower {

using model::Operator;
using model::OpKind;
using model::TensorRole;
using program::Category;

namespace {

// A product that stands for several of the framework's has their weights, each a parameter of its
// own: queries, keys and values; gate and up.
std::vector<std::int64_t> separate_weights(const job::Model& model, const Operator& op,
                                           std::int64_t weight) {
  const int parts = op.gemm && op.kind == OpKind::gemm ? op.forward_kernels : 1;
  if (parts == 3) {
    const std::int64_t one = weight / (model.heads + 2 * model.kv_heads) * model.kv_heads;
    return {weight - 2 * one, one, one};
  }
  return std::vector<std::int64_t>(static_cast<std::size_t>(std::max(parts, 1)),
                                   weight / std::max(parts, 1));
}

// Data-parallel communication runs beside whole layers: their kernels share the pass's mean kind,
// so that they merge. What runs beside a collective of the layer keeps its own.
void settle_kinds(std::vector<Item>& items) {
  double all = 0;
  double memory = 0;
  std::vector<Item*> shared;
  bool beside = false;
  for (Item& item : items) {
    if (item.kind == Item::Kind::async || item.kind == Item::Kind::ring) {
      beside = true;
    } else if (item.kind == Item::Kind::join) {
      beside = false;
    } else if (item.kind == Item::Kind::kernel && !beside) {
      shared.push_back(&item);
      const auto time = static_cast<double>(item.duration);
      all += time;
      memory += item.slowdown == kMemoryBound ? time : 0;
    }
  }
  const auto kind =
      static_cast<std::uint8_t>(all > 0 ? std::lround(kMemoryBound * memory / all) : 0);
  for (Item* item : shared) {
    item->slowdown = kind;
  }
}

}  // namespace

PassBuilder::PassBuilder(const model::OperatorGraph& graph, const PassContext& context,
                         const Redone& redone)
    : graph_(graph), context_(context), plan_(*context.plan), redone_(redone) {
  tensor_ = plan_.shard.tensor;
  sequence_parallel_ = plan_.shard.sequence_parallel;
  gridded_ = tensor_ > 1 && plan_.job.parallelism.tensor_kind != job::TensorKind::one_d;
  dtype_ = plan_.style.dtype;
  gemm_dtype_ = plan_.job.workload.precision;
  width_ = job::bytes_per_element(dtype_);
  dispatcher_ = plan_.style.routing.dispatcher;
  if (plan_.job.model.moe) {
    rows_ = model::expert_rows(plan_.job.model, plan_.shard, plan_.style.routing);
  }
  find_regions();
}

Passes PassBuilder::build() {
  Passes out;
  for (std::size_t i = 0; i < graph_.operators.size(); ++i) {
    forward(i, Category::compute, out.forward);
  }
  for (std::size_t i = 0; i < graph_.operators.size(); ++i) {
    forward(i, Category::recompute, out.recompute);
  }
  const std::vector<Replay> again = replays(graph_, redone_);
  for (std::size_t i = graph_.operators.size(); i-- > 0;) {
    for (const Replay& replay : again) {
      if (replay.before == i) {
        for (const std::size_t j : replay.operators) {
          this->again(j, out.backward);
        }
      }
    }
    backward(i, out.backward);
  }
  for (auto* items : {&out.forward, &out.recompute, &out.backward}) {
    settle_kinds(*items);
    link_tiles(*items);
  }
  for (const Item& item : out.backward) {
    (item.weight ? out.weight_grad : out.input_grad).push_back(item);
  }
  for (Item& item : out.backward) {
    item.weight = false;  // one pass: neighbours merge
  }
  count(out);
  return out;
}

std::int64_t PassBuilder::gemm_bytes(std::int64_t rows, std::int64_t columns,
                                     std::int64_t batch) const {
  return static_cast<std::int64_t>(static_cast<double>(rows * columns * batch) * width_);
}

std::int64_t PassBuilder::input_bytes(const Operator& op) const {
  return op.gemm ? gemm_bytes(op.gemm->m, op.gemm->k, op.gemm->batch) : op.forward_output.count();
}

std::int64_t PassBuilder::output_bytes(const Operator& op) const {
  return op.gemm ? gemm_bytes(op.gemm->m, op.gemm->n, op.gemm->batch) : op.forward_output.count();
}

void PassBuilder::collective(Items& out, Role role, bool blocking, cost::Collective op,
                             std::int64_t bytes, Category category, const std::string& label) {
  Item item;
  item.kind = blocking ? Item::Kind::collective : Item::Kind::async;
  item.category = category;
  item.role = role;
  item.weight = weight_;
  item.label = context_.labels->id(label + " " + cost::to_string(op));
  item.price = context_.book->key(role, op, bytes);
  // Events and waits between two streams, the work object and its watchdog's entry, NCCL's group
  // calls.
  item.kernels = static_cast<std::uint16_t>(context_.kernels->software().collective_launches);
  out.push_back(item);
}

void PassBuilder::ring_step(Items& out, Role role, std::int64_t bytes, Category category,
                            const std::string& label) {
  Item item;
  item.kind = Item::Kind::ring;
  item.category = category;
  item.role = role;
  item.weight = weight_;
  item.label = context_.labels->id(label);
  item.price = context_.book->message(bytes);
  item.kernels = 1;
  out.push_back(item);
}

void PassBuilder::join(Items& out, Role role) {
  Item item;
  item.kind = Item::Kind::join;
  item.role = role;
  item.weight = weight_;
  out.push_back(item);
}

void PassBuilder::kernel(Items& out, cost::Priced priced, int launches, Category category,
                         const std::string& label, std::uint8_t kind) {
  if (launches <= 0) {
    return;
  }
  Item item;
  item.category = category;
  item.weight = weight_;
  item.kernels = static_cast<std::uint16_t>(launches);
  item.curve = priced.curve;
  item.duration = priced.time.count();
  item.slowdown = kind;
  item.label = context_.labels->id(label);
  out.push_back(item);
}

cost::Priced PassBuilder::memory(const Operator& op, Bytes moved, int launches) const {
  if (launches <= 1) {
    return context_.kernels->memory(cost::memory_op(op.kind), moved);
  }
  cost::Priced one = context_.kernels->memory(cost::memory_op(op.kind), moved / launches);
  return {one.time * launches, one.curve};
}

cost::Priced PassBuilder::matrix(const Operator& op, const model::Gemm& shape, cost::Layout layout,
                                 bool accumulate) const {
  if (op.kind == OpKind::grouped_gemm) {
    model::Gemm each = shape;
    each.batch = 1;
    if (!plan_.job.moe.grouped) {
      const cost::Priced one = context_.kernels->gemm({.shape = each,
                                                       .dtype = product_type(op),
                                                       .layout = layout,
                                                       .accumulate_fp32 = accumulate,
                                                       .operands_cast = true});
      return {one.time * shape.batch, one.curve};
    }
    return context_.kernels->grouped_gemm({.shape = each,
                                           .dtype = product_type(op),
                                           .layout = layout,
                                           .operands_cast = true,
                                           .pace = cost::Pace::training},
                                          static_cast<int>(shape.batch));
  }
  // Casts are kernels of their own (passes_quantise.cpp).
  return context_.kernels->gemm(
      {.shape = shape,
       .dtype = op.kind == OpKind::batched_gemm ? dtype_ : product_type(op),
       .layout = layout,
       .accumulate_fp32 = accumulate,
       .operands_cast = true,
       .pace = cost::Pace::training});
}

// Transformer Engine's grouped product is one of cuBLAS for each expert, over several streams
// (multi_stream_cublas_gemm).
int PassBuilder::launches(const Operator& op) const {
  const bool apart = plan_.job.system.transformer_engine || !plan_.job.moe.grouped;
  return op.kind == OpKind::grouped_gemm && apart ? static_cast<int>(op.gemm->batch) : 1;
}

void PassBuilder::forward(std::size_t i, Category category, Items& out) {
  const Operator& op = graph_.operators[i];
  expert_before(i, out);
  cast_input(i, category, out);
  tensor_before(i, out);
  if (op.gemm) {
    if (!context_product(i, false, category, out) && !tiled_product(op, category, out) &&
        !tensor_product(i, *op.gemm, cost::Layout::forward, category, out)) {
      kernel(out, matrix(op, *op.gemm, cost::Layout::forward, false), launches(op), category,
             op.name);
    }
    if (op.kind == OpKind::router) {
      kernel(out, memory(op, op.forward_moved, op.forward_kernels), op.forward_kernels, category,
             op.name + " probabilities", kMemoryBound);
    }
  } else if (op.attention) {
    if (!context_attention(i, false, category, out)) {
      kernel(out,
             context_.kernels->attention({*op.attention, plan_.style.attention, dtype_, false}),
             op.forward_kernels, category, op.name);
    }
  } else {
    kernel(out, memory(op, op.forward_moved, op.forward_kernels), op.forward_kernels, category,
           op.name, kMemoryBound);
  }
  tensor_after(i, out);
  expert_after(i, out);
}

void PassBuilder::backward(std::size_t i, Items& out) {
  const Operator& op = graph_.operators[i];
  expert_before_backward(i, out);
  cast_gradient(i, out);
  tensor_before_backward(i, out);
  if (op.gemm) {
    gemm_backward(i, out);
  } else if (!op.attention || !context_attention(i, true, Category::compute, out)) {
    const cost::Priced priced =
        op.attention
            ? context_.kernels->attention({*op.attention, plan_.style.attention, dtype_, true})
            : memory(op, op.backward_moved, op.backward_kernels);
    kernel(out, priced, op.backward_kernels, Category::compute, op.name + " backward",
           op.attention ? kArithmeticBound : kMemoryBound);
  }
  expert_after_backward(i, out);
}

void PassBuilder::gemm_backward(std::size_t i, Items& out) {
  const Operator& op = graph_.operators[i];
  const model::Gemm& g = *op.gemm;
  if (tiled_backward(op, out)) {
    return;
  }
  const model::Gemm dgrad{g.m, g.k, g.n, g.batch};
  const model::Gemm wgrad{g.k, g.n, g.m, g.batch};
  if (op.kind == OpKind::batched_gemm) {  // two products, no weights
    if (context_product(i, true, Category::compute, out)) {
      return;
    }
    kernel(out, matrix(op, dgrad, cost::Layout::input_grad, false), 1, Category::compute,
           op.name + " backward");
    kernel(out, matrix(op, wgrad, cost::Layout::weight_grad, false), 1, Category::compute,
           op.name + " backward");
    return;
  }
  tensor_before_dgrad(i, out);
  if (!tensor_product(i, dgrad, cost::Layout::input_grad, Category::compute, out)) {
    kernel(out, matrix(op, dgrad, cost::Layout::input_grad, false), launches(op), Category::compute,
           op.name + " dgrad");
  }
  tensor_between(i, out);
  if (op.parameters == 0 && op.frozen > 0) {  // a frozen base has no gradient of its own
    tensor_after_wgrad(i, out);
    return;
  }
  weight_ = true;
  const auto& memory_job = plan_.job.memory;
  // Megatron-LM's own kernel of 2022 adds to fp32 gradients alone (wgrad_gemm_accum_fp32);
  // Transformer Engine's products add to any.
  const bool fused =
      plan_.job.system.gradient_accumulation_fusion &&
      (memory_job.dtypes.gradients == job::DType::fp32 || plan_.job.system.transformer_engine);
  if (!tensor_product(i, wgrad, cost::Layout::weight_grad, Category::compute, out)) {
    kernel(out, matrix(op, wgrad, cost::Layout::weight_grad, fused), launches(op),
           Category::compute, op.name + " wgrad");
  }
  if (!fused && plan_.micro_batches > 1 && op.parameters > 0 && accumulates_whole(plan_)) {
    // Accumulation as its own kernel: read the new gradient, read and write the accumulated one.
    const double bytes = static_cast<double>(op.parameters) *
                         (width_ + 2 * job::bytes_per_element(memory_job.dtypes.gradients));
    kernel(out,
           context_.kernels->memory(cost::MemoryOp::elementwise,
                                    Bytes(static_cast<std::int64_t>(bytes))),
           1, Category::compute, "accumulate gradient", kMemoryBound);
  }
  weight_ = false;
  tensor_after_wgrad(i, out);
}

// A weight of an operator with its shape. A product's outputs are its rows; what an adapter trains
// beside a frozen weight has another.
Array PassBuilder::shaped(const Operator& op, std::int64_t elements, bool apart) const {
  Array out;
  out.elements = elements;
  out.expert = apart;
  if (op.gemm) {
    const std::int64_t matrices = op.kind == OpKind::grouped_gemm ? op.gemm->batch : 1;
    if (elements % (op.gemm->k * matrices) == 0 && op.frozen == 0) {
      out.columns = op.gemm->k;
      out.rows = elements / (op.gemm->k * matrices);
    }
    out.table = op.tensor == TensorRole::vocab_head;
    out.cast = quantised(op);
  } else if (op.kind == OpKind::embedding) {
    out.columns = plan_.job.model.hidden;
    out.rows = elements / out.columns;
    out.table = true;
    if (out.rows * out.columns != elements) {
      out.rows = out.columns = 0;
    }
  }
  return out;
}

void PassBuilder::count(Passes& out) const {
  for (std::size_t i = 0; i < graph_.operators.size(); ++i) {
    const Operator& op = graph_.operators[i];
    out.flops += op.forward.count();
    out.redone_flops += runs_again(redone_, i) ? op.forward.count() * redone_[i].share : 0;
    // Experts that every data-parallel rank holds are reduced with the dense parameters
    // (Megatron-LM marks them apart under expert parallelism alone).
    const bool apart = op.expert_parameters &&
                       (plan_.shard.expert > 1 || plan_.shard.expert_tensor != plan_.shard.tensor);
    (apart ? out.expert_parameters : out.parameters) += op.parameters;
    // A product's weight, and what else it has: its bias.
    const std::int64_t weight =
        op.gemm ? std::min(op.parameters, op.gemm->k * op.gemm->n * op.gemm->batch) : op.parameters;
    for (const std::int64_t elements : separate_weights(plan_.job.model, op, weight)) {
      if (elements > 0) {
        out.arrays.push_back(shaped(op, elements, apart));
        out.arrays.back().tiled = tiled(op);
      }
    }
    if (op.parameters > weight) {
      Array bias;
      bias.elements = op.parameters - weight;
      bias.expert = apart;
      out.arrays.push_back(bias);
    }
    const double frozen_width = op.frozen_width > 0
                                    ? op.frozen_width
                                    : job::bytes_per_element(plan_.job.memory.dtypes.parameters);
    out.frozen_bytes += static_cast<std::int64_t>(static_cast<double>(op.frozen) * frozen_width);
    out.tensors += op.parameters > 0 ? 1 : 0;
    if (op.tensor == TensorRole::none && !op.expert_parameters) {
      out.replicated += op.parameters;
    }
    out.forward_kernels += op.forward_kernels;
    out.backward_kernels += op.gemm ? 2 : op.backward_kernels;
  }
  const std::int64_t tokens =
      plan_.shard.sequences * plan_.shard.sequence_length / std::max(1, plan_.shard.context);
  out.input =
      round_512(static_cast<std::int64_t>(static_cast<double>(tokens * plan_.job.model.hidden) *
                                          width_ / (sequence_parallel_ ? tensor_ : 1)));
  count_memory(out);
}

// A policy that chooses operators keeps what their collectives bring as well: the reduced results
// of row products, tokens that reached their experts and came back. A unit that is redone from its
// start keeps its input.
std::int64_t PassBuilder::count_policy() const {
  std::int64_t bytes = 0;
  if (!by_policy(redone_)) {
    return 0;
  }
  bool input = false;
  for (const Operator& op : graph_.operators) {
    for (const model::Saved& saved : op.saved) {
      input = input || !maker_of(graph_, saved.storage);
    }
    if (tensor_ > 1 && sequence_parallel_ && op.tensor == TensorRole::row) {
      bytes += round_512(output_bytes(op) / tensor_);
    }
    if (op.expert != model::ExpertRole::none && plan_.shard.expert > 1) {
      const std::int64_t rows =
          op.expert == model::ExpertRole::dispatch ? rows_.received : rows_.sent;
      bytes += round_512(gemm_bytes(rows, plan_.job.model.hidden, 1));
    }
  }
  if (!input) {
    const std::int64_t tokens =
        plan_.shard.sequences * plan_.shard.sequence_length / std::max(1, plan_.shard.context);
    bytes += round_512(gemm_bytes(tokens, plan_.job.model.hidden, 1) /
                       (sequence_parallel_ ? tensor_ : 1));
  }
  return bytes;
}

// Forward again: as the first time, but for the share of the products that a policy keeps and for
// collectives whose results it keeps.
void PassBuilder::again(std::size_t i, Items& out) {
  const double share = redone_[i].share;
  if (!by_policy(redone_)) {
    forward(i, Category::recompute, out);
    return;
  }
  Items all;
  forward(i, Category::recompute, all);
  for (Item& item : all) {
    const bool collects = item.kind != Item::Kind::kernel && item.kind != Item::Kind::host &&
                          item.kind != Item::Kind::tile;
    const bool gathers =
        collects && item.role == kTensor && graph_.operators[i].tensor == model::TensorRole::column;
    if (item.kind == Item::Kind::kernel) {
      item.duration = static_cast<std::int64_t>(static_cast<double>(item.duration) * share);
      out.push_back(item);
    } else if (gathers || !collects) {
      out.push_back(item);
    }
  }
}

const char* group_name(std::uint32_t role) {
  static constexpr const char* kNames[] = {"tensor",
                                           "tensor row",
                                           "tensor column",
                                           "tensor depth",
                                           "data",
                                           "data replicas",
                                           "embedding",
                                           "norm",
                                           "context",
                                           "context inner",
                                           "expert",
                                           "expert tensor",
                                           "tensor expert",
                                           "expert data",
                                           "expert replicas",
                                           "partition",
                                           "pair",
                                           "pipe",
                                           "pipe statistics",
                                           "pipe gradient",
                                           "pipe input",
                                           "pipe input gradient",
                                           "node",
                                           "across nodes"};
  static_assert(std::size(kNames) == kRoles);
  return kNames[role];
}

std::uint32_t Labels::id(const std::string& text) {
  const auto [it, fresh] = ids_.try_emplace(text, static_cast<std::uint32_t>(labels_.size()));
  if (fresh) {
    labels_.push_back(text);
  }
  return it->second;
}

std::uint32_t PriceBook::key(Role role, cost::Collective op, std::int64_t bytes) {
  auto& entries = entries_[role];
  for (std::uint32_t i = 0; i < entries.size(); ++i) {
    if (entries[i].op == op && entries[i].bytes == bytes && !entries[i].tokens) {
      return i;
    }
  }
  entries.push_back({op, bytes});
  return static_cast<std::uint32_t>(entries.size() - 1);
}

std::uint32_t PriceBook::key(Role role, const cost::TokenExchange& tokens) {
  auto& entries = entries_[role];
  const auto at = std::find_if(entries.begin(), entries.end(),
                               [&](const Entry& e) { return e.tokens == tokens; });
  if (at == entries.end()) {
    entries.push_back({cost::Collective::all_to_all, tokens.tokens.count(), tokens});
    return static_cast<std::uint32_t>(entries.size() - 1);
  }
  return static_cast<std::uint32_t>(at - entries.begin());
}

cost::CollectivePrice PriceBook::Entry::price(const cost::Collectives& of,
                                              const cluster::GroupShape& group) const {
  return tokens ? of.exchange(*tokens, group) : of.price(op, Bytes(bytes), group);
}

std::string PriceBook::Entry::name() const { return tokens ? "tokens" : cost::to_string(op); }

std::uint32_t PriceBook::message(std::int64_t bytes) {
  const auto at = std::find(messages_.begin(), messages_.end(), bytes);
  if (at == messages_.end()) {
    messages_.push_back(bytes);
    return static_cast<std::uint32_t>(messages_.size() - 1);
  }
  return static_cast<std::uint32_t>(at - messages_.begin());
}

std::uint32_t PriceBook::movement(const Movement& m) {
  const auto at = std::find(movements_.begin(), movements_.end(), m);
  if (at == movements_.end()) {
    movements_.push_back(m);
    return static_cast<std::uint32_t>(movements_.size() - 1);
  }
  return static_cast<std::uint32_t>(at - movements_.begin());
}

const char* to_string(Carrier by) {
  switch (by) {
    case Carrier::to_device:
      return "host to device";
    case Carrier::to_host:
      return "device to host";
    case Carrier::nvme_read:
      return "NVMe read";
    case Carrier::nvme_write:
      return "NVMe write";
    case Carrier::cpu:
      return "CPU";
  }
  return "";
}

Passes build_passes(const model::OperatorGraph& graph, const PassContext& context,
                    const Redone& redone) {
  if (context.plan->job.parallelism.tensor_kind != job::TensorKind::one_d &&
      context.plan->shard.tensor > 1) {
    return PassBuilder(cut_parameters(graph, *context.plan), context, redone).build();
  }
  return PassBuilder(graph, context, redone).build();
}

program::CurveId Blends::add(const std::map<program::CurveId, std::int64_t>& time_by_curve) {
  std::int64_t total = 0;
  for (const auto& [curve, time] : time_by_curve) {
    total += time;
  }
  std::vector<std::pair<program::CurveId, double>> parts;
  parts.reserve(time_by_curve.size());
  for (const auto& [curve, time] : time_by_curve) {
    parts.emplace_back(curve, total > 0 ? static_cast<double>(time) / static_cast<double>(total)
                                        : 1.0 / static_cast<double>(time_by_curve.size()));
  }
  for (std::size_t i = 0; i < blends_.size(); ++i) {
    if (blends_[i] == parts) {
      return static_cast<program::CurveId>(first_ + i);
    }
  }
  blends_.push_back(std::move(parts));
  return static_cast<program::CurveId>(first_ + blends_.size() - 1);
}

std::vector<Item> merge(const std::vector<Item>& items, std::int64_t launch, Blends& blends) {
  std::vector<Item> out;
  std::map<program::CurveId, std::int64_t> shares;
  auto close = [&] {
    if (shares.size() > 1) {
      out.back().curve = blends.add(shares);
    }
    shares.clear();
  };
  for (const Item& item : items) {
    const bool follows = item.kind == Item::Kind::kernel && !out.empty() &&
                         out.back().kind == Item::Kind::kernel &&
                         out.back().category == item.category &&
                         out.back().slowdown == item.slowdown && out.back().weight == item.weight;
    if (follows && (out.back().more + item.kernels) * launch <= out.back().duration) {
      out.back().duration += item.duration;
      out.back().more = static_cast<std::uint16_t>(out.back().more + item.kernels);
    } else {
      close();
      out.push_back(item);
    }
    if (item.kind == Item::Kind::kernel) {
      shares[item.curve] += item.duration;
    }
  }
  close();
  return out;
}

}  // namespace stepcast::lower
