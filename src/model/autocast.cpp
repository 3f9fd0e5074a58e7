// torch.autocast over fp32 parameters (aten/src/ATen/autocast_mode.cpp): products cast their
// operands, everything between them promotes to fp32. So the residual stream and what norms make of
// it are fp32; every linear makes a 16-bit copy of the stream and of its weight, which autograd
// keeps. Copies of weights are cached for leaves alone, copies of the stream never. A 4-bit product
// answers in its input's format (bitsandbytes 0.50.2, nn/modules.py:637): its result and what is
// made of it is fp32 as well, up to fused attention, which casts what it reads.
#include <algorithm>
#include <vector>

#include "builder.h"
#include "stepcast/model/names.h"

namespace stepcast::model {
namespace {

constexpr std::int64_t wide = 4;  // bytes of fp32

class Autocast {
 public:
  explicit Autocast(Builder& b)
      : b_(b), narrow_(b.element), stream_(b.local_tokens * b.hidden * b.element) {}

  void run() {
    OperatorGraph old = std::move(b_.graph);
    b_.graph = {};
    std::vector<Node> at(old.operators.size(), outside);
    for (std::size_t i = 0; i < old.operators.size(); ++i) {
      std::vector<Node> from;
      for (const auto& [producer, consumer] : old.edges) {
        if (static_cast<std::size_t>(consumer) == i) {
          from.push_back(at[static_cast<std::size_t>(producer)]);
        }
      }
      Operator op = std::move(old.operators[i]);
      bool promoted = false;
      if (op.kind == OpKind::gemm || op.kind == OpKind::grouped_gemm) {
        cast_operands(op, from);
        promoted = op.frozen_width > 0 && reads_stream(from);
      } else if (op.kind == OpKind::router) {
        keep(op, "weight cast", b_.tensor(op.parameters * narrow_));  // its linear's
      } else if (op.forward_output.count() == stream_ && in_stream(op)) {
        widen(op);
      } else {
        promoted = promotes(op.kind) && reads_wide(from);
      }
      if (promoted) {
        widen_all(op);
      }
      at[i] = add(std::move(op), from);
      wide_.push_back(promoted || (b_.graph.operators.back().forward_output.count() ==
                                       stream_ / narrow_ * wide &&
                                   in_stream(b_.graph.operators.back())));
    }
  }

 private:
  static bool in_stream(const Operator& op) {
    return op.kind == OpKind::norm || op.kind == OpKind::residual || op.kind == OpKind::embedding ||
           op.kind == OpKind::dropout;
  }

  Node add(Operator op, const std::vector<Node>& from) {
    b_.graph.operators.push_back(std::move(op));
    const auto node = static_cast<Node>(b_.graph.operators.size()) - 1;
    for (const Node n : from) {
      if (n != outside) {
        b_.graph.edges.emplace_back(n, node);
      }
    }
    return node;
  }

  Bytes widened(Bytes bytes) const { return Bytes(bytes.count() / narrow_ * wide); }

  void widen(Operator& op) {
    op.forward_output = widened(op.forward_output);
    op.forward_moved = widened(op.forward_moved);
    op.backward_moved = widened(op.backward_moved);
    if (op.kind == OpKind::norm && eager_norm(b_)) {
      move_eager_norm(op, stream_ / narrow_, wide, wide);  // of an fp32 input, and an fp32 weight
    }
    for (Saved& saved : op.saved) {
      if (saved.bytes.count() == stream_) {
        saved.bytes = widened(saved.bytes);
      } else if (saved.name == "upcast") {
        saved.name = "input";  // fp32 already: no copy is made
      }
    }
  }

  // Elementwise on what it reads, in the widest format of that.
  static bool promotes(OpKind kind) {
    return kind == OpKind::elementwise || kind == OpKind::activation || kind == OpKind::rotary;
  }

  bool reads_wide(const std::vector<Node>& from) const {
    return std::any_of(from.begin(), from.end(),
                       [&](Node n) { return n != outside && wide_[static_cast<std::size_t>(n)]; });
  }

  // Its result and what it keeps. A projection lists what fused attention reads, which is cast.
  void widen_all(Operator& op) const {
    op.forward_output = widened(op.forward_output);
    op.forward_moved = widened(op.forward_moved);
    op.backward_moved = widened(op.backward_moved);
    op.forward_temporary = widened(op.forward_temporary);
    op.backward_temporary = widened(op.backward_temporary);
    op.largest_temporary = widened(op.largest_temporary);
    if (op.input_gradient) {
      op.input_gradient = widened(*op.input_gradient);
    }
    if (op.kind == OpKind::activation) {
      for (Saved& saved : op.saved) {
        saved.bytes = widened(saved.bytes);
      }
    }
  }

  // The linear reads the stream, or what a norm made of it. Dequantised weights are no input.
  bool reads_stream(const std::vector<Node>& from) const {
    const auto is_wide = [&](Node n) {
      return n == outside || wide_[static_cast<std::size_t>(n)] ||
             b_.graph.operators[static_cast<std::size_t>(n)].name == kDequantised;
    };
    return std::all_of(from.begin(), from.end(), is_wide);
  }

  void cast_operands(Operator& op, std::vector<Node>& from) {
    const bool frozen = op.parameters == 0 && op.frozen_width == 0;
    const std::int64_t weights =
        std::min(frozen ? op.frozen : op.parameters, op.gemm->k * op.gemm->n * op.gemm->batch);
    const auto parts = std::max(op.forward_kernels, 1);
    const std::int64_t rows = reads_stream(from) ? op.gemm->m * op.gemm->k : 0;
    if (weights <= 0) {
      return;
    }
    Operator casts = named((op.name + kOperandCasts).c_str(), OpKind::elementwise, op.module);
    moves(
        casts, (parts * rows + weights) * (wide + narrow_),
        // Gradients of both are cast, those of the stream's copies added up.
        (parts * rows + (frozen ? 0 : weights)) * (narrow_ + wide) + (parts - 1) * rows * 3 * wide,
        (rows > 0 ? 2 : 1) * parts, (rows > 0 ? 2 : 1) * parts + (rows > 0 ? parts - 1 : 0));
    if (!b_.style.compiled) {  // gradients are cast to the wider format element by element
      const std::int64_t gradients = parts * rows + (frozen ? 0 : weights);
      casts.backward_singles = {gradients, gradients * (narrow_ + wide)};
    }
    casts.forward_output = Bytes(parts * rows * narrow_);
    keep(casts, "weight", b_.tensor(weights * narrow_));
    if (rows > 0) {
      const Tensor copies = b_.tensor(parts * rows * narrow_);
      for (Saved& saved : op.saved) {
        if (saved.name == "input") {
          saved.bytes = Bytes(copies.bytes);
          saved.storage = copies.storage;
        }
      }
      casts.input_gradient = widened(Bytes(rows * narrow_));
    }
    const Node node = add(std::move(casts), from);
    wide_.push_back(false);
    if (rows > 0) {
      from = {node};
    } else {
      from.push_back(node);
    }
  }

  Builder& b_;
  std::int64_t narrow_;
  std::int64_t stream_;     // bytes of the residual stream in 16 bits
  std::vector<bool> wide_;  // by node: its result is of the stream
};

}  // namespace

void run_under_autocast(Builder& b) {
  if (b.style.autocast && b.element < wide) {
    Autocast(b).run();
  }
}

}  // namespace stepcast::model
