// The tensors of a unit as its operators read and keep them: what the memory of each pass is
// counted from (unit_memory.cpp).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "stepcast/lower/unit_memory.h"
#include "unit_pieces.h"

namespace stepcast::lower {

// A tensor that outlives the forward pass, by indices of pieces.
struct KeptTensor {
  std::uint32_t storage = 0;
  std::int64_t bytes = 0;
  program::LabelIndex label;
  std::size_t made = 0;       // first operator that it stands for
  std::size_t first = 0;      // operator whose backward pass reads it last
  std::size_t last_read = 0;  // in the forward pass
  bool weight_input = false;  // read by the weight gradients of products
  bool cast = false;          // a copy of fewer bits
  bool unit_input = false;
  bool activated = false;  // the activated gate, a factor of a gated MLP's product
  bool again = false;      // made again in the backward pass
};

// What happens behind one another while an operator runs: a gradient that lies in another order is
// copied; a product's weight gradient is made ahead of that of its input; what was read is given
// up; contributions to a gradient are added up (torch 2.15, csrc/autograd/engine.cpp:
// evaluate_function, call_function).
enum class Step : std::uint8_t { copy, first, run, give_up, sum, count };

// Operators are the unit's pieces. Values are numbered as the pieces whose results they are; the
// number behind the last is the unit's input.
struct UnitTensors {
  const UnitPieces& pieces;
  const UnitOptions& options;
  const LabelOf& label;
  std::vector<std::vector<std::size_t>> from = {};  // by operator, the values that it reads
  std::vector<std::size_t> last_reader = {};        // by value
  std::vector<bool> read = {};                      // by value: an operator reads it
  std::vector<bool> held = {};                      // by value: a kept tensor
  std::vector<KeptTensor> kept = {};
  const std::vector<model::Operator>& operators = pieces.operators;
  const std::vector<TensorRules>& rules = pieces.rules;

  std::size_t count() const { return operators.size(); }
  std::size_t outside() const { return count(); }
  // A kept tensor stands until the weight gradients are made.
  bool until_weights(const KeptTensor& k) const {
    return k.weight_input || options.split_keeps_graph;
  }
  // Where a piece's step stands in the forward pass, and in the backward pass.
  std::size_t forward_place(std::size_t i, Step step) const {
    return place(pieces.of[i], pieces.number[i], step);
  }
  std::size_t backward_place(std::size_t i, Step step) const {
    const std::size_t of = pieces.of[i];
    return place(pieces.units() - 1 - of, pieces.count[of] - 1 - pieces.number[i], step);
  }
  // Bytes of a value: a row-parallel product's sum is scattered over the sequence.
  std::int64_t result(std::size_t value) const {
    return value == outside()
               ? options.input
               : operators[value].forward_output.count() / rules[value].scatter.parts;
  }

 private:
  static std::size_t place(std::size_t op, std::size_t number, Step step) {
    constexpr auto kSteps = static_cast<std::size_t>(Step::count);
    const std::size_t within = std::min(number * kSteps, kPlacesOfOperator - kSteps);
    return first_place(op) + within + static_cast<std::size_t>(step);
  }
};

// A value in `to`, as the tensors that it is made of: a product that stands for several of the
// framework's makes one each.
void add_value(const UnitTensors& unit, std::size_t value, const program::Block& whole,
               std::vector<program::Block>& to);

// `pieces` are the unit's, and must outlive this.
UnitTensors read_unit(const UnitPieces& pieces, const UnitOptions& options, const LabelOf& label);

// Behind the pass.
inline constexpr std::uint16_t kPassEnd = 0xffff;

program::Block block_of(std::int64_t bytes, program::LabelIndex label, std::size_t begin,
                        std::size_t end);
// Bytes of each tensor among an operator's temporaries of so many bytes together.
std::vector<std::int64_t> tensors_of(std::int64_t bytes, const model::Operator& op);

// Sum of whole blocks.
std::int64_t whole_bytes_of(const std::vector<program::Block>& blocks);

// What `transient` adds at most beside `standing`.
std::int64_t peak_with(const std::vector<program::Block>& transient,
                       const std::vector<program::Block>& standing);

// What each pass holds beside what is kept.
void add_forward_memory(const UnitTensors& unit, UnitMemory& out);
// What functions that run again work with in the backward pass, beside what they make again: of
// each the most at a time.
std::vector<program::Block> tensors_of_functions(const UnitTensors& unit);
// With the weight gradients (backward), or, `split`, without them (input_grad).
void add_backward_memory(const UnitTensors& unit, bool split, UnitMemory& out);

}  // namespace stepcast::lower
