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
#include "passes_tensor_grid.h"

#include "pass_feature.h"
#include "pass_products.h"
#include "passes_tensor.h"

namespace stepcast::lower {

using cost::Collective;
using cost::Layout;
using model::Operator;
using model::OpKind;
using model::TensorRole;
using program::Category;

bool on_grid(const strategy::Plan& plan) {
  return plan.tensor_parallel.kind != TensorKind::one_d && plan.shard.tensor > 1;
}

namespace {

class TensorGrid : public PassFeature {
 public:
  explicit TensorGrid(PassState& state)
      : state_(state), side_(state.plan.shard.tensor), kind_(state.plan.tensor_parallel.kind) {}

  bool in_place_of(std::size_t i, Layout layout) override {
    const Operator& op = state_.graph.operators[i];
    const bool cut = op.tensor == TensorRole::column || op.tensor == TensorRole::row ||
                     op.tensor == TensorRole::vocab_head;
    if (op.kind != OpKind::gemm || !cut) {
      return false;
    }
    if (kind_ == TensorKind::three_d) {
      cube_product(op, layout);
    } else {
      square_product(op, layout);
    }
    return true;
  }

  void after_forward(std::size_t i) override { sum_rows(i, false); }
  void before_backward(std::size_t i) override { sum_rows(i, true); }

  std::int64_t kept_result(std::size_t i) const override {
    return kept_scattered_result(state_, state_.graph.operators[i]);
  }

 private:
  // The rank's blocks of X[m, k], W[k, n] and Y[m, n]: columns of X and Y are cut over the side of
  // the grid.
  model::Gemm block(const Operator& op) const {
    model::Gemm g = *op.gemm;
    (op.tensor == TensorRole::row ? g.n : g.k) /= side_;
    return g;
  }

  void move(Role role, Collective what, std::int64_t bytes, const std::string& label,
            Item::Kind kind = Item::Kind::collective) {
    collective(state_, {role, what, bytes, Category::tensor, label}, kind);
  }

  // Broadcasts of the next step's blocks, of X (rows) and W (columns).
  struct Blocks {
    bool x = false;
    bool w = false;
    std::int64_t x_bytes = 0;
    std::int64_t w_bytes = 0;
    std::string label;
  };

  void fetch(const Blocks& blocks) {
    if (blocks.x) {
      move(kTensorRow, Collective::broadcast, blocks.x_bytes, blocks.label + " x",
           Item::Kind::async);
    }
    if (blocks.w) {
      move(kTensorColumn, Collective::broadcast, blocks.w_bytes, blocks.label + " w",
           Item::Kind::async);
    }
  }

  void await(const Blocks& blocks) {
    if (blocks.x) {
      join(state_, kTensorRow);
    }
    if (blocks.w) {
      join(state_, kTensorColumn);
    }
  }

  // SUMMA: as many steps as the side has ranks.
  void square_product(const Operator& op, Layout layout) {
    const model::Gemm g = block(op);
    const bool forward = layout == Layout::forward;
    const bool input = layout == Layout::input_grad;
    const std::string name = forward ? op.name : op.name + (input ? " dgrad" : " wgrad");
    const Blocks blocks{!input, forward || input, matrix_bytes(state_, g.m, g.k, 1),
                        matrix_bytes(state_, g.k, g.n, 1), name};
    const model::Gemm shape = forward ? g
                              : input ? model::Gemm{g.m, g.k, g.n, 1}
                                      : model::Gemm{g.k, g.n, g.m, 1};
    const cost::Priced priced = product(state_, op, shape, layout);
    fetch(blocks);
    for (int step = 0; step < side_; ++step) {
      await(blocks);
      if (step + 1 < side_) {
        fetch(blocks);
      }
      kernel(state_, {priced, 1, name});
      if (input) {
        move(kTensorRow, Collective::reduce, blocks.x_bytes, name, Item::Kind::async);
      } else if (!forward) {
        move(kTensorColumn, Collective::reduce, blocks.w_bytes, name, Item::Kind::async);
      }
    }
    if (!forward) {
      join(state_, input ? kTensorRow : kTensorColumn);
    }
    const bool deep = state_.plan.grid.tensor > side_ * side_;  // of depth 1, 2.5D is 2D
    if (layout == Layout::weight_grad && kind_ == TensorKind::two_half_d && deep) {
      move(kTensorDepth, Collective::all_reduce, blocks.w_bytes, name);
    }
  }

