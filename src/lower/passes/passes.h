// The passes of one unit (a layer, the embedding, the head) on one rank: kernels and collectives in
// issue order, priced once and replayed for every micro-batch.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "../tensors/module_calls.h"
#include "../tensors/redone.h"
#include "item.h"
#include "labels.h"
#include "merge.h"
#include "price_book.h"
#include "roles.h"
#include "stepcast/cost/kernels.h"
#include "stepcast/lower/unit_memory.h"
#include "stepcast/model/operators.h"
#include "stepcast/strategy/plan.h"

namespace stepcast::lower {

// Elements of parameters by the ranks that share them: dense ones over data x context, experts over
// the ranks that hold the same experts. Where every data-parallel rank holds the experts, they
// count as dense.
struct Elements {
  std::int64_t dense = 0;
  std::int64_t expert = 0;
  // Of these, weights of products in fewer than 16 bits (parameter_formats.h).
  std::int64_t narrow_dense = 0;
  std::int64_t narrow_expert = 0;
  bool none() const { return dense <= 0 && expert <= 0; }
  std::int64_t total() const { return dense + expert; }
  Elements& operator+=(const Elements& o) {
    dense += o.dense;
    expert += o.expert;
    narrow_dense += o.narrow_dense;
    narrow_expert += o.narrow_expert;
    return *this;
  }
};

// Parameters of a unit, or of all units of a stage, on one rank.
struct Parameters {
  Elements trained;
  std::int64_t frozen_bytes = 0;    // take no gradient
  std::int64_t frozen_experts = 0;  // those of `frozen_bytes` that are sharded as experts are
  // Both as they are gathered: weights in the products' format, as trained ones are; quantised
  // blocks as they are held.
  std::int64_t gathered_frozen = 0, gathered_frozen_experts = 0;
  std::int64_t whole_frozen =
      0;  // so do these, which are whole on every rank that shards the others
  std::int64_t frozen_norms = 0;        // elements of norms among the frozen parameters
  std::vector<std::int64_t> quantised;  // elements of each weight of 4 bits, in forward order
  std::int64_t replicated = 0;          // trained elements, the same on every tensor rank
};

// A tensor of trained parameters, with which buckets are filled and which optimizers step. Of a
// mixture of experts: the weights of all its experts here, `elements` / (`rows` * `columns`)
// matrices.
struct Array {
  std::int64_t elements = 0;
  bool expert = false;    // reduced over the expert-data group
  std::int64_t rows = 0;  // of a matrix, as this rank holds it; 0: a vector
  std::int64_t columns = 0;
  bool table = false;     // an embedding, or the output projection
  bool cast = false;      // products read a copy in fewer bits
  bool autocast = false;  // torch.autocast makes a copy for its product
  bool narrow = false;    // that copy is what FSDP2 gathers (narrow_gather.h)
  bool tiled = false;     // gathered and reduced tile by tile
  bool bias = false;      // of a product's
  bool frozen = false;    // of Passes::with_frozen
  std::size_t op = 0;     // operator of the unit
  int chunk = 0;          // model chunk (virtual stage)
};

// Where a head's products and loss stand among a unit's operators.
struct HeadPlaces {
  std::optional<std::size_t> loss;  // the first operator of the loss
  std::vector<std::size_t> calls;   // the products, where the head is called for chunks
  bool loss_chunks = false;  // its forward pass is laid out by chunks of the loss (loss_chunks.h)
};

// The modules that hold parameters, and the order of their calls.
struct ModuleOrder {
  std::vector<Array> with_frozen;  // of all parameters, where some of them are frozen
  std::vector<ModuleCall> calls;   // count in these, or in Passes::arrays
};

struct Passes {
  std::vector<Item> forward;
  std::vector<Item> recompute;  // forward again, for units that are recomputed whole
  std::vector<Item> backward;   // input and weight gradient together
  // Of schedules that split the backward pass: the items of `backward` that are not `weight`, and
  // those that are.
  std::vector<Item> input_grad;
  std::vector<Item> weight_grad;

  std::size_t operators = 0;  // of the unit
  HeadPlaces head;
  UnitMemory memory;       // tensors kept between the passes, and temporaries of each
  std::int64_t input = 0;  // bytes kept when the whole unit is recomputed

  Parameters parameters;
  std::vector<Array> arrays;  // of the trained parameters, in forward order
  ModuleOrder modules;
  std::vector<model::Gemm> summed;  // products that add weight gradients to the main ones

  double flops = 0;         // of the forward pass: products and attention
  double again_flops = 0;   // of these, what runs again with the whole unit
  double redone_flops = 0;  // of these, what runs again inside the backward pass
};

// Of all parameters, trained or frozen.
inline const std::vector<Array>& arrays_of_modules(const Passes& passes) {
  return passes.modules.with_frozen.empty() ? passes.arrays : passes.modules.with_frozen;
}

// What pricing a unit needs beside its graph.
struct PassContext {
  const strategy::Plan* plan = nullptr;
  const cost::Kernels* kernels = nullptr;
  Labels* labels = nullptr;
  PriceBook* book = nullptr;
  bool merge = true;
  int sms = 0;  // processors of the device; 0: not asked for
};

// `redone`: what runs again inside the backward pass.
Passes build_passes(const model::OperatorGraph& graph, const PassContext& context,
                    const Redone& redone = {});

}  // namespace stepcast::lower
