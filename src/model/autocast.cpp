// torch.autocast over fp32 parameters (aten/src/ATen/autocast_mode.cpp): products cast their
// operands, everything between them promotes to fp32. So the residual stream and what norms make of
// it are fp32; every linear makes a 16-bit copy of the stream and of its weight, which autograd
// keeps. Copies of weights are cached for leaves alone, copies of the stream never. A 4-bit product
// answers in its input's format (bitsandbytes 0.50.2, nn/modules.py:637): its result and what is
// made of it is fp32 as well, up to fused attention, which casts what it reads.
#include <algorithm>
#include <vector>

#include "builder.h"
#include "joined_head.h"
#include "stepcast/model/names.h"

namespace stepcast::model {
namespace {

constexpr std::int64_t wide = 4;  // bytes of fp32

class Autocast {
 public:
  explicit Autocast(Builder& b)
      : b_(b),
        narrow_(b.element),
        stream_(b.local_tokens * b.hidden * b.element),
        units_(!b.style.autocast) {}

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
      if (in_function_of(job::LossKernel::tiled_linear, op)) {
        widen_tiled_loss(op, reads_wide(from));
      } else if (in_function_of(job::LossKernel::checkpointed_chunks, op)) {
        widen_checkpoints(op, reads_wide(from));
      } else if (units_) {
        promoted = run_over_units(op, from);
      } else if (grouped_experts(op)) {
        promoted = true;
        widen_kept(op);
      } else if (in_function_of(job::LossKernel::fused_linear, op)) {
        widen_linear_loss(op);
      } else if (op.kind == OpKind::gemm || op.kind == OpKind::grouped_gemm) {
        cast_operands(op, from);
        promoted = op.frozen_width > 0 && reads_stream(from);
      } else if (op.kind == OpKind::router) {
        keep(op, "weight cast", b_.tensor(op.parameters * narrow_));  // its linear's
      } else if (op.forward_output.count() == stream_ && in_stream(op, from)) {
        widen(op);
      } else {
        promoted = promotes(op.kind) && (reads_wide(from) || takes_power(op));
      }
      if (promoted && !units_) {
        const bool casts = takes_power(op) && !reads_wide(from);
        widen_all(op);
        if (casts) {
          cast_power(op);
        }
      }
      at[i] = add(std::move(op), from);
      wide_.push_back(promoted || (!units_ && (b_.graph.operators.back().forward_output.count() ==
                                                   stream_ / narrow_ * wide &&
                                               in_stream(b_.graph.operators.back(), from))));
    }
  }

