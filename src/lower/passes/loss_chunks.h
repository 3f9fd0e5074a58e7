// Places of a head's forward pass within which its loss runs chunk by chunk, forward and backward
// (torchtitan 0.3.0, components/loss.py:685, ChunkedLossWrapper.__call__).
//
// LAW  Parameters are gathered anew behind the norm. Then for each chunk: its logits, beside those
// of the chunk before until they are there; the loss with a cast and its log-softmax; the
// likelihood's gradient and that of log-softmax; the logits' gradient; the weight's; the sum of
// weight gradients.
// SOURCE  components/loss.py:698 to 777; allocations in the order of a recorded step (tests/oracle:
// titan03-l8-full)
#pragma once

#include <cstdint>

#include "pass_state.h"
#include "passes.h"

namespace stepcast::lower {

enum class ChunkStep : std::uint8_t {
  product,
  loss,
  loss_gradient,
  logits_gradient,
  weight_gradient,
  sum,
  count
};

class LossChunks {
 public:
  // `product`: place of the output projection where the head's graph names it.
  explicit LossChunks(std::size_t product) : first_(first_place(product)) {}

  std::uint16_t gather() const { return first_; }
  std::uint16_t copy_out() const { return static_cast<std::uint16_t>(first_ + 1); }
  std::uint16_t at(int chunk, ChunkStep step) const {
    return static_cast<std::uint16_t>(first_ + 2 + chunk * static_cast<int>(ChunkStep::count) +
                                      static_cast<int>(step));
  }
  // Behind the last chunk, where the gradient of the head's input is cast.
  std::uint16_t end() const { return at(kLossChunks, ChunkStep::product); }

 private:
  std::uint16_t first_;
};

// Sets the tensors of the forward pass of a head whose loss runs in chunks, apart from its
// parameters and their gradients.
void spread_over_chunks(const PassState& state, std::int64_t product_workspace, Passes& head);

}  // namespace stepcast::lower
