#include "stepcast/lower/unit_memory.h"

#include <algorithm>

#include "stepcast/base/diagnostics.h"
#include "unit_tensors.h"

namespace stepcast::lower {

using program::Block;

namespace {

// Kept tensors in the lists by which schedules give them up.
void list_kept(const UnitTensors& unit, UnitMemory& out) {
  for (const KeptTensor& k : unit.kept) {
    const auto add = [&](const Block& lives, TensorList& to) {
      const auto at = static_cast<std::uint32_t>(to.blocks.size());
      add_value(unit, k.made, lives, to.blocks);
      if (k.unit_input && k.bytes == unit.options.input && to.blocks.size() == at + 1) {
        to.taken = at;
      }
    };
    if (k.again) {
      const Block lives = block_of(
          k.bytes, k.label, unit.backward_place(unit.pieces.again.at(k.storage), Step::first),
          unit.backward_place(k.first, Step::give_up));
      if (k.weight_input) {
        add(lives, out.remade_inputs);
      }
      continue;
    }
    const Block lives = block_of(k.bytes, k.label, unit.forward_place(k.made, Step::first),
                                 unit.backward_place(k.first, Step::give_up));
    add(lives, unit.until_weights(k) ? out.weight_inputs : out.kept);
    add(lives, out.saved);
    if (!k.unit_input) {
      add(lives, out.again.saved);
      if (!unit.until_weights(k)) {
        add(lives, out.again.kept);
      }
    }
  }
  std::size_t end = kPassEnd;
  for (const KeptTensor& k : unit.kept) {
    if (k.unit_input && k.bytes == unit.options.input) {
      end = unit.backward_place(k.first, Step::give_up);
    }
  }
  if (unit.options.input > 0) {
    out.input.blocks = {block_of(unit.options.input, unit.label("unit input"), 0, end)};
    out.input.bytes = whole_bytes_of(out.input.blocks);
    out.input.taken = 0;
  }
  for (TensorList* list : {&out.saved, &out.kept, &out.weight_inputs, &out.again.saved,
                           &out.again.kept, &out.remade_inputs, &out.output_gradients}) {
    list->bytes = whole_bytes_of(list->blocks);
  }
}

// Weight gradients of a pass of their own.
void list_weight_gradients(const UnitTensors& unit, UnitMemory& out) {
  for (std::size_t i = unit.count(); i-- > 0;) {
    const model::Operator& op = unit.operators[i];
    const std::int64_t bytes = unit.rules[i].weight_gradient;
    if (op.gemm && op.parameters > 0 && bytes > 0) {
      const std::size_t at = unit.backward_place(i, Step::first);
      out.weight_grad.blocks.push_back(
          block_of(bytes, unit.label(op.name + " weight gradient"), at, at));
    }
  }
  out.weight_grad.bytes = peak_beside(out.weight_grad.blocks, 0);
  for (std::size_t i = unit.count(); i-- > 0;) {
    for (const std::int64_t bytes : unit.rules[i].gradients) {
      out.gradients.blocks.push_back(
          block_of(bytes, unit.label(unit.operators[i].name + " weight gradient"),
                   unit.backward_place(i, Step::first), kPassEnd));
    }
  }
  out.gradients.bytes = whole_bytes_of(out.gradients.blocks);
}

}  // namespace

UnitMemory unit_memory(const model::OperatorGraph& graph, const UnitOptions& options,
                       const LabelOf& label) {
  STEPCAST_CHECK(options.rules.size() == graph.operators.size(), "rules for every operator");
  UnitMemory out;
  if (graph.operators.empty()) {
    return out;  // a unit whose operators are all with other stages
  }
  const UnitPieces pieces = pieces_of(graph, options);
  const UnitTensors unit = read_unit(pieces, options, label);
  list_weight_gradients(unit, out);
  add_forward_memory(unit, out);
  add_backward_memory(unit, false, out);
  add_backward_memory(unit, true, out);
  list_kept(unit, out);
  return out;
}

std::vector<std::int64_t> tensors_of(std::int64_t bytes, const model::Operator& op) {
  const std::int64_t largest =
      op.largest_temporary.count() > 0 ? op.largest_temporary.count() : bytes;
  std::vector<std::int64_t> out;
  if (bytes == op.backward_temporary.count() && !op.backward_tensors.empty()) {
    return op.backward_tensors;
  }
  for (; bytes > 0; bytes -= out.back()) {
    out.push_back(std::min(bytes, largest));
  }
  return out;
}

Block block_of(std::int64_t bytes, program::LabelIndex label, std::size_t begin, std::size_t end) {
  return {Bytes(bytes), label, static_cast<std::uint16_t>(begin),
          static_cast<std::uint16_t>(std::min<std::size_t>(end, kPassEnd))};
}

std::int64_t whole_bytes_of(const std::vector<Block>& blocks) {
  std::int64_t out = 0;
  for (const Block& b : blocks) {
    out += whole_blocks(b.bytes.count());
  }
  return out;
}

std::int64_t peak_with(const std::vector<Block>& transient, const std::vector<Block>& standing) {
  std::vector<Block> all = transient;
  all.insert(all.end(), standing.begin(), standing.end());
  return peak_beside(all, whole_bytes_of(standing));
}

std::int64_t peak_beside(const std::vector<Block>& blocks, std::int64_t counted) {
  std::size_t places = 1;
  for (const Block& b : blocks) {
    places = std::max<std::size_t>(places, b.begin + std::size_t{1});
  }
  // What is allocated at a place stands beside what is freed behind it.
  std::vector<std::int64_t> change(places + 1, 0);
  for (const Block& b : blocks) {
    change[b.begin] += whole_blocks(b.bytes.count());
    if (b.end < places) {
      change[b.end + std::size_t{1}] -= whole_blocks(b.bytes.count());
    }
  }
  std::int64_t live = 0;
  std::int64_t peak = 0;
  for (std::size_t i = 0; i < places; ++i) {
    live += change[i];
    peak = std::max(peak, live);
  }
  return std::max<std::int64_t>(0, peak - counted);
}

}  // namespace stepcast::lower
