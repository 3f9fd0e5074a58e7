#include "passes.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "slowdown.h"

namespace stepcast::lower {
namespace {

using model::Operator;
using model::OpKind;
using model::TensorRole;
using program::Category;

std::int64_t round_512(
    std::int64_t bytes) {  // the caching allocator's granule (CUDACachingAllocator.cpp)
  return (bytes + 511) / 512 * 512;
}

class PassBuilder {
 public:
  PassBuilder(const model::OperatorGraph& graph, const PassContext& context, bool selective)
      : graph_(graph), context_(context), plan_(*context.plan), selective_(selective) {
    tensor_ = plan_.shard.tensor;
    sequence_parallel_ = plan_.shard.sequence_parallel;
    dtype_ = plan_.style.dtype;
    gemm_dtype_ = plan_.job.workload.precision;
    width_ = job::bytes_per_element(dtype_);
    find_regions();
  }

  Passes build() {
    Passes out;
    for (std::size_t i = 0; i < graph_.operators.size(); ++i) {
      forward(i, Category::compute, out.forward);
    }
    for (std::size_t i = 0; i < graph_.operators.size(); ++i) {
      forward(i, Category::recompute, out.recompute);
    }
    bool core_done = !selective_;
    for (std::size_t i = graph_.operators.size(); i-- > 0;) {
      if (!core_done && graph_.operators[i].module == model::Module::core_attention) {
        for (std::size_t j = 0; j <= i; ++j) {
          if (graph_.operators[j].module == model::Module::core_attention) {
            forward(j, Category::recompute, out.backward);
          }
        }
        core_done = true;
      }
      backward(i, out.backward);
    }
    for (auto* items : {&out.forward, &out.recompute, &out.backward}) {
      settle_kinds(*items);
    }
    count(out);
    return out;
  }

