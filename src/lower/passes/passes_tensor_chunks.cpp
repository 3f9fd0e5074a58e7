// Products cut into chunks that travel round the tensor ranks, so that collectives hide beside
// them: Transformer Engine's user buffers (Megatron-LM's --tp-comm-overlap) and PyTorch's async
// tensor parallelism.
//
// gather, product: the rank's own rows are multiplied while they go on to the next rank; each step
// multiplies what came. Transformer Engine does it to the inputs of column-parallel layers and to
// the output gradients of row-parallel ones (initialize_ub: ring_exchange for qkv_fprop, fc1_fprop,
// proj_dgrad, fc2_dgrad), copying rows into its neighbour's buffer.
// product, scatter: outputs of row-parallel layers. Transformer Engine cuts the product into four,
// and reduce-scatters each part beside the next (pipeline: proj_fprop, fc2_fprop); PyTorch
// multiplies the rows of one rank a step, copies them there beside the next step, and adds what
// came. Input gradients of column-parallel layers are reduced in bulk beside the weight gradient
// (qkv_wgrad, fc1_wgrad; its rs_dgrad is off), which PyTorch's pipelines as well.
#include <algorithm>

#include "pass_feature.h"
#include "pass_products.h"
#include "passes_tensor.h"

namespace stepcast::lower {
namespace {

using cost::Layout;
using model::Operator;
using program::Category;

// Streams that chunks' products take in turn: Transformer Engine's userbuffers
// (comm_gemm_overlap.h: max streams 3); PyTorch's symmetric memory pipelines
// (_pipelined_all_gather_and_consume: two).
constexpr int kUserBufferStreams = 3;
constexpr int kSymmetricStreams = 2;
// Parts of a pipelined product (initialize_ub: num_splits 4).
constexpr int kPipelineSplits = 4;

class TensorChunks : public PassFeature {
 public:
  TensorChunks(PassState& state, TensorCut cut) : state_(state), cut_(std::move(cut)) {}

  bool in_place_of(std::size_t i, Layout layout) override {
    const bool gathers = chunked_gather(cut_, state_, i, layout);
    if (!gathers && !chunked_scatter(cut_, state_, i, layout)) {
      return false;
    }
    const Operator& op = state_.graph.operators[i];
    const model::Gemm& g = *op.gemm;
    const bool forward = layout == Layout::forward;
    const Chunked what{op, forward ? g : model::Gemm{g.m, g.k, g.n, g.batch}, layout,
                       forward ? op.name : op.name + " dgrad"};
    if (gathers) {
      gather_beside(what);
    } else if (symmetric()) {
      scatter_beside(what);
    } else {
      scatter_pipelined(what);
    }
    return true;
  }

 private:
  // A product that is cut over its rows.
  struct Chunked {
    const Operator& op;
    model::Gemm shape;
    Layout layout = Layout::forward;
    std::string name;
  };

  // PyTorch's async tensor parallelism, else Transformer Engine's user buffers.
  bool symmetric() const {
    return state_.plan.tensor_parallel.product_overlap == TensorOverlap::async;
  }

  // A chunk's price holds for as many side by side as there are streams.
  cost::Priced chunk(const Chunked& what, int parts) const {
    const int streams = std::min(parts, symmetric() ? kSymmetricStreams : kUserBufferStreams);
    model::Gemm one = what.shape;
    one.m = std::max<std::int64_t>(1, what.shape.m / parts);
    one.batch = streams;
    const cost::Priced priced = product(state_, what.op, one, what.layout);
    const bool by_events = !symmetric() && !state_.plan.host.cuda_graph;
    const Time step = by_events ? state_.context.kernels->software().user_buffer_step : Time(0);
    return {priced.time / streams + step, priced.curve};
  }

  // Chunks follow the sequence, which stands behind the batch (_symmetric_memory: "if
  // A.movedim(scatter_dim, 0) is contiguous, no extra copy is required").
  void lay_out_chunks(const Chunked& what, std::int64_t bytes) {
    if (symmetric() && state_.plan.shard.sequences > 1) {
      copy_sequence(state_, bytes, what.name);
    }
  }

  void step_round(const Chunked& what, std::int64_t bytes, const char* moved) {
    ring_step(state_, kTensor, bytes / cut_.ranks, Category::tensor, what.name + moved);
  }

  // Each step multiplies the rows that came while they go on to the next rank.
  void gather_beside(const Chunked& what) {
    const std::int64_t bytes = matrix_bytes(state_, what.shape.m, what.shape.k, 1);
    lay_out_chunks(what, bytes);
    const cost::Priced part = chunk(what, cut_.ranks);
    for (int step = 0; step < cut_.ranks; ++step) {
      if (step > 0) {
        join(state_, kTensor);
      }
      if (step + 1 < cut_.ranks) {
        step_round(what, bytes, " rows");
      }
      kernel(state_, {part, 1, what.name});
    }
  }

  // Each step multiplies the rows of one rank, which are copied there beside the next step.
  void scatter_beside(const Chunked& what) {
    const std::int64_t bytes = matrix_bytes(state_, what.shape.m, what.shape.n, 1);
    lay_out_chunks(what, bytes);
    const cost::Priced part = chunk(what, cut_.ranks);
    for (int step = 0; step < cut_.ranks; ++step) {
      kernel(state_, {part, 1, what.name});
      if (step + 1 < cut_.ranks) {
        step_round(what, bytes, " sums");
      }
    }
    join(state_, kTensor);
    // One part of each rank is read, their sum written.
    memory_kernel(state_, cost::MemoryOp::elementwise, bytes + bytes / cut_.ranks,
                  what.name + " sum");
  }

  // Each part is reduce-scattered beside the next.
  void scatter_pipelined(const Chunked& what) {
    const std::int64_t bytes = matrix_bytes(state_, what.shape.m, what.shape.n, 1);
    const cost::Priced part = chunk(what, kPipelineSplits);
    for (int step = 0; step < kPipelineSplits; ++step) {
      kernel(state_, {part, 1, what.name});
      collective(state_,
                 {kTensor, cost::Collective::reduce_scatter, bytes / kPipelineSplits,
                  Category::tensor, what.name},
                 Item::Kind::async);
    }
    join(state_, kTensor);
  }

  PassState& state_;
  TensorCut cut_;
};

}  // namespace

std::unique_ptr<PassFeature> make_tensor_chunks(PassState& state) {
  TensorCut cut = tensor_cut(state);
  const TensorOverlap overlap = state.plan.tensor_parallel.product_overlap;
  const bool chunks = overlap == TensorOverlap::ring || overlap == TensorOverlap::async;
  return cut.ranks > 1 && cut.sequence_parallel && chunks
             ? std::make_unique<TensorChunks>(state, std::move(cut))
             : nullptr;
}

}  // namespace stepcast::lower
