// A handmade plan of a small model, used to test features one by one: plain fields, most of them
// with their defaults. A test sets the fields that its feature reads.
#pragma once

#include "stepcast/lower/lower.h"

namespace stepcast::lower::test {

// Sizes of the plan, which has eight ranks on one node. The ranks not needed for `tensor` and
// `pipeline` are data-parallel.
struct Small {
  int layers = 2;
  int tensor = 1;
  int pipeline = 1;
  int chunks = 1;  // for each pipeline rank
  int micro_batches = 1;
  const char* schedule = "1f1b";  // an entry of schedule::table()
};

// A plan with dense transformer layers of 12.6 million parameters, embedding and output layer of 33
// million each, and single sequences of 512 tokens. Operators are fused and in bf16, states take 18
// bytes per parameter, and gradients are reduced in one bucket after the last backward pass.
strategy::Plan small_plan(const Small& sizes = {});

// Shards states, gradients or parameters over data-parallel ranks.
void share(strategy::Plan& plan, strategy::DataComm comm);

// Runs modules like PyTorch: operator by operator and each projection separately; every array is
// sharded separately.
void run_eagerly(strategy::Plan& plan);

// Keeps and reduces gradients in 16 bits; the optimizer steps one flat partition of all arrays
// (DeepSpeed's ZeRO-1 and 2).
void keep_narrow_gradients(strategy::Plan& plan);

// Gathers whole layers, and embedding and output layer together, before each pass, and reduces them
// after it (FSDP2).
void share_units(strategy::Plan& plan);

// Gathers large arrays ahead of time one by one, and reduces gradients in buckets (DeepSpeed's
// ZeRO-3).
void share_modules(strategy::Plan& plan);

// Lowers the plan with devices that have invented prices.
program::World lower_small(const strategy::Plan& plan, std::span<const FeatureEntry> features);

}  // namespace stepcast::lower::test