  void cube_product(const Operator& op, Layout layout) {
    model::Gemm g = block(op);
    g.m *= side_;  // the graph holds 1/l^2 of the rows, a product 1/l
    const std::int64_t x = matrix_bytes(state_, g.m, g.k, 1);
    const std::int64_t w = matrix_bytes(state_, g.k, g.n, 1);
    const std::int64_t y = matrix_bytes(state_, g.m, g.n, 1);
    switch (layout) {
      case Layout::forward:
        move(kTensorRow, Collective::all_gather, x, op.name + " x");
        move(kTensorColumn, Collective::all_gather, w, op.name + " w");
        kernel(state_, {product(state_, op, g, layout), 1, op.name});
        move(kTensorDepth, Collective::reduce_scatter, y, op.name + " y");
        return;
      case Layout::input_grad:
        move(kTensorDepth, Collective::all_gather, y, op.name + " dy");
        move(kTensorColumn, Collective::all_gather, w, op.name + " w");
        kernel(state_, {product(state_, op, {g.m, g.k, g.n, 1}, layout), 1, op.name + " dgrad"});
        move(kTensorRow, Collective::reduce_scatter, x, op.name + " dx");
        return;
      case Layout::weight_grad:  // dY is still there
        move(kTensorRow, Collective::all_gather, x, op.name + " x");
        kernel(state_, {product(state_, op, {g.k, g.n, g.m, 1}, layout), 1, op.name + " wgrad"});
        move(kTensorColumn, Collective::reduce_scatter, w, op.name + " dw");
        return;
    }
  }

  // Rows of norms and of the loss are cut: two sums a row are reduced over them, in either pass
  // (mean and variance; their gradients), and three of the vocabulary-parallel loss. The
  // embedding's table is cut over the vocabulary: its rows are summed over the ranks that hold it.
  void sum_rows(std::size_t i, bool backward) {
    const Operator& op = state_.graph.operators[i];
    const int sums = op.kind == OpKind::norm && op.tensor == TensorRole::none ? 2
                     : op.kind == OpKind::cross_entropy && !backward          ? 3
                                                                              : 0;
    const std::int64_t rows = state_.plan.shard.sequences * state_.plan.shard.sequence_length;
    for (int n = 0; n < sums; ++n) {
      move(kTensorRow, Collective::all_reduce, 4 * rows, op.name);
    }
    if (op.tensor == TensorRole::vocab_embedding) {
      move(kTensorColumn, backward ? Collective::all_gather : Collective::reduce_scatter,
           output_bytes(state_, op), backward ? op.name + " grad" : op.name);
    }
  }

  PassState& state_;
  int side_;
  TensorKind kind_;
};

}  // namespace

std::unique_ptr<PassFeature> make_tensor_grid(PassState& state) {
  return on_grid(state.plan) ? std::make_unique<TensorGrid>(state) : nullptr;
}

model::OperatorGraph cut_parameters(const model::OperatorGraph& graph, const strategy::Plan& plan) {
  model::OperatorGraph out = graph;
  const std::int64_t side = plan.shard.tensor;
  const bool cube = plan.tensor_parallel.kind == TensorKind::three_d;
  for (Operator& op : out.operators) {
    // The graph's products are cut over one side already, its norms are not.
    const std::int64_t ranks =
        side * (cube ? side : 1) * (op.tensor == TensorRole::none ? side : 1);
    op.parameters = (op.parameters + ranks - 1) / ranks;
  }
  return out;
}

}  // namespace stepcast::lower
