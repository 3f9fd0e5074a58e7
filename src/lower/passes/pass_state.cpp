#include "pass_state.h"

#include <algorithm>

namespace stepcast::lower {

PassState::PassState(const model::OperatorGraph& unit, const PassContext& with, const Redone& again)
    : graph(unit),
      context(with),
      plan(*with.plan),
      redone(again),
      dtype(plan.style.dtype),
      operands(unit.kind.wide ? dtype : plan.precision.products),
      width(bytes_per_element(dtype)),
      relief(1) {}

void kernel(PassState& state, const Kernel& what) {
  if (what.launches <= 0) {
    return;
  }
  Item item;
  item.category = state.category;
  item.weight = state.weight;
  item.kernels = static_cast<std::uint16_t>(what.launches);
  item.curve = what.price.curve;
  item.duration = what.price.time;
  item.slowdown = what.slowdown;
  item.label = state.context.labels->id(what.label);
  state.out->push_back(item);
}

void memory_kernel(PassState& state, cost::MemoryOp op, std::int64_t bytes,
                   const std::string& label, int launches) {
  kernel(state, {state.context.kernels->memory(op, Bytes(bytes)), launches, label, kMemoryBound});
}

void collective(PassState& state, const Call& call, Item::Kind kind) {
  Item item;
  item.kind = kind;
  item.category = call.category;
  item.role = call.role;
  item.weight = state.weight;
  item.label = state.context.labels->id(call.label + " " + cost::to_string(call.op));
  item.price = state.context.book->key(call.role, call.op, call.bytes);
  // Events and waits between two streams, the work object and its watchdog's entry, NCCL's group
  // calls.
  item.kernels = static_cast<std::uint16_t>(state.context.kernels->software().collective_launches);
  state.out->push_back(item);
}

void ring_step(PassState& state, Role role, std::int64_t bytes, program::Category category,
               const std::string& label) {
  Item item;
  item.kind = Item::Kind::ring;
  item.category = category;
  item.role = role;
  item.weight = state.weight;
  item.label = state.context.labels->id(label);
  item.price = state.context.book->message(bytes);
  item.kernels = 1;
  state.out->push_back(item);
}

void join(PassState& state, Role role) {
  Item item;
  item.kind = Item::Kind::join;
  item.role = role;
  item.weight = state.weight;
  state.out->push_back(item);
}

std::int64_t matrix_bytes(const PassState& state, std::int64_t rows, std::int64_t columns,
                          std::int64_t batch) {
  return static_cast<std::int64_t>(static_cast<double>(rows * columns * batch) * state.width);
}

std::int64_t input_bytes(const PassState& state, const model::Operator& op) {
  return op.gemm ? matrix_bytes(state, op.gemm->m, op.gemm->k, op.gemm->batch)
                 : op.forward_output.count();
}

std::int64_t output_bytes(const PassState& state, const model::Operator& op) {
  return op.gemm ? matrix_bytes(state, op.gemm->m, op.gemm->n, op.gemm->batch)
                 : op.forward_output.count();
}

std::int64_t local_tokens(const PassState& state) {
  const model::Shard& shard = state.plan.shard;
  return shard.sequences * shard.sequence_length / std::max(1, shard.context);
}

}  // namespace stepcast::lower
