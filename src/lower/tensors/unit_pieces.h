// The operators that a framework runs one by one where a unit's graph has one for several of them:
// products of one input, a gate and the other half of an MLP, the rotation of queries and that of
// keys.
//
// LAW     Pieces stand in the order in which the framework runs them, and autograd runs their
//         backward passes in reverse (torch/csrc/autograd/engine.cpp: by sequence number). Their
//         results, parameters and saved tensors add up to the operator's.
// SOURCE  transformers 5.23 models/llama/modeling_llama.py:122 (rotate_half),
//         :147 (apply_rotary_pos_emb), :164 (the MLP), :243 (projections); histories of the caching
//         allocator over the null GPU (tests/oracle).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "stepcast/lower/unit_memory.h"

namespace stepcast::lower {

// A weight's copy in 16 bits, which a product keeps.
inline constexpr const char* kCastWeight = "cast weight";
// Pieces that cast rotated queries and keys for fused attention, under torch.autocast.
inline constexpr const char* kAttentionCast = "attention cast";

struct UnitPieces {
  std::vector<model::Operator> operators;
  std::vector<TensorRules> rules;  // by piece
  std::vector<std::pair<int, int>>
      edges;  // between pieces: producer (-1: the unit's input), consumer
  // By piece: the operator of the graph in whose places it runs, ascending.
  std::vector<std::size_t> of;
  std::vector<std::size_t> number;             // by piece: among those of its operator
  std::vector<std::size_t> count;              // by operator of the graph: its pieces
  std::map<std::uint32_t, std::size_t> again;  // UnitOptions::again by pieces and their storages
  std::vector<HeldTensor> held;                // UnitOptions::held likewise

  std::size_t units() const { return count.size(); }
};

UnitPieces pieces_of(const model::OperatorGraph& graph, const UnitOptions& options);

}  // namespace stepcast::lower
