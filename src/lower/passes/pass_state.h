// What all emitters of a unit's passes read, where their items go, and the items themselves.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "passes.h"
#include "slowdown.h"

namespace stepcast::lower {

struct PassState {
  PassState(const model::OperatorGraph& unit, const PassContext& with, const Redone& again);

  const model::OperatorGraph& graph;
  const PassContext& context;
  const strategy::Plan& plan;
  const Redone& redone;
  DType dtype;     // of activations
  DType operands;  // of products where they are cast
  double width;    // bytes of an activation's element
  double relief;   // of products' level (cost::Kernels::relief)

  // The pass that is written now.
  std::vector<Item>* out = nullptr;
  program::Category category = program::Category::compute;  // of its kernels
  bool weight = false;  // what is written belongs to the weight gradient
};

// Products of the unit read operands below 16 bits.
inline bool few_bits(const PassState& state) {
  return bytes_per_element(state.operands) < state.width;
}

// One kernel, or several alike, of which `price` is the sum.
struct Kernel {
  cost::Priced price;
  int launches = 1;  // 0: nothing is written
  std::string label;
  std::uint8_t slowdown = kArithmeticBound;
};
void kernel(PassState& state, const Kernel& what);

// A kernel that moves `bytes`, read and written together.
void memory_kernel(PassState& state, cost::MemoryOp op, std::int64_t bytes,
                   const std::string& label, int launches = 1);

// A collective of a role. The compute stream waits for it (collective), or it runs on the role's
// own stream until the role's next join (async).
struct Call {
  Role role = kTensor;
  cost::Collective op = cost::Collective::all_reduce;
  std::int64_t bytes = 0;  // as cost/collectives.h counts them
  program::Category category = program::Category::tensor;
  std::string label;
};
void collective(PassState& state, const Call& call, Item::Kind kind = Item::Kind::collective);

// One step round the ring of a role: `bytes` to the next member and as many from the previous one,
// on the role's own stream until its next join.
void ring_step(PassState& state, Role role, std::int64_t bytes, program::Category category,
               const std::string& label);

// The compute stream waits for what runs on the role's stream.
void join(PassState& state, Role role);

// Bytes of `batch` matrices of activations, of an operator's input and of its result.
std::int64_t matrix_bytes(const PassState& state, std::int64_t rows, std::int64_t columns,
                          std::int64_t batch);
std::int64_t input_bytes(const PassState& state, const model::Operator& op);
std::int64_t output_bytes(const PassState& state, const model::Operator& op);

// Tokens of a micro-batch on one rank.
std::int64_t local_tokens(const PassState& state);

}  // namespace stepcast::lower
