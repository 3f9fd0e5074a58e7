#include <algorithm>
#include <iterator>
#include <optional>
#include <vector>

#include "../passes/passes_loss.h"
#include "stepcast/model/names.h"
#include "unit_tensors.h"

namespace stepcast::lower {
namespace {

using program::Block;

// What stands in a forward pass whether tensors are kept or not.
struct ForwardTensors {
  std::vector<Block> workspaces;      // live only while an operator runs
  std::vector<Block> results;         // that nobody keeps
  std::optional<std::size_t> handed;  // among these: the unit's own
  // Of products: PyTorch asks for one behind the product's result (histories of the allocator on
  // torch 2.15, tests/oracle).
  std::vector<Block> product_workspaces;
  void mark_handed(TensorList& list) const {
    if (handed) {
      list.handed = static_cast<std::uint32_t>(workspaces.size() + *handed);
    }
  }
  // What is asked for ahead of results that autograd keeps.
  std::vector<Block> ahead_of_kept() const {
    std::vector<Block> out = workspaces;
    out.insert(out.end(), results.begin(), results.end());
    return out;
  }
};

void append(const std::vector<Block>& from, std::vector<Block>& to) {
  to.insert(to.end(), from.begin(), from.end());
}

// Pieces of one operator rotate queries and keys, whose function holds what it reads, and complex
// copies, until it returns.
bool rotates_apart(const UnitTensors& unit, std::size_t value, std::size_t reader) {
  using Rotation = model::Operator::Rotation;
  if (reader >= unit.count() || unit.operators[reader].rotation == Rotation::other) {
    return false;
  }
  return unit.pieces.of[value] != unit.pieces.of[reader] ||
         unit.operators[reader].rotation == Rotation::complex;
}

// A module's frame holds its argument until it returns: the normed input of attention or of an MLP
// lives up to the module's last operator.
std::size_t end_of_value(const UnitTensors& unit, std::size_t i);

// What is read through a view lives as long as the view.
std::size_t end_of_argument(const UnitTensors& unit, std::size_t i) {
  std::size_t end = end_of_value(unit, i);
  for (std::size_t view = i + 1; view < unit.count(); ++view) {
    const std::vector<std::size_t>& from = unit.from[view];
    if (unit.rules[view].piece.view && std::find(from.begin(), from.end(), i) != from.end()) {
      end = std::max(end, end_of_argument(unit, view));
    }
  }
  return end;
}

std::size_t end_of_value(const UnitTensors& unit, std::size_t i) {
  const auto part = [&](std::size_t k) {
    const model::Module module = unit.operators[k].module;
    return module == model::Module::core_attention ? model::Module::attention : module;
  };
  std::size_t end = unit.last_reader[i];
  if (unit.rules[i].piece.held_to > end) {
    return unit.rules[i].piece.held_to;
  }
  if (rotates_apart(unit, i, end)) {  // the caller holds both until both are rotated
    while (end + 1 < unit.count() && unit.pieces.of[end + 1] == unit.pieces.of[end] &&
           unit.operators[end + 1].rotation != model::Operator::Rotation::other) {
      ++end;
    }
    return end;
  }
  // Attention alone holds what it casts; its function holds what that was cast from.
  if (unit.operators[i].name == kAttentionCast) {
    return end;
  }
  // The loop holds the 16-bit logits until the loss behind their cast is there; those of chunks, a
  // list, until the last chunk's is.
  const model::Operator& reader = unit.operators[std::min(end, unit.count() - 1)];
  if (reader.name == kLossCast && reader.forward_kernels > 0) {
    std::size_t loss = end + 1;
    while (loss + 2 < unit.count() && unit.operators[loss + 1].name == kLossCast) {
      loss += 2;
    }
    return loss;
  }
  // So do scores that are cast to fp32 up to the end of core attention (megatron-core 0.16.1,
  // transformer/dot_product_attention.py:194: matmul_result).
  if (unit.operators[i].kind == model::OpKind::batched_gemm &&
      reader.name == model::kWidenedScores) {
    while (end + 1 < unit.count() &&
           unit.operators[end + 1].module == model::Module::core_attention) {
      ++end;
    }
    return end;
  }
  // Queries, keys and values are variables of attention's function as well; what one
  // kernel activates is one of the product's that reads it, beside which adapters may lie.
  const bool argument =
      (unit.operators[i].kind == model::OpKind::norm &&
       (unit.operators[end].gemm || unit.operators[end].name.ends_with(model::kOperandCasts))) ||
      (unit.operators[i].kind == model::OpKind::activation &&
       unit.operators[i].gradient == model::Operator::Gradient::in_kept);
  const bool of_attention = unit.operators[end].kind == model::OpKind::fused_attention ||
                            (unit.options.holds_projection && unit.rules[i].piece.part) ||
                            unit.operators[end].name == kAttentionCast;
  if (!argument && !of_attention) {
    return end;
  }
  while (end + 1 < unit.count() && part(end + 1) == part(end) &&
         unit.operators[end + 1].kind != model::OpKind::residual) {
    ++end;
  }
  const bool added = argument && unit.options.layer_holds_normed_input && end + 1 < unit.count() &&
                     unit.operators[end + 1].kind == model::OpKind::residual;
  return added ? end + 1 : end;
}

// Where a result is made: behind the whole product and what that works with, if it is a part of it.
std::size_t begin_of_result(const UnitTensors& unit, std::size_t i) {
  const bool part = unit.rules[i].scatter.parts > 1 && unit.operators[i].gemm;
  return unit.forward_place(i, part ? Step::run : Step::first);
}

// Where a result is given up.
std::size_t end_of_result(const UnitTensors& unit, std::size_t i) {
  return unit.forward_place(end_of_argument(unit, i), rotates_apart(unit, i, unit.last_reader[i])
                                                          ? Step::sum
                                                          : Step::give_up);
}

ForwardTensors forward_tensors(const UnitTensors& unit) {
  ForwardTensors out;
  for (std::size_t i = 0; i < unit.count(); ++i) {
    const model::Operator& op = unit.operators[i];
    const std::int64_t bytes = op.forward_temporary.count() + unit.rules[i].forward;
    for (const std::int64_t piece : tensors_of(bytes, op)) {
      out.workspaces.push_back(block_of(piece, unit.label(op.name + " workspace"),
                                        unit.forward_place(i, Step::first),
                                        unit.forward_place(i, Step::run)));
    }
    if (unit.rules[i].scatter.joined > 0) {
      const std::size_t at = unit.forward_place(i, Step::run);
      out.workspaces.push_back(
          block_of(unit.rules[i].scatter.joined, unit.label(op.name + " joined chunks"), at, at));
    }
    if ((op.gemm || op.row_parts > 1) && unit.options.product_workspace > 0) {
      out.product_workspaces.push_back(
          block_of(unit.options.product_workspace, unit.label("GEMM workspace"),
                   unit.forward_place(i, Step::first), unit.forward_place(i, Step::first)));
    }
    if (!unit.held[i] && !unit.rules[i].piece.view && unit.result(i) > 0) {
      add_value(unit, i,
                block_of(unit.result(i), unit.label(op.name + " result"), begin_of_result(unit, i),
                         unit.read[i] ? end_of_result(unit, i) : kPassEnd),
                out.results);
      if (!unit.read[i] && i + 1 == unit.count() && unit.rules[i].results.size() < 2) {
        out.handed = out.results.size() - 1;
      }
    }
  }
  const std::size_t outside = unit.outside();
  if (!unit.held[outside] && unit.options.input > 0 && unit.read[outside]) {
    out.results.push_back(block_of(unit.options.input, unit.label("unit input"), 0,
                                   unit.forward_place(unit.last_reader[outside], Step::give_up)));
  }
  return out;
}

// A tensor that is kept elsewhere, in a pass that keeps none.
void add_unkept(const UnitTensors& unit, const KeptTensor& k, std::vector<Block>& to) {
  const bool argument = k.bytes == unit.result(k.made) && unit.last_reader[k.made] < unit.count();
  const std::size_t end =
      argument ? std::max(k.last_read, end_of_argument(unit, k.made)) : k.last_read;
  Block whole = block_of(k.bytes, k.label, begin_of_result(unit, k.made),
                         unit.forward_place(end, Step::give_up));
  const bool factor = k.activated && unit.rules[k.made].gate_first;
  if (factor && !unit.from[k.made].empty()) {
    // Made from the first half, beside it.
    whole.begin =
        static_cast<std::uint16_t>(unit.forward_place(unit.from[k.made].front(), Step::first));
  }
  const std::size_t first = to.size();
  add_value(unit, k.made, whole, to);
  const std::size_t reader = k.last_read;
  if (!factor && reader < unit.count() && reader > k.made && unit.rules[reader].gate_first &&
      to.size() == first + 2) {
    // Given up once it is activated; the other half comes behind.
    to[first].end = static_cast<std::uint16_t>(unit.forward_place(k.made, Step::give_up));
    to[first + 1].begin = static_cast<std::uint16_t>(unit.forward_place(reader, Step::first));
  }
}

}  // namespace

namespace {

// Of the tensors that live where most bytes do, the largest that `bytes` hold, and what is left.
std::vector<Block> most_at_once(const std::vector<Block>& blocks, std::int64_t bytes) {
  std::vector<Block> most;
  for (const Block& at : blocks) {
    std::vector<Block> alive;
    std::copy_if(blocks.begin(), blocks.end(), std::back_inserter(alive),
                 [&](const Block& b) { return b.begin <= at.begin && b.end >= at.begin; });
    most = whole_bytes_of(alive) > whole_bytes_of(most) ? alive : most;
  }
  std::stable_sort(most.begin(), most.end(),
                   [](const Block& a, const Block& b) { return a.bytes > b.bytes; });
  std::vector<Block> out;
  for (Block b : most) {
    b.bytes = Bytes(std::min(b.bytes.count(), bytes));
    bytes -= b.bytes.count();
    if (b.bytes.count() > 0) {
      out.push_back(b);
    }
  }
  return out;
}

}  // namespace

std::vector<Block> tensors_of_functions(const UnitTensors& unit) {
  std::vector<Block> out;
  if (unit.options.functions.empty()) {
    return out;
  }
  const ForwardTensors tensors = forward_tensors(unit);
  for (const RepeatedFunction& function : unit.options.functions) {
    const auto within = [&](std::size_t op) {
      return std::find(function.operators.begin(), function.operators.end(), op) !=
             function.operators.end();
    };
    std::vector<Block> transient;
    for (const auto* blocks :
         {&tensors.workspaces, &tensors.results, &tensors.product_workspaces}) {
      std::copy_if(blocks->begin(), blocks->end(), std::back_inserter(transient),
                   [&](const Block& b) { return within(b.begin / kPlacesOfOperator); });
    }
    std::vector<Block> made;
    std::size_t before = 0;
    for (const KeptTensor& k : unit.kept) {
      if (k.again && k.made < unit.count() && within(unit.pieces.of[k.made])) {
        add_value(unit, k.made, block_of(k.bytes, k.label, begin_of_result(unit, k.made), kPassEnd),
                  made);
      }
    }
    for (std::size_t i = 0; i < unit.count(); ++i) {
      before = unit.pieces.of[i] == function.before ? i : before;
    }
    const std::size_t at = unit.backward_place(before, Step::first);
    for (Block& b : most_at_once(transient, peak_with(transient, made))) {
      b.begin = b.end = static_cast<std::uint16_t>(at);
      out.push_back(b);
    }
  }
  return out;
}

void add_forward_memory(const UnitTensors& unit, UnitMemory& out) {
  const ForwardTensors tensors = forward_tensors(unit);
  out.forward.blocks = tensors.ahead_of_kept();
  tensors.mark_handed(out.forward);
  std::vector<Block> standing;
  for (const KeptTensor& k : unit.kept) {
    if (k.again) {
      add_unkept(unit, k, out.forward.blocks);
      continue;
    }
    add_value(unit, k.made, block_of(k.bytes, k.label, begin_of_result(unit, k.made), kPassEnd),
              standing);
  }
  append(tensors.product_workspaces, out.forward.blocks);
  out.forward.bytes = peak_with(out.forward.blocks, standing);
  for (const Block& b : out.forward.blocks) {
    if (b.begin < first_place(unit.options.again_end.value_or(unit.pieces.units()))) {
      out.again.forward.blocks.push_back(b);
    }
  }
  out.again.forward.bytes = peak_with(out.again.forward.blocks, standing);
  // Without autograd nothing outlives its last reader, and what only the backward pass needs is
  // not made (but for what an operator writes anyway: statistics).
  out.unkept.blocks = tensors.ahead_of_kept();
  tensors.mark_handed(out.unkept);
  for (const KeptTensor& k : unit.kept) {
    if (k.made < unit.count() && unit.rules[k.made].piece.leaf &&
        unit.rules[k.made].piece.trained) {
      out.cached.blocks.push_back(
          block_of(k.bytes, k.label, unit.forward_place(k.made, Step::first), kPassEnd));
    } else if (!k.unit_input) {
      add_unkept(unit, k, out.unkept.blocks);
    }
  }
  out.cached.bytes = whole_bytes_of(out.cached.blocks);
  append(tensors.product_workspaces, out.unkept.blocks);
  out.unkept.bytes = peak_beside(out.unkept.blocks, 0);
}

}  // namespace stepcast::lower
