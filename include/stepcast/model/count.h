// Parameter and FLOP counts of a whole model.
#pragma once

#include <cstdint>

#include "stepcast/base/quantity.h"
#include "stepcast/base/spelling.h"
#include "stepcast/job/job.h"
#include "stepcast/model/operators.h"

namespace stepcast::model {

struct Parameters {
  std::int64_t total = 0;
  std::int64_t active = 0;     // per token: MoE counts top-k and shared experts
  std::int64_t embedding = 0;  // input table (and learned positions)
  std::int64_t head = 0;       // output projection; 0 when tied
  std::int64_t final_norm = 0;
};
Parameters count_parameters(const job::Model& model);
std::int64_t layer_parameters(const job::Model& model, int layer);

// Entries that a sequence's queries score (compressed.cpp), with `rate` tokens each, at most `most` a query; and with them
// the keys of the window, in a layer of compressed attention.
double entry_pairs(std::int64_t length, std::int64_t rate, std::int64_t most);
double compressed_pairs(const job::Model& model, const LayerKind& kind, std::int64_t length);

// FLOPs of one sequence, forward pass: GEMMs with logits; attention half when `causal`.
Flops forward_flops(const job::Model& model, std::int64_t sequence_length, bool causal);
// Of these, those of indexers that have no gradient: only compressed attention's.
Flops forward_only_flops(const job::Model& model, std::int64_t sequence_length);

// FLOPs of one optimizer step on `sequences` sequences, by the conventions under which measurements are published (the words
// of `flops` in a measured run). Reports use megatron_causal: 3 x forward with logits, half of the scores of causal
// attention, no recomputation. megatron_causal_frozen: the same, but on a frozen base (2 + adapters / base) / 3 of it,
// attention's too.
enum class FlopConvention {
  megatron_causal,
  megatron_full,
  megatron_causal_frozen,
  sc21_hardware,
  sc21_model,
  korthikanti_model,
  palm,
  palm_both_embeddings
};

constexpr auto spellings(FlopConvention) {
  return std::to_array<Spelling<FlopConvention>>({{FlopConvention::megatron_causal, "megatron_causal"},
                                                  {FlopConvention::megatron_full, "megatron_full"},
                                                  {FlopConvention::megatron_causal_frozen, "megatron_causal_frozen"},
                                                  {FlopConvention::sc21_hardware, "sc21_hardware"},
                                                  {FlopConvention::sc21_model, "sc21_model"},
                                                  {FlopConvention::korthikanti_model, "korthikanti_model"},
                                                  {FlopConvention::palm, "palm"},
                                                  {FlopConvention::palm_both_embeddings, "palm_both_embeddings"}});
}

Flops step_flops(const job::Model& model, std::int64_t sequence_length, double sequences, FlopConvention convention);

// The same of a job's global batch, where a base may be frozen.
Flops step_flops(const job::Job& job, FlopConvention convention);

// FLOPs that training on `sequences` sequences needs, by megatron_causal. On a frozen base the products for its weights'
// gradients are not counted, and those of the adapters are.
Flops training_flops(const job::Job& job, double sequences);
Flops training_flops(const job::Model& model, Style style, std::int64_t sequence_length, double sequences);

}  // namespace stepcast::model
