// Memory-centric tiling: a linear as a sequence of smaller ones (ZeRO-Infinity, 2104.07857, section
// 5.1.3; deepspeed/runtime/zero/tiling.py: TiledLinear with out_splits). Each has a part of the
// outputs, is a module of its own, gathered when its turn comes and given up behind it.
#include "passes_tiles.h"

#include "pass_feature.h"
#include "pass_products.h"

namespace stepcast::lower {

using cost::Layout;
using model::Operator;

void link_tiles(std::vector<Item>& items) {
  std::int64_t next = 0;
  for (auto item = items.rbegin(); item != items.rend(); ++item) {
    if (item->kind == Item::Kind::tile) {
      item->next_elements = next;
      next = item->elements > 0 ? item->elements : next;
    }
  }
}

// A layer's trained linear whose tiles are not so small that DeepSpeed keeps them whole
// (stage3_param_persistence_threshold).
bool tiled(const strategy::Plan& plan, const Operator& op) {
  const int tiles = plan.offload.tiling;
  return tiles > 1 && op.gemm && op.kind == model::OpKind::gemm &&
         op.module != model::Module::head && op.parameters > 0 && op.frozen == 0 &&
         !op.expert_parameters && op.gemm->n >= tiles &&
         op.gemm->n * op.gemm->k / tiles > plan.parameter_gather.persistent_elements;
}

namespace {

class TiledLinears : public PassFeature {
 public:
  explicit TiledLinears(PassState& state) : state_(state), tiles_(state.plan.offload.tiling) {}

  bool in_place_of(std::size_t i, Layout layout) override {
    const Operator& op = state_.graph.operators[i];
    if (layout != Layout::forward || !tiled(state_.plan, op)) {
      return false;
    }
    model::Gemm part = *op.gemm;
    part.n = columns(op);
    for (int t = 0; t < tiles_; ++t) {
      tile(elements(op), false);
      kernel(state_, {product(state_, op, part, Layout::forward), 1, op.name + " tile"});
    }
    tile(0, false);
    memory_kernel(state_, cost::MemoryOp::copy, 2 * output_bytes(state_, op),
                  op.name + " tiles together");
    return true;
  }

  // Both gradients tile by tile; the input's gradient is the sum of the tiles'.
  bool in_place_of_backward(std::size_t i) override {
    const Operator& op = state_.graph.operators[i];
    if (!tiled(state_.plan, op)) {
      return false;
    }
    const model::Gemm& g = *op.gemm;
    const std::int64_t n = columns(op);
    for (int t = 0; t < tiles_; ++t) {
      tile(elements(op), true);
      kernel(state_, {product(state_, op, {g.m, g.k, n, g.batch}, Layout::input_grad), 1,
                      op.name + " tile dgrad"});
      if (t > 0) {
        memory_kernel(state_, cost::MemoryOp::elementwise, 3 * input_bytes(state_, op),
                      op.name + " add input gradients");
      }
      kernel(state_, {product(state_, op, {g.k, n, g.m, g.batch}, Layout::weight_grad), 1,
                      op.name + " tile wgrad"});
    }
    tile(0, false);
    return true;
  }

 private:
  std::int64_t columns(const Operator& op) const { return (op.gemm->n + tiles_ - 1) / tiles_; }
  std::int64_t elements(const Operator& op) const { return op.gemm->n * op.gemm->k / tiles_; }

  void tile(std::int64_t elements, bool makes_gradient) {
    Item item;
    item.kind = Item::Kind::tile;
    item.weight = state_.weight;
    item.elements = elements;
    item.makes_gradient = makes_gradient;
    state_.out->push_back(item);
  }

  PassState& state_;
  int tiles_;
};

}  // namespace

std::unique_ptr<PassFeature> make_tiles(PassState& state) {
  return state.plan.offload.tiling > 1 ? std::make_unique<TiledLinears>(state) : nullptr;
}

}  // namespace stepcast::lower
