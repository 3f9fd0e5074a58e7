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
// Parts of a pipelined product (initialize_ub: num_splits 4).
constexpr int kPipelineSplits = 4;

}  // namespace

// Userbuffers carry no NVFP4 (Megatron-Bridge's recipes switch tp_comm_overlap off there).
job::TensorOverlap PassBuilder::tensor_overlap() const {
  const bool carried = gemm_dtype_ != job::DType::nvfp4 || !plan_.job.system.transformer_engine;
  return carried ? plan_.job.parallelism.overlap.tensor : job::TensorOverlap::none;
}

bool PassBuilder::chunked(const Operator& op) const {
  using job::TensorOverlap;
  const TensorOverlap overlap = tensor_overlap();
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
  const bool pipelined = tensor_overlap() == job::TensorOverlap::async;
  return chunked(op) && ((layout == cost::Layout::forward && op.tensor == TensorRole::row) ||
                         (layout == cost::Layout::input_grad && op.tensor == TensorRole::column &&
                          opens_[i] && pipelined));
}

// `shape`: the whole product, cut into `parts`. A chunk's price holds for as many side by side as
// there are streams.
cost::Priced PassBuilder::chunk(const Operator& op, const model::Gemm& shape, cost::Layout layout,
                                int parts) const {
  const bool symmetric = tensor_overlap() == job::TensorOverlap::async;
  const int streams = std::min(parts, symmetric ? kSymmetricStreams : kUserBufferStreams);
  model::Gemm one = shape;
  one.m = std::max<std::int64_t>(1, shape.m / parts);
  one.batch = streams;
  const cost::Priced priced = matrix(op, one, layout, false);
  const bool by_events = !symmetric && !plan_.job.kernels.cuda_graph;
  return {
      priced.time / streams + (by_events ? context_.kernels->software().user_buffer_step : Time(0)),
      priced.curve};
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
  const std::int64_t bytes = gemm_bytes(shape.m, gather ? shape.k : shape.n, 1);
  const bool symmetric = tensor_overlap() == job::TensorOverlap::async;
  if (!gather && !symmetric) {
    const cost::Priced part = chunk(op, shape, layout, kPipelineSplits);
    for (int step = 0; step < kPipelineSplits; ++step) {
      kernel(out, part, 1, category, name);
      collective(out, kTensor, false, cost::Collective::reduce_scatter, bytes / kPipelineSplits,
                 Category::tensor, name);
    }
    join(out, kTensor);
    return true;
  }
  // Chunks follow the sequence, which stands behind the batch (_symmetric_memory: "if
  // A.movedim(scatter_dim, 0) is contiguous, no extra copy is required").
  if (symmetric && plan_.shard.sequences > 1) {
    copy_sequence(bytes, name, out);
  }
  const cost::Priced part = chunk(op, shape, layout, tensor_);
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
