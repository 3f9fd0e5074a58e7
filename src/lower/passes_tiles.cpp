// Memory-centric tiling: a linear as a sequence of smaller ones (ZeRO-Infinity, 2104.07857, section
// 5.1.3; deepspeed/runtime/zero/tiling.py: TiledLinear with out_splits). Each has a part of the
// outputs, is a module of its own, gathered when its turn comes and given up behind it.
#include "pass_builder.h"

namespace stepcast::lower {

using model::OpKind;
using program::Category;

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
bool PassBuilder::tiled(const Operator& op) const {
  const int tiles = plan_.job.memory.offload.tiling;
  return tiles > 1 && op.gemm && op.kind == OpKind::gemm && op.module != model::Module::head &&
         op.parameters > 0 && op.frozen == 0 && !op.expert_parameters && op.gemm->n >= tiles &&
         op.gemm->n * op.gemm->k / tiles > plan_.job.system.persistent_elements;
}

void PassBuilder::tile(std::int64_t elements, bool makes_gradient, Items& out) {
  Item item;
  item.kind = Item::Kind::tile;
  item.weight = weight_;
  item.elements = elements;
  item.makes_gradient = makes_gradient;
  out.push_back(item);
}

bool PassBuilder::tiled_product(const Operator& op, Category category, Items& out) {
  if (!tiled(op)) {
    return false;
  }
  const int tiles = plan_.job.memory.offload.tiling;
  model::Gemm part = *op.gemm;
  part.n = (op.gemm->n + tiles - 1) / tiles;
  for (int t = 0; t < tiles; ++t) {
    tile(op.gemm->n * op.gemm->k / tiles, false, out);
    kernel(out, matrix(op, part, cost::Layout::forward, false), 1, category, op.name + " tile");
  }
  tile(0, false, out);
  kernel(out, context_.kernels->memory(cost::MemoryOp::copy, Bytes(2 * output_bytes(op))), 1,
         category, op.name + " tiles together", kMemoryBound);
  return true;
}

// The input's gradient is the sum of the tiles'.
bool PassBuilder::tiled_backward(const Operator& op, Items& out) {
  if (!tiled(op)) {
    return false;
  }
  const int tiles = plan_.job.memory.offload.tiling;
  const model::Gemm& g = *op.gemm;
  const std::int64_t n = (g.n + tiles - 1) / tiles;
  for (int t = 0; t < tiles; ++t) {
    tile(g.n * g.k / tiles, true, out);
    kernel(out, matrix(op, {g.m, g.k, n, g.batch}, cost::Layout::input_grad, false), 1,
           Category::compute, op.name + " tile dgrad");
    if (t > 0) {
      kernel(out, context_.kernels->memory(cost::MemoryOp::elementwise, Bytes(3 * input_bytes(op))),
             1, Category::compute, op.name + " add input gradients", kMemoryBound);
    }
    kernel(out, matrix(op, {g.k, n, g.m, g.batch}, cost::Layout::weight_grad, false), 1,
           Category::compute, op.name + " tile wgrad");
  }
  tile(0, false, out);
  return true;
}

}  // namespace stepcast::lower
