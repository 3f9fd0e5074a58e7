// A plan of a small model made by hand, on which features are tested one by one: plain fields, most
// of them at their defaults. A test sets those that its feature reads.
#pragma once

#include "stepcast/lower/lower.h"

namespace stepcast::lower::test {

// Sizes of the plan. Eight ranks of one node share the layers out; those beside `tensor` and
// `pipeline` are data-parallel.
struct Small {
  int layers = 2;
  int tensor = 1;
  int pipeline = 1;
  int chunks = 1;  // of each pipeline rank
  int micro_batches = 1;
  const char* schedule = "1f1b";  // an entry of schedule::table()
};

// Dense transformer layers of 12.6 million parameters, embeddings and an output layer of 33 million
// each, sequences of 512 tokens one by one. Fused operators in bf16, states in 18 bytes a parameter
// and gradients that are reduced whole behind the last backward pass, in one bucket.
strategy::Plan small_plan(const Small& sizes = {});

// Data-parallel ranks share states, gradients or parameters.
void share(strategy::Plan& plan, strategy::DataComm comm);

// Modules as PyTorch runs them, operator by operator and each projection for itself; every array is
// cut for itself.
void run_eagerly(strategy::Plan& plan);

// Gradients are kept and reduced in 16 bits, and stepped as one flat partition of all arrays
// (ZeRO-1 and 2 of DeepSpeed).
void keep_narrow_gradients(strategy::Plan& plan);

// Whole layers, and embedding and output layer as one, are gathered before each pass and reduced
// behind it (FSDP2).
void share_units(strategy::Plan& plan);

// Large arrays are gathered ahead one by one, gradients reduced in buckets (DeepSpeed's ZeRO-3).
void share_modules(strategy::Plan& plan);

// The plan on devices that are priced from made-up figures.
program::World lower_small(const strategy::Plan& plan, std::span<const FeatureEntry> features);

}  // namespace stepcast::lower::test