 private:
  // A norm of heads' queries may be as large.
  bool in_stream(const Operator& op, const std::vector<Node>& from) const {
    return (op.kind == OpKind::norm && reads_stream(from)) || op.kind == OpKind::residual ||
           op.kind == OpKind::embedding || op.kind == OpKind::dropout;
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
    if (op.kind == OpKind::norm && b_.style.compiled) {
      op.forward_moved = Bytes(stream_ + stream_ / narrow_ * wide);
    }
    if (op.kind == OpKind::norm && eager_norm(b_, op.name)) {
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

  // A grouped product is none of autocast's operators: the stream and the experts' weights stay as
  // they are, and all that is made of them (transformers 5.23.0, integrations/moe.py:365).
  bool grouped_experts(const Operator& op) const {
    const bool between = op.kind == OpKind::grouped_gemm || op.kind == OpKind::permute ||
                         op.kind == OpKind::fused_permute || op.kind == OpKind::activation ||
                         op.kind == OpKind::elementwise;
    return b_.style.routing.grouped && op.module == Module::moe && between;
  }

  // Rows of the stream that it keeps; activations are widened with their results.
  void widen_kept(Operator& op) const {
    for (Saved& saved : op.saved) {
      if (op.kind != OpKind::activation &&
          (saved.name == "input" || saved.name == "expert_output")) {
        saved.bytes = widened(saved.bytes);
        // Experts' kernels that gather rows themselves read the stream, of which a router's product
        // keeps a copy.
        saved.storage = b_.style.routing.fused_experts && saved.name == "input"
                            ? b_.tensor(saved.bytes.count()).storage
                            : saved.storage;
      } else if (saved.name == "made") {
        saved.bytes = widened(saved.bytes);
      }
    }
  }

  // Part of the function that is the head and its loss.
  bool in_function_of(job::LossKernel kernel, const Operator& op) const {
    return b_.style.loss == kernel && op.module == Module::head &&
           (op.kind == OpKind::cross_entropy || op.tensor == TensorRole::vocab_head);
  }

  // Liger's keeps both gradients in the formats of the fp32 input and weight. It casts the weight's
  // transposition for each chunk of logits, and the weight itself once, which autocast's cache
  // holds (liger-kernel 0.8.5, ops/fused_linear_cross_entropy.py:168, :322).
  void widen_linear_loss(Operator& op) {
    if (op.kind != OpKind::cross_entropy) {
      weights_ = op.parameters;
      return;
    }
    for (Saved& saved : op.saved) {
      saved.bytes = widened(saved.bytes);
    }
    op.forward_temporary = Bytes(2 * weights_ * narrow_);
    op.largest_temporary = Bytes(weights_ * narrow_);
    op.forward_moved += Bytes((op.forward_kernels + 1) * weights_ * (wide + narrow_));
    op.forward_kernels += op.forward_kernels + 1;
    op.backward_moved = widened(op.backward_moved);
  }

  // Chunks are views of a wide input, of which each product has its cast.
  void widen_checkpoints(Operator& op, bool wide_input) const {
    for (Saved& saved : op.saved) {
      saved.bytes = wide_input && saved.name == "input" ? widened(saved.bytes) : saved.bytes;
    }
    if (wide_input && op.backward_tensors.size() > 2) {
      const std::int64_t rows = op.gemm->m * op.gemm->k;
      op.backward_temporary += Bytes(rows * wide - op.backward_tensors[2]);
      op.backward_tensors[2] = rows * wide;
    }
  }

  // TRL's, tile by tile, casts a tile's rows and weights for each product.
  void widen_tiled_loss(Operator& op, bool wide_input) {
    if (op.kind == OpKind::cross_entropy) {
      op.forward_moved += tile_casts_;
      op.backward_moved += tile_casts_;
      op.forward_kernels *= 2;
      op.backward_kernels *= 2;
      return;
    }
    tile_casts_ = describe_tiled_formats(b_, wide_input, !units_, op);
    for (Saved& saved : op.saved) {
      saved.bytes = wide_input ? widened(saved.bytes) : saved.bytes;
    }
  }

  // Elementwise on what it reads, in the widest format of that.
  static bool promotes(OpKind kind) {
    return kind == OpKind::elementwise || kind == OpKind::activation || kind == OpKind::rotary;
  }

  // Over parameters in 16 bits the stream is narrow. torch's layer norm is another of the operators
  // in fp32, of a copy that it keeps, and each product casts what a norm or a power makes.
  bool run_over_units(Operator& op, std::vector<Node>& from) {
    if (op.kind == OpKind::gemm) {
      if (reads_stream(from)) {
        cast_operands(op, from);
      }
      return false;
    }
    if (op.kind == OpKind::norm && b_.model.norm != job::Norm::rms) {
      op.forward_output = widened(op.forward_output);
      op.forward_moved = widened(op.forward_moved);
      op.backward_moved = widened(op.backward_moved);
      keep_cast(op, "input");
      return true;
    }
    if (takes_power(op)) {
      widen_all(op);
      cast_power(op);
      return true;
    }
    return false;
  }

  void keep_cast(Operator& op, const char* name) {
    for (Saved& saved : op.saved) {
      if (saved.name == name) {
        const Tensor copy = b_.tensor(widened(saved.bytes).count());
        saved.bytes = Bytes(copy.bytes);
        saved.storage = copy.storage;
      }
    }
  }

  bool reads_wide(const std::vector<Node>& from) const {
    return std::any_of(from.begin(), from.end(),
                       [&](Node n) { return n != outside && wide_[static_cast<std::size_t>(n)]; });
  }

  // A power is one of autocast's operators in fp32 (torch 2.15, aten/src/ATen/autocast_mode.h,
  // AT_FORALL_FP32), and what a composed GELU makes of it is promoted.
  static bool takes_power(const Operator& op) {
    return std::any_of(op.saved.begin(), op.saved.end(),
                       [](const Saved& s) { return s.name == kHalf || s.name == kSquared; });
  }

  // Of 16 bits it keeps a wide copy, and the factor that is no power stays narrow, as does the
  // result of ReLU. Back, two factors of the square's gradient stand beside it, and are given up
  // before it is narrowed (torch 2.15, torch/csrc/autograd/FunctionsManual.cpp: pow_backward).
  void cast_power(Operator& op) {
    std::int64_t relu = 0;
    for (Saved& saved : op.saved) {
      if (saved.name == kSquared) {
        relu = saved.bytes.count() / wide * narrow_;
      } else if (saved.name == kHalf) {
        saved.bytes = Bytes(saved.bytes.count() / wide * narrow_);
      } else if (saved.name == "input") {
        saved.storage = b_.tensor(saved.bytes.count()).storage;
      }
    }
    if (relu > 0) {
      keep(op, "relu", b_.tensor(relu));
      op.backward_temporary = Bytes(3 * relu / narrow_ * wide - relu);
    }
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
      return n == outside
                 ? !units_
                 : wide_[static_cast<std::size_t>(n)] ||
                       b_.graph.operators[static_cast<std::size_t>(n)].name == kDequantised;
    };
    return from.empty() ? !units_ : std::all_of(from.begin(), from.end(), is_wide);
  }

  // What reads or makes the stream writes one 16-bit copy of it for all products, and adds up their
  // gradients itself; each weight is cast by a kernel of its own (torch 2.15, Inductor's kernels of
  // a layer of Llama under autocast).
  void describe_compiled(Operator& casts, std::int64_t weights, std::int64_t trained,
                         int parts) const {
    moves(casts, weights * (wide + narrow_), trained * (narrow_ + wide), weights > 0 ? parts : 0,
          trained > 0 ? parts : 0);
  }

  void cast_operands(Operator& op, std::vector<Node>& from) {
    const bool frozen = op.parameters == 0 && op.frozen_width == 0;
    const std::int64_t weights = units_ ? 0
                                        : std::min(frozen ? op.frozen : op.parameters,
                                                   op.gemm->k * op.gemm->n * op.gemm->batch);
    const auto parts = std::max(op.forward_kernels, 1);
    const std::int64_t rows = reads_stream(from) ? op.gemm->m * op.gemm->k : 0;
    if (weights <= 0 && (!units_ || rows == 0)) {
      return;
    }
    Operator casts = named((op.name + kOperandCasts).c_str(), OpKind::elementwise, op.module);
    const std::int64_t trained = frozen ? 0 : weights;
    if (b_.style.compiled) {
      describe_compiled(casts, weights, trained, parts);
    } else {
      const int operands = (rows > 0 ? 1 : 0) + (weights > 0 ? 1 : 0);
      moves(casts, (parts * rows + weights) * (wide + narrow_),
            // Gradients of both are cast, those of the stream's copies added up.
            (parts * rows + trained) * (narrow_ + wide) + (parts - 1) * rows * 3 * wide,
            operands * parts, operands * parts + (rows > 0 ? parts - 1 : 0));
      // Gradients are cast to the wider format element by element.
      const std::int64_t gradients = parts * rows + trained;
      casts.backward_singles = {gradients, gradients * (narrow_ + wide)};
    }
    const std::int64_t copied = (b_.style.compiled ? 1 : parts) * rows * narrow_;
    casts.forward_output = Bytes(copied);
    keep(casts, "weight", b_.tensor(weights * narrow_));
    if (rows > 0) {
      const Tensor copies = b_.tensor(copied);
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
  std::int64_t stream_;       // bytes of the residual stream in 16 bits
  std::int64_t weights_ = 0;  // elements of the head's, where the loss casts them
  Bytes tile_casts_{0};       // what a tiled loss moves where it casts rows and weights
  bool units_;                // parameters are in 16 bits, and the stream
  std::vector<bool> wide_;    // by node: its result is of the stream
};

}  // namespace

void run_under_autocast(Builder& b) {
  if ((b.style.autocast || b.style.autocasts_units) && b.element < wide) {
    Autocast(b).run();
  }
}

}  // namespace stepcast::model
