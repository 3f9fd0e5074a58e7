// One unit's operators as kernels and collectives in issue order: operators by the table of
// pass_operators.cpp, what surrounds or replaces them by the features of pass_features.cpp.
#include "passes.h"

#include <algorithm>
#include <cmath>

#include "../data/data_parallel.h"
#include "pass_feature.h"
#include "pass_operators.h"
#include "passes_loss.h"
#include "passes_memory.h"
#include "passes_parameters.h"
#include "passes_tensor_grid.h"
#include "passes_tiles.h"

namespace stepcast::lower {
namespace {

using cost::Layout;
using model::Operator;
using program::Category;

class PassWriter {
 public:
  PassWriter(const model::OperatorGraph& graph, const PassContext& context, const Redone& redone)
      : state_(graph, context, redone), features_(make_features(state_)) {
    state_.relief = relief();
  }

  Passes build() {
    Passes out;
    const std::size_t n = state_.graph.operators.size();
    write(out.forward, Category::compute);
    for (std::size_t i = 0; i < n; ++i) {
      forward(i);
    }
    write(out.recompute, Category::recompute);
    const bool whole = state_.redone.empty();  // else operators run again by themselves
    for (std::size_t i = 0; whole && i < operators_again(state_.plan.recompute, state_.graph);
         ++i) {
      forward(i);
    }
    backward_pass(out.backward);
    add_parameters(state_, out);
    add_memory(state_, features_, out);
    return out;
  }

 private:
  // By both passes of the unit's own operators.
  double relief() {
    const cost::Kernels& kernels = *state_.context.kernels;
    if (kernels.relief(Time{1}, Time{1}) == 1) {  // of a device where no mixture raises it
      return 1;
    }
    std::vector<Item> items;
    Time products{0};
    Time others{0};
    state_.out = &items;
    for (const Operator& op : state_.graph.operators) {
      // Attention whose draw is not known gives nothing and takes nothing.
      if (op.kind == model::OpKind::fused_attention &&
          !kernels.power_bound(model::attention_kernel(state_.plan.style, *op.attention))) {
        continue;
      }
      const OperatorEmitter& emitter = emitter_of(op.kind);
      items.clear();
      for (auto* const emit : {emitter.forward, emitter.input_grad, emitter.weight_grad}) {
        if (emit != nullptr) {
          emit(state_, op);
        }
      }
      for (const Item& item : items) {
        (item.slowdown == kArithmeticBound ? products : others) += item.duration;
      }
    }
    state_.out = nullptr;
    return kernels.relief(products, others);
  }

  void write(std::vector<Item>& to, Category category) {
    state_.out = &to;
    state_.category = category;
  }

  // Each operator in reverse, behind those that must have run again before it.
  void backward_pass(std::vector<Item>& to) {
    const std::vector<Replay> replayed = replays(state_.graph, state_.redone);
    const std::size_t loss = loss_outside();
    for (std::size_t i = state_.graph.operators.size(); i-- > 0;) {
      for (const Replay& replay : replayed) {
        if (replay.before == i) {
          for (const std::size_t j : replay.operators) {
            again(j, to);
          }
        }
      }
      remake_ahead_of(i, to);
      if (gathers_again(i) || scatters_again(i)) {
        again(i, to);
      }
      write(to, Category::compute);
      backward(i);
      if (i == loss) {
        Item enters;
        enters.kind = Item::Kind::model;
        to.push_back(enters);
      }
    }
  }

  // Operators whose results are not kept run again, all that follow each other at once: ahead of
  // the backward pass of what reads the last of them, or of its own where that ends the unit.
  void remake_ahead_of(std::size_t i, std::vector<Item>& to) {
    const auto& operators = state_.graph.operators;
    const bool ends = i + 1 == operators.size();
    if (operators[i].remade && !ends) {
      return;
    }
    std::size_t first = i;
    while (first > 0 && operators[first - 1].remade) {
      --first;
    }
    const std::size_t end = operators[i].remade ? i + 1 : i;
    for (std::size_t j = first; j < end; ++j) {
      again(j, to);
    }
  }

  // The operator behind whose backward pass the model's own begins, where that matters; else none.
  std::size_t loss_outside() const {
    const auto& operators = state_.graph.operators;
    const bool outside = prefetches_behind_loss(state_.plan);
    const auto first = std::find_if(operators.begin(), operators.end(), [](const Operator& op) {
      return op.kind == model::OpKind::cross_entropy;
    });
    if (!outside || first == operators.end()) {
      return operators.size();
    }
    const auto at = static_cast<std::size_t>(first - operators.begin());
    return at > 0 && operators[at - 1].name == kLossCast ? at - 1 : at;
  }

  // The operator's own kernels, or what a feature does instead.
  void part(std::size_t i, Layout layout) {
    for (const auto& feature : features_) {
      if (feature->in_place_of(i, layout)) {
        return;
      }
    }
    const Operator& op = state_.graph.operators[i];
    const OperatorEmitter& emitter = emitter_of(op.kind);
    auto* const emit = layout == Layout::forward      ? emitter.forward
                       : layout == Layout::input_grad ? emitter.input_grad
                                                      : emitter.weight_grad;
    emit(state_, op);
  }