 private:
  // Data-parallel communication runs beside whole layers: their kernels share the pass's mean kind,
  // so that they merge. What runs beside a tensor collective keeps its own.
  static void settle_kinds(std::vector<Item>& items) {
    double all = 0;
    double memory = 0;
    std::vector<Item*> shared;
    bool beside = false;
    for (Item& item : items) {
      if (item.kind == Item::Kind::async) {
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

  // Column operators that gather their input: each distinct tensor once in a region, which a row
  // operator closes. (MLA's two up-projections read two latents; three linears of one input share
  // its gather.)
  void find_regions() {
    opens_.assign(graph_.operators.size(), false);
    std::set<std::uint32_t> gathered;
    for (std::size_t i = 0; i < graph_.operators.size(); ++i) {
      const Operator& op = graph_.operators[i];
      if (op.tensor == TensorRole::column || op.tensor == TensorRole::vocab_head) {
        const auto input = std::find_if(op.saved.begin(), op.saved.end(),
                                        [](const model::Saved& s) { return s.name == "input"; });
        opens_[i] =
            input == op.saved.end() ? gathered.empty() : gathered.insert(input->storage).second;
      } else if (op.tensor == TensorRole::row) {
        gathered.clear();
      }
    }
  }

  std::int64_t gemm_bytes(std::int64_t rows, std::int64_t columns, std::int64_t batch) const {
    return static_cast<std::int64_t>(static_cast<double>(rows * columns * batch) * width_);
  }
  // Megatron's all-gather dispatcher gathers tokens before they are copied to their top-k experts.
  std::int64_t copies(const Operator& op) const {
    const auto& moe = plan_.job.model.moe;
    const bool gathers_first = plan_.job.moe.dispatcher == job::MoeRuntime::Dispatcher::allgather;
    if (!moe || !gathers_first || op.kind != OpKind::grouped_gemm) {
      return 1;
    }
    return moe->topk;
  }
  std::int64_t input_bytes(const Operator& op) const {
    return op.gemm ? gemm_bytes(op.gemm->m, op.gemm->k, op.gemm->batch) / copies(op)
                   : op.forward_output.count();
  }
  std::int64_t output_bytes(const Operator& op) const {
    return op.gemm ? gemm_bytes(op.gemm->m, op.gemm->n, op.gemm->batch) / copies(op)
                   : op.forward_output.count();
  }

  void collective(std::vector<Item>& out, Item::Kind kind, cost::Collective op, std::int64_t bytes,
                  const std::string& label) {
    Item item;
    item.kind = kind;
    item.category = Category::tensor;
    item.label = context_.labels->id(label + " " + cost::to_string(op));
    item.price = context_.book->key(kTensor, op, bytes);
    item.kernels = 1;
    out.push_back(item);
  }

  void kernel(std::vector<Item>& out, cost::Priced priced, int launches, Category category,
              const std::string& label, std::uint8_t kind = kArithmeticBound) {
    if (launches <= 0) {
      return;
    }
    Item item;
    item.category = category;
    item.kernels = static_cast<std::uint16_t>(launches);
    item.curve = priced.curve;
    item.duration = priced.time.count();
    item.slowdown = kind;
    item.label = context_.labels->id(label);
    out.push_back(item);
  }

  cost::Priced memory(const Operator& op, Bytes moved, int launches) const {
    if (launches <= 1) {
      return context_.kernels->memory(cost::memory_op(op.kind), moved);
    }
    cost::Priced one = context_.kernels->memory(cost::memory_op(op.kind), moved / launches);
    return {one.time * launches, one.curve};
  }

  cost::Priced matrix(const Operator& op, const model::Gemm& shape, cost::Layout layout,
                      bool accumulate) const {
    if (op.kind == OpKind::grouped_gemm) {
      model::Gemm each = shape;
      each.batch = 1;
      return context_.kernels->grouped_gemm(each, static_cast<int>(shape.batch), gemm_dtype_,
                                            layout);
    }
    return context_.kernels->gemm(shape, op.kind == OpKind::batched_gemm ? dtype_ : gemm_dtype_,
                                  layout, accumulate);
  }

  void forward(std::size_t i, Category category, std::vector<Item>& out) {
    const Operator& op = graph_.operators[i];
    if (tensor_ > 1 && sequence_parallel_ && opens_[i]) {
      collective(out, Item::Kind::collective, cost::Collective::all_gather, input_bytes(op),
                 op.name);
    }
    if (op.gemm) {
      kernel(out, matrix(op, *op.gemm, cost::Layout::forward, false), 1, category, op.name);
      if (op.kind == OpKind::router) {
        kernel(out, memory(op, op.forward_moved, op.forward_kernels), op.forward_kernels, category,
               op.name + " probabilities", kMemoryBound);
      }
    } else if (op.attention) {
      kernel(out, context_.kernels->attention(*op.attention, plan_.style.attention, dtype_, false),
             op.forward_kernels, category, op.name);
    } else {
      kernel(out, memory(op, op.forward_moved, op.forward_kernels), op.forward_kernels, category,
             op.name, kMemoryBound);
    }
    if (tensor_ == 1) {
      return;
    }
    if (op.tensor == TensorRole::row || op.tensor == TensorRole::vocab_embedding) {
      collective(
          out, Item::Kind::collective,
          sequence_parallel_ ? cost::Collective::reduce_scatter : cost::Collective::all_reduce,
          output_bytes(op), op.name);
    }
    if (op.kind == OpKind::cross_entropy) {
      // Vocab-parallel loss: maximum, predicted logit and sum of exponentials, one fp32 a token
      // each.
      const std::int64_t bytes = 4 * plan_.shard.sequences * plan_.shard.sequence_length /
                                 std::max(1, plan_.shard.context);
      for (int n = 0; n < 3; ++n) {
        collective(out, Item::Kind::collective, cost::Collective::all_reduce, bytes, op.name);
      }
    }
  }

  void backward(std::size_t i, std::vector<Item>& out) {
    const Operator& op = graph_.operators[i];
    const bool split = tensor_ > 1;
    const bool closes =
        split && (op.tensor == TensorRole::row || op.tensor == TensorRole::vocab_embedding);
    if (closes && sequence_parallel_) {
      collective(out, Item::Kind::collective, cost::Collective::all_gather, output_bytes(op),
                 op.name + " grad");
    }
    if (!op.gemm) {
      const cost::Priced priced =
          op.attention
              ? context_.kernels->attention(*op.attention, plan_.style.attention, dtype_, true)
              : memory(op, op.backward_moved, op.backward_kernels);
      kernel(out, priced, op.backward_kernels, Category::compute, op.name + " backward",
             op.attention ? kArithmeticBound : kMemoryBound);
      return;
    }
    const model::Gemm& g = *op.gemm;
    const model::Gemm dgrad{g.m, g.k, g.n, g.batch};
    const model::Gemm wgrad{g.k, g.n, g.m, g.batch};
    if (op.kind == OpKind::batched_gemm) {  // two products, no weights
      kernel(out, matrix(op, dgrad, cost::Layout::input_grad, false), 1, Category::compute,
             op.name + " backward");
      kernel(out, matrix(op, wgrad, cost::Layout::weight_grad, false), 1, Category::compute,
             op.name + " backward");
      return;
    }
    const bool regather = split && sequence_parallel_ && opens_[i];
    const bool reduces = split && opens_[i];
    const bool async = plan_.job.system.async_tensor_backward;
    if (regather) {  // the saved input is a shard: gathered again for the weight gradient
      collective(out, async ? Item::Kind::async : Item::Kind::collective,
                 cost::Collective::all_gather, input_bytes(op), op.name + " input");
    }
    kernel(out, matrix(op, dgrad, cost::Layout::input_grad, false), 1, Category::compute,
           op.name + " dgrad");
    if (regather && async) {
      out.push_back(join());
    }
    const cost::Collective reduce =
        sequence_parallel_ ? cost::Collective::reduce_scatter : cost::Collective::all_reduce;
    if (reduces && async) {
      collective(out, Item::Kind::async, reduce, input_bytes(op), op.name + " dgrad");
    }
    const auto& memory_job = plan_.job.memory;
    const bool fused = plan_.job.system.gradient_accumulation_fusion &&
                       memory_job.dtypes.gradients == job::DType::fp32;
    kernel(out, matrix(op, wgrad, cost::Layout::weight_grad, fused), 1, Category::compute,
           op.name + " wgrad");
    if (!fused && plan_.micro_batches > 1 && op.parameters > 0) {
      // Accumulation as its own kernel: read the new gradient, read and write the accumulated one.
      const double bytes = static_cast<double>(op.parameters) *
                           (width_ + 2 * job::bytes_per_element(memory_job.dtypes.gradients));
      kernel(out,
             context_.kernels->memory(cost::MemoryOp::elementwise,
                                      Bytes(static_cast<std::int64_t>(bytes))),
             1, Category::compute, "accumulate gradient", kMemoryBound);
    }
    if (reduces) {
      if (async) {
        out.push_back(join());
      } else {
        collective(out, Item::Kind::collective, reduce, input_bytes(op), op.name + " dgrad");
      }
    }
  }

  static Item join() {
    Item item;
    item.kind = Item::Kind::join;
    return item;
  }

  void count(Passes& out) const {
    std::set<std::uint32_t> storages;
    std::int64_t previous_output = 0;
    for (const Operator& op : graph_.operators) {
      for (const model::Saved& saved : op.saved) {
        if (selective_ && op.module == model::Module::core_attention) {
          // Its inputs (query, key, value) are saved by the operators before it, under their own
          // storages.
          if (!kept_elsewhere(saved.storage, op)) {
            continue;
          }
        }
        if (storages.insert(saved.storage).second) {
          out.saved += round_512(saved.bytes.count());
        }
      }
      out.forward_temporary =
          std::max(out.forward_temporary, op.forward_temporary.count() + op.forward_output.count());
      out.backward_temporary =
          std::max(out.backward_temporary,
                   op.backward_temporary.count() + op.forward_output.count() + previous_output);
      previous_output = op.forward_output.count();
      out.parameters += op.parameters;
      out.tensors += op.parameters > 0 ? 1 : 0;
      if (op.tensor == TensorRole::none) {
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
  }

  bool kept_elsewhere(std::uint32_t storage, const Operator& self) const {
    for (const Operator& op : graph_.operators) {
      if (&op == &self || op.module == model::Module::core_attention) {
        continue;
      }
      for (const model::Saved& saved : op.saved) {
        if (saved.storage == storage) {
          return true;
        }
      }
    }
    // What the core reads from outside: query, key and value, whose makers do not need their output
    // themselves.
    return false;
  }

  const model::OperatorGraph& graph_;
  const PassContext& context_;
  const strategy::Plan& plan_;
  bool selective_;
  int tensor_ = 1;
  bool sequence_parallel_ = false;
  job::DType dtype_ = job::DType::bf16;
  job::DType gemm_dtype_ = job::DType::bf16;
  double width_ = 2;
  std::vector<bool> opens_;
};

}  // namespace

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
    if (entries[i].op == op && entries[i].bytes == bytes) {
      return i;
    }
  }
  entries.push_back({op, bytes});
  return static_cast<std::uint32_t>(entries.size() - 1);
}

Passes build_passes(const model::OperatorGraph& graph, const PassContext& context, bool selective) {
  return PassBuilder(graph, context, selective).build();
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
    const bool follows =
        item.kind == Item::Kind::kernel && !out.empty() && out.back().kind == Item::Kind::kernel &&
        out.back().category == item.category && out.back().slowdown == item.slowdown;
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
