#include "table_gradients.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "../stage/feature_list.h"
#include "../tensors/unit_tensors.h"
#include "buckets.h"

namespace stepcast::lower {
namespace {

using program::BufferIndex;
using program::kNone;
using program::MemoryCategory;

class SharedTable final : public Feature {
 public:
  void before_weight_gradients(Stage& stage, int chunk, std::size_t unit) override;
  void after_backward(Stage& stage, int chunk, std::size_t unit) override;

 private:
  BufferIndex waiting_ = kNone, added_ = kNone;
  std::vector<BufferIndex> held_;  // by chunk
};

// Megatron-LM's main gradients stand; where a product does not add into them itself, autograd
// holds what the output projection made of the table until the embedding has made its own, and the
// hook adds their sum.
std::int64_t held_by_autograd(const Stage& stage, int chunk, std::size_t unit) {
  const auto& units = stage.units[static_cast<std::size_t>(chunk)];
  const strategy::Plan& plan = stage.plan;
  const bool both = units.front().kind == Unit::Kind::embedding &&
                    units[unit].kind == Unit::Kind::head && shares_table(stage);
  if (!both || !plan.state_layout.gradients_stand || plan.accumulation.in_product ||
      plan.parameter_gather.by_units || plan.style.finetune.kind != FinetuneKind::none) {
    return 0;
  }
  const std::int64_t table = plan.vocab / plan.grid.tensor * plan.model.hidden;
  return whole_blocks(static_cast<double>(table) * width(plan.style.dtype));
}

TensorList list_of(const program::Block& block, std::uint16_t end) {
  TensorList out{{block}, block.bytes.count()};
  out.blocks.front().end = end;
  return out;
}

void SharedTable::before_weight_gradients(Stage& stage, int chunk, std::size_t unit) {
  const TableGradients& table = stage.gradients.tables[static_cast<std::size_t>(chunk)];
  if (unit == 0 && table.apart) {
    added_ = stage.builder.allocate(table.added, MemoryCategory::gradients,
                                    label_of(stage, "gradients"), false);
  }
  if (!waits_for_embedding(stage, chunk, unit)) {
    return;
  }
  if (keeps_projection(stage, chunk)) {
    stage.gradients.buffers.push_back(stage.builder.allocate(table.kept, MemoryCategory::gradients,
                                                             label_of(stage, "gradients"), false));
  } else {
    waiting_ = stage.builder.allocate(table.waiting, MemoryCategory::gradients,
                                      label_of(stage, "gradients"), false);
  }
}

void SharedTable::after_backward(Stage& stage, int chunk, std::size_t unit) {
  held_.resize(stage.units.size(), kNone);
  BufferIndex& held = held_[static_cast<std::size_t>(chunk)];
  if (const std::int64_t bytes = held_by_autograd(stage, chunk, unit); bytes > 0) {
    held = stage.builder.allocate(bytes, MemoryCategory::gradients, label_of(stage, "gradients"));
  }
  if (unit == 0) {
    stage.builder.release(held);
    held = kNone;
    stage.builder.release(waiting_);
    stage.builder.release(added_);
    waiting_ = added_ = kNone;
  }
}

}  // namespace

TableGradients part_table_gradients(const strategy::Plan& plan, Passes& projection,
                                    Passes& embedding) {
  const auto by_size = [](const program::Block& a, const program::Block& b) {
    return a.bytes < b.bytes;
  };
  std::vector<program::Block>& made = projection.memory.gradients.blocks;
  std::vector<program::Block>& other = embedding.memory.gradients.blocks;
  if (made.empty() || other.empty()) {
    return {};
  }
  const auto of_projection = std::max_element(made.begin(), made.end(), by_size);
  const auto of_embedding = std::max_element(other.begin(), other.end(), by_size);
  TableGradients out;
  const std::uint16_t sum = hook(*of_embedding);
  out.waiting = list_of(*of_projection, sum);
  out.kept = list_of(*of_projection, kPassEnd);
  out.added = list_of(*of_embedding, sum);
  out.beside = embedding.memory.gradients;
  out.beside.blocks.erase(out.beside.blocks.begin() + (of_embedding - other.begin()));
  out.beside.bytes = whole_bytes_of(out.beside.blocks);
  out.apart = !plan.style.autocast && !joins_head(plan.loss_form.kernel);
  if (out.apart) {
    of_embedding->begin = sum;
  }
  made.erase(of_projection);
  projection.memory.gradients.bytes = whole_bytes_of(made);
  return out;
}

bool keeps_projection(const Stage& stage, int chunk) {
  const bool first = stage.passes.turns[static_cast<std::size_t>(chunk)].backwards_ended == 0;
  return stage.plan.style.autocast && made_by_operators(stage.plan) && first &&
         !(stage.plan.gradient_sync.live_in_buckets && travels(stage));
}

std::unique_ptr<Feature> make_shared_table() { return std::make_unique<SharedTable>(); }

}  // namespace stepcast::lower