  void forward(std::size_t i) {
    for (const auto& feature : features_) {
      feature->before_forward(i);
    }
    part(i, Layout::forward);
    for (auto feature = features_.rbegin(); feature != features_.rend(); ++feature) {
      (*feature)->after_forward(i);
    }
  }

  void backward(std::size_t i) {
    for (const auto& feature : features_) {
      feature->before_backward(i);
    }
    const bool replaced = std::any_of(features_.begin(), features_.end(), [&](const auto& feature) {
      return feature->in_place_of_backward(i);
    });
    if (!replaced && !state_.graph.operators[i].forward_only) {
      gradients(i);
    }
    for (auto feature = features_.rbegin(); feature != features_.rend(); ++feature) {
      (*feature)->after_backward(i);
    }
  }

  void gradients(std::size_t i) {
    const Operator& op = state_.graph.operators[i];
    if (emitter_of(op.kind).weight_grad == nullptr) {
      part(i, Layout::input_grad);
      if (op.kind == model::OpKind::embedding) {  // those of norms take some microseconds
        accumulate_gradient(state_, op);
      }
      return;
    }
    for (const auto& feature : features_) {
      feature->before_input_grad(i);
    }
    part(i, Layout::input_grad);
    for (const auto& feature : features_) {
      feature->after_input_grad(i);
    }
    const bool frozen = op.parameters == 0 && (op.frozen > 0 || op.weight_grad.count() == 0);
    if (!frozen) {
      state_.weight = true;
      part(i, Layout::weight_grad);
      state_.weight = false;
    }
    for (const auto& feature : features_) {
      feature->after_weight_grad(i);
    }
    // Autograd's hooks run once the linear's own function has returned, and so behind what it waits
    // for (Megatron-LM, core/tensor_parallel/layers.py: handle.wait() ahead of its return).
    if (!frozen) {
      state_.weight = true;
      accumulate_gradient(state_, op);
      state_.weight = false;
    }
  }

  // A policy keeps the product's result and not what it gathered, which its weights' gradient
  // reads.
  bool gathers_again(std::size_t i) const {
    return state_.plan.tensor_parallel.saves_gathered_input && !keeps_collectives(state_.plan) &&
           i < state_.redone.size() && state_.redone[i].kind == Redo::Kind::kept &&
           state_.graph.operators[i].tensor == model::TensorRole::column;
  }

  // Nor what is scattered behind it, which what follows reads.
  bool scatters_again(std::size_t i) const {
    return i < state_.redone.size() && state_.redone[i].kind == Redo::Kind::kept &&
           scatters_anew(i);
  }

  bool scatters_anew(std::size_t i) const {
    return by_policy(state_.redone) && !state_.plan.tensor_parallel.keeps_scattered_results &&
           scatters_result(state_.plan.shard, state_.graph.operators[i]);
  }

  // Forward again, inside the backward pass: as the first time, but for the share of the products
  // that a policy keeps and for collectives whose results it keeps.
  void again(std::size_t i, std::vector<Item>& to) {
    if (!by_policy(state_.redone)) {
      if (i < state_.redone.size() && state_.redone[i].share <= 0) {  // the function has stopped
        return;
      }
      write(to, Category::recompute);
      forward(i);
      return;
    }
    std::vector<Item> all;
    write(all, Category::recompute);
    forward(i);
    const double share = state_.redone[i].share;
    for (Item& item : all) {
      const bool collects = item.kind != Item::Kind::kernel && item.kind != Item::Kind::host &&
                            item.kind != Item::Kind::tile;
      const bool gathers = collects && item.role == kTensor && !keeps_collectives(state_.plan) &&
                           state_.graph.operators[i].tensor == model::TensorRole::column;
      const bool scatters = collects && item.role == kTensor && scatters_anew(i);
      const bool routes = collects && item.role == kExpert &&
                          !state_.plan.tensor_parallel.keeps_scattered_results &&
                          runs_again(state_.redone, i);
      if (item.kind == Item::Kind::kernel) {
        item.duration =
            Time(static_cast<std::int64_t>(static_cast<double>(item.duration.count()) * share));
      }
      if (gathers || scatters || routes ||
          (!collects && share > 0 && runs_again(state_.redone, i))) {
        to.push_back(item);
      }
    }
  }

  PassState state_;
  PassFeatures features_;
};

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
      const auto time = static_cast<double>(item.duration.count());
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

// The halves of schedules that split the backward pass.
void split_backward(Passes& passes) {
  for (const Item& item : passes.backward) {
    (item.weight ? passes.weight_grad : passes.input_grad).push_back(item);
  }
  for (Item& item : passes.backward) {
    item.weight = false;  // one pass: neighbours merge
  }
}

}  // namespace

Passes build_passes(const model::OperatorGraph& graph, const PassContext& context,
                    const Redone& redone) {
  Passes out = on_grid(*context.plan)
                   ? PassWriter(cut_parameters(graph, *context.plan), context, redone).build()
                   : PassWriter(graph, context, redone).build();
  for (auto* items : {&out.forward, &out.recompute, &out.backward}) {
    settle_kinds(*items);
    link_tiles(*items);
  }
  split_backward(out);
  return out;
}

}  // namespace stepcast::lower
