// The tensors of a unit as its operators read and keep them: what the memory of each pass is
// counted from (unit_memory.cpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "stepcast/lower/unit_memory.h"

namespace stepcast::lower {

// A tensor that outlives the forward pass. Places are indices of operators.
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

// Values are numbered as the operators whose results they are; the number behind the last is the
// unit's input.
struct UnitTensors {
  const std::vector<model::Operator>& operators;
  const UnitOptions& options;
  const LabelOf& label;
  std::vector<std::vector<std::size_t>> from = {};  // by operator, the values that it reads
  std::vector<std::size_t> last_reader = {};        // by value
  std::vector<bool> read = {};                      // by value: an operator reads it
  std::vector<bool> held = {};                      // by value: a kept tensor
  std::vector<KeptTensor> kept = {};

  std::size_t count() const { return operators.size(); }
  std::size_t outside() const { return count(); }
  // A kept tensor stands until the weight gradients are made.
  bool until_weights(const KeptTensor& k) const {
    return k.weight_input || options.split_keeps_graph;
  }
  // Where an operator stands in the backward pass.
  std::size_t backward_place(std::size_t i) const { return count() - 1 - i; }
  // Bytes of a value: a row-parallel product's sum is scattered over the sequence.
  std::int64_t result(std::size_t value) const {
    return value == outside()
               ? options.input
               : operators[value].forward_output.count() / options.rules[value].scattered;
  }
};

// A value in `to`, as the tensors that it is made of: a product that stands for several of the
// framework's makes one each.
void add_value(const UnitTensors& unit, std::size_t value, const program::Block& whole,
               std::vector<program::Block>& to);

UnitTensors read_unit(const model::OperatorGraph& graph, const UnitOptions& options,
                      const LabelOf& label);

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
// With the weight gradients (backward), or, `split`, without them (input_grad).
void add_backward_memory(const UnitTensors& unit, bool split, UnitMemory& out);

}  // namespace stepcast::lower
