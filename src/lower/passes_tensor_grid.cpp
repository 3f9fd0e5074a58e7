// Linear layers over a grid of tensor ranks, as Colossal-AI has them (legacy/nn/layer/parallel_2d,
// 2p5d, 3d).
//
// 2D (SUMMA; Xu et al., 2104.05343): q x q ranks hold blocks of X, W and Y. Y = X W takes q steps;
// step k broadcasts block column k of X in the rows and block row k of W in the columns, one step
// ahead of the product. dX = dY W^T broadcasts W and reduces dX, dW = X^T dY broadcasts X and
// reduces dW. 2.5D (Wang et al., 2105.14500): `depth` such layers share the batch and hold copies
// of W, whose gradients they reduce. 3D (Bian et al., 2105.14450): l x l x l ranks; X, W and Y are
// each cut over all ranks. Y = X W gathers X along one side, W along the second and reduce-scatters
// Y along the third; both gradients likewise.
//
// The graph is cut as for q (l) tensor ranks with sequence parallelism and 1/q (1/(q depth), 1/l^2)
// of the sequences.
#include "pass_builder.h"

namespace stepcast::lower {

using cost::Collective;
using cost::Layout;
using model::Operator;
using model::OpKind;
using model::TensorRole;
using program::Category;

namespace {

bool gridded(const Operator& op) {
  return op.kind == OpKind::gemm &&
         (op.tensor == TensorRole::column || op.tensor == TensorRole::row ||
          op.tensor == TensorRole::vocab_head);
}

}  // namespace

// The rank's blocks of X[m, k], W[k, n] and Y[m, n]: columns of X and Y are cut over the side of
// the grid.
model::Gemm PassBuilder::grid_block(const Operator& op) const {
  model::Gemm g = *op.gemm;
  (op.tensor == TensorRole::row ? g.n : g.k) /= tensor_;
  return g;
}

bool PassBuilder::grid_product(std::size_t i, Layout layout, Category category, Items& out) {
  const Operator& op = graph_.operators[i];
  if (!gridded(op)) {
    return false;
  }
  if (plan_.job.parallelism.tensor_kind == job::TensorKind::three_d) {
    cube_product(op, layout, category, out);
  } else {
    square_product(op, layout, category, out);
  }
  return true;
}

void PassBuilder::square_product(const Operator& op, Layout layout, Category category, Items& out) {
  const model::Gemm g = grid_block(op);
  const std::int64_t x = gemm_bytes(g.m, g.k, 1);
  const std::int64_t w = gemm_bytes(g.k, g.n, 1);
  const bool forward = layout == Layout::forward;
  const bool input = layout == Layout::input_grad;
  const std::string name = forward ? op.name : op.name + (input ? " dgrad" : " wgrad");
  const auto fetch = [&] {
    if (!input) {
      collective(out, kTensorRow, false, Collective::broadcast, x, Category::tensor, name + " x");
    }
    if (forward || input) {
      collective(out, kTensorColumn, false, Collective::broadcast, w, Category::tensor,
                 name + " w");
    }
  };
  const auto arrived = [&] {
    if (!input) {
      join(out, kTensorRow);
    }
    if (forward || input) {
      join(out, kTensorColumn);
    }
  };
  const model::Gemm product = forward ? g
                              : input ? model::Gemm{g.m, g.k, g.n, 1}
                                      : model::Gemm{g.k, g.n, g.m, 1};
  const cost::Priced priced = matrix(op, product, layout, false);
  fetch();
  for (int step = 0; step < tensor_; ++step) {
    arrived();
    if (step + 1 < tensor_) {
      fetch();
    }
    kernel(out, priced, 1, category, name);
    if (input) {
      collective(out, kTensorRow, false, Collective::reduce, x, Category::tensor, name);
    } else if (!forward) {
      collective(out, kTensorColumn, false, Collective::reduce, w, Category::tensor, name);
    }
  }
  if (!forward) {
    join(out, input ? kTensorRow : kTensorColumn);
  }
  if (layout == Layout::weight_grad &&
      plan_.job.parallelism.tensor_kind == job::TensorKind::two_half_d) {
    collective(out, kTensorDepth, true, Collective::all_reduce, w, Category::tensor, name);
  }
}

void PassBuilder::cube_product(const Operator& op, Layout layout, Category category, Items& out) {
  model::Gemm g = grid_block(op);
  g.m *= tensor_;  // the graph holds 1/l^2 of the rows, a product 1/l
  const std::int64_t x = gemm_bytes(g.m, g.k, 1);
  const std::int64_t w = gemm_bytes(g.k, g.n, 1);
  const std::int64_t y = gemm_bytes(g.m, g.n, 1);
  const auto move = [&](Role role, Collective what, std::int64_t bytes, const char* label) {
    collective(out, role, true, what, bytes, Category::tensor, op.name + label);
  };
  switch (layout) {
    case Layout::forward:
      move(kTensorRow, Collective::all_gather, x, " x");
      move(kTensorColumn, Collective::all_gather, w, " w");
      kernel(out, matrix(op, g, layout, false), 1, category, op.name);
      move(kTensorDepth, Collective::reduce_scatter, y, " y");
      return;
    case Layout::input_grad:
      move(kTensorDepth, Collective::all_gather, y, " dy");
      move(kTensorColumn, Collective::all_gather, w, " w");
      kernel(out, matrix(op, {g.m, g.k, g.n, 1}, layout, false), 1, category, op.name + " dgrad");
      move(kTensorRow, Collective::reduce_scatter, x, " dx");
      return;
    case Layout::weight_grad:  // dY is still there
      move(kTensorRow, Collective::all_gather, x, " x");
      kernel(out, matrix(op, {g.k, g.n, g.m, 1}, layout, false), 1, category, op.name + " wgrad");
      move(kTensorColumn, Collective::reduce_scatter, w, " dw");
      return;
  }
}

// Rows of norms and of the loss are cut: two sums a row are reduced over them, in either pass (mean
// and variance; their gradients), and three of the vocabulary-parallel loss. The embedding's table
// is cut over the vocabulary: its rows are summed over the ranks that hold it.
void PassBuilder::grid_around(std::size_t i, bool backward, Items& out) {
  const Operator& op = graph_.operators[i];
  const std::int64_t rows = plan_.shard.sequences * plan_.shard.sequence_length;
  const auto reduce = [&](int times) {
    for (int n = 0; n < times; ++n) {
      collective(out, kTensorRow, true, Collective::all_reduce, 4 * rows, Category::tensor,
                 op.name);
    }
  };
  if (op.kind == OpKind::norm && op.tensor == TensorRole::none) {
    reduce(2);
  } else if (op.kind == OpKind::cross_entropy && !backward) {
    reduce(3);
  } else if (op.tensor == TensorRole::vocab_embedding) {
    collective(out, kTensorColumn, true,
               backward ? Collective::all_gather : Collective::reduce_scatter, output_bytes(op),
               Category::tensor, backward ? op.name + " grad" : op.name);
  }
}

model::OperatorGraph cut_parameters(const model::OperatorGraph& graph, const strategy::Plan& plan) {
  model::OperatorGraph out = graph;
  const std::int64_t side = plan.shard.tensor;
  const bool cube = plan.job.parallelism.tensor_kind == job::TensorKind::three_d;
  for (Operator& op : out.operators) {
    // The graph's products are cut over one side already, its norms are not.
    const std::int64_t ranks =
        side * (cube ? side : 1) * (op.tensor == TensorRole::none ? side : 1);
    op.parameters = (op.parameters + ranks - 1) / ranks;
  }
  return out;
}

}  // namespace stepcast::lower
