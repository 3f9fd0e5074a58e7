#include "loss_chunks.h"

#include "../tensors/unit_tensors.h"

namespace stepcast::lower {
namespace {

using program::Block;

constexpr std::int64_t kWide = 4;  // bytes of fp32

// Tensors of the loop over chunks. `e`: bytes of an element.
class LossLoop {
 public:
  LossLoop(const PassState& state, const LossChunks& places, std::vector<Block>& to)
      : state_(state), places_(places), to_(to) {}

  void add(const char* what, std::int64_t bytes, std::uint16_t begin, std::uint16_t end) {
    if (bytes > 0) {
      to_.push_back({Bytes(bytes), state_.context.labels->id(what), begin, end});
    }
  }

  // The gradient of the loop's input in fp32, and copies of chunks that are views of a single
  // sequence (loss.py:498, :676).
  void add_inputs(std::int64_t elements, std::int64_t e) {
    if (state_.plan.shard.sequences > 1) {
      for (int n = 0; n < kLossChunks; ++n) {
        add("loss_chunk input", elements * e / kLossChunks, places_.gather(), places_.end());
      }
    }
    add("loss_chunk input gradients", kWide * elements, places_.gather(), places_.end());
  }

  void add_chunk(int n, std::int64_t logits, std::int64_t e, std::int64_t workspace) {
    const auto at = [&](ChunkStep step) { return places_.at(n, step); };
    const auto product = at(ChunkStep::product), loss = at(ChunkStep::loss);
    const auto loss_gradient = at(ChunkStep::loss_gradient);
    const auto logits_gradient = at(ChunkStep::logits_gradient);
    const auto weight_gradient = at(ChunkStep::weight_gradient);
    add("output result", logits * e, product, places_.at(n + 1, ChunkStep::product));
    add("GEMM workspace", workspace, product, product);
    if (state_.plan.style.compiled_loss) {
      // Of a part of the vocabulary what the backward pass reads is made ahead of it, beside zeros
      // at which the labels are marked.
      const bool part = state_.plan.shard.tensor > 1;
      add("loss probabilities", part ? kWide * logits : 0, loss, loss_gradient);
      add("loss marks", part ? kWide * logits : 0, loss, loss);
      add("output gradient", logits * e, loss_gradient, weight_gradient);
      add("GEMM workspace", workspace, weight_gradient, weight_gradient);
      return;
    }
    add("loss cast", e < kWide ? kWide * logits : 0, loss, loss);
    add("loss log_softmax", kWide * logits, loss, loss_gradient);
    add("loss backward workspace", kWide * logits, loss_gradient, loss_gradient);
    if (state_.plan.shard.tensor > 1) {
      // Of a part of the vocabulary: logits less their maximum; back, zeros at which the labels are
      // marked, beside exponentials and their sum (torchtitan 0.3.0, components/loss.py:152, :206,
      // :219).
      add("loss shifted logits", kWide * logits, loss, loss);
      add("loss backward workspace", kWide * logits, loss_gradient, loss_gradient);
    }
    add("loss_cast gradient", kWide * logits, loss_gradient,
        e < kWide ? logits_gradient : weight_gradient);
    add("output gradient", e < kWide ? logits * e : 0, logits_gradient, weight_gradient);
    add("GEMM workspace", workspace, weight_gradient, weight_gradient);
  }

 private:
  const PassState& state_;
  const LossChunks& places_;
  std::vector<Block>& to_;
};

}  // namespace

void spread_over_chunks(const PassState& state, std::int64_t product_workspace, Passes& head) {
  const auto& operators = state.graph.operators;
  const std::size_t product = *head.head.loss - 1;
  const LossChunks places(product);
  const auto e = static_cast<std::int64_t>(bytes_per_element(state.plan.style.dtype));
  const std::int64_t logits = operators[product].forward_output.count() / e;  // of a chunk
  std::vector<Block> blocks;
  for (const Block& block : head.memory.forward.blocks) {
    if (block.begin < first_place(product)) {
      blocks.push_back(block);
    }
  }
  LossLoop loop(state, places, blocks);
  loop.add_inputs(local_tokens(state) * state.plan.model.hidden, e);
  for (int n = 0; n < kLossChunks; ++n) {
    loop.add_chunk(n, logits, e, product_workspace);
  }
  UnitMemory& memory = head.memory;
  for (TensorList* kept : {&memory.saved, &memory.kept, &memory.weight_inputs, &memory.again.saved,
                           &memory.again.kept}) {
    for (Block& block : kept->blocks) {
      if (block.begin > last_place(product) && block.begin < kPassEnd) {
        block.begin = places.end();
      }
    }
  }
  std::vector<Block> all = blocks;
  all.insert(all.end(), memory.saved.blocks.begin(), memory.saved.blocks.end());
  memory.forward.blocks = std::move(blocks);
  memory.forward.bytes = peak_beside(all, memory.saved.bytes);
}

}  // namespace stepcast::lower
