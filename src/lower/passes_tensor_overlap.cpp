// Products cut into chunks that travel round the tensor ranks, so that collectives hide beside
// them: Transformer Engine's user buffers (Megatron-LM's --tp-comm-overlap) and PyTorch's async
// tensor parallelism.
//
// gather, product: the rank's own rows are multiplied while they go on to the next rank; each step
// multiplies what came. product, scatter: each step multiplies the rows of one rank and sends them
// there beside the next step's product; a last kernel adds what came. Transformer Engine does the
// first to the inputs of column-parallel layers and to the output gradients of row-parallel ones,
// the second to the outputs of row-parallel layers; input gradients of column-parallel layers are
// reduced in bulk beside the weight gradient (its rs_dgrad is off), which PyTorch's pipelines as
// well.
#include <algorithm>

#include "pass_builder.h"

namespace stepcast::lower {

using model::Operator;
using model::OpKind;
using model::TensorRole;
using program::Category;

namespace {

// Streams that chunks' products take in turn: Transformer Engine's userbuffers
// (comm_gemm_overlap.h: max streams 3); PyTorch's symmetric memory pipelines
// (_pipelined_all_gather_and_consume: two).
constexpr int kUserBufferStreams = 3;
constexpr int kSymmetricStreams = 2;

}  // namespace

bool PassBuilder::chunked(const Operator& op) const {
  using job::TensorOverlap;
  const TensorOverlap overlap = plan_.job.parallelism.overlap.tensor;
  return tensor_ > 1 && sequence_parallel_ && op.kind == OpKind::gemm &&
         (op.tensor == TensorRole::column || op.tensor == TensorRole::row) &&
         (overlap == TensorOverlap::ring || overlap == TensorOverlap::async);
}

bool PassBuilder::chunked_gather(std::size_t i, cost::Layout layout) const {
  const Operator& op = graph_.operators[i];
  return chunked(op) &&
         ((layout == cost::Layout::forward && op.tensor == TensorRole::column && opens_[i]) ||
          (layout == cost::Layout::input_grad && op.tensor == TensorRole::row));
}

bool PassBuilder::chunked_scatter(std::size_t i, cost::Layout layout) const {
  const Operator& op = graph_.operators[i];
  const bool pipelined = plan_.job.parallelism.overlap.tensor == job::TensorOverlap::async;
  return chunked(op) && ((layout == cost::Layout::forward && op.tensor == TensorRole::row) ||
                         (layout == cost::Layout::input_grad && op.tensor == TensorRole::column &&
                          opens_[i] && pipelined));
}

// `shape`: the whole product. A chunk's price holds for as many side by side as there are streams.
cost::Priced PassBuilder::chunk(const Operator& op, const model::Gemm& shape,
                                cost::Layout layout) const {
  const bool symmetric = plan_.job.parallelism.overlap.tensor == job::TensorOverlap::async;
  const int streams = std::min(tensor_, symmetric ? kSymmetricStreams : kUserBufferStreams);
  model::Gemm one = shape;
  one.m = std::max<std::int64_t>(1, shape.m / tensor_);
  one.batch = streams;
  const cost::Priced priced = matrix(op, one, layout, false);
  return {priced.time / streams, priced.curve};
}

bool PassBuilder::tensor_product(std::size_t i, const model::Gemm& shape, cost::Layout layout,
                                 Category category, Items& out) {
  const Operator& op = graph_.operators[i];
  if (gridded_) {
    return grid_product(i, layout, category, out);
  }
  const std::string name = layout == cost::Layout::forward ? op.name : op.name + " dgrad";
  const bool gather = chunked_gather(i, layout);
  if (!gather && !chunked_scatter(i, layout)) {
    return false;
  }
  const cost::Priced part = chunk(op, shape, layout);
  const std::int64_t bytes = gemm_bytes(shape.m, gather ? shape.k : shape.n, 1);
  for (int step = 0; step < tensor_; ++step) {
    const bool last = step + 1 == tensor_;
    if (gather) {
      if (step > 0) {
        join(out, kTensor);
      }
      if (!last) {
        ring_step(out, kTensor, bytes / tensor_, Category::tensor, name + " rows");
      }
    }
    kernel(out, part, 1, category, name);
    if (!gather && !last) {
      ring_step(out, kTensor, bytes / tensor_, Category::tensor, name + " sums");
    }
  }
  if (!gather) {
    join(out, kTensor);
    // One part of each rank is read, their sum written.
    kernel(out,
           context_.kernels->memory(cost::MemoryOp::elementwise, Bytes(bytes + bytes / tensor_)), 1,
           category, name + " sum", kMemoryBound);
  }
  return true;
}

}  // namespace stepcast::lower
