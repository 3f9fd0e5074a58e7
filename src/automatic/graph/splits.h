// How an operator may be split over a mesh of two axes, and how its tensors are then cut.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "stepcast/base/spelling.h"
#include "stepcast/model/operators.h"

namespace stepcast::automatic {

// How an activation is cut along one axis: not at all (whole on every rank), by samples, by tokens
// of each sample, by features (heads), or by experts.
enum class Cut { whole, batch, sequence, feature, expert };
inline constexpr int kCuts = 5;

// How an operator is split along one axis: cut of its input -> cut of its output, with the messages
// inside the operator in brackets. For a linear layer Y = X A, batch and sequence split m, column
// splits n, and row splits k.
enum class Split {
  replicate,          // whole -> whole: every rank does all the work
  batch,              // batch -> batch
  sequence,           // sequence -> sequence; attention gathers keys and values
  column,             // whole -> feature [input gradient: all-reduce]
  column_gather,      // sequence -> feature [input: all-gather; its gradient: reduce-scatter]
  row,                // feature -> whole [output: all-reduce]
  row_scatter,        // feature -> sequence [output: reduce-scatter; its gradient: all-gather]
  feature,            // feature -> feature, without parameters: heads of attention, channels
  expert,             // expert -> expert: each rank its own experts
  dispatch_batch,     // batch -> expert [all-to-all], and back
  dispatch_sequence,  // sequence -> expert
  combine_batch,      // expert -> batch
  combine_sequence,   // expert -> sequence
};

constexpr auto spellings(Split) {
  return std::to_array<Spelling<Split>>({{Split::replicate, "replicate"},
                                         {Split::batch, "batch"},
                                         {Split::sequence, "sequence"},
                                         {Split::column, "column"},
                                         {Split::column_gather, "column_gather"},
                                         {Split::row, "row"},
                                         {Split::row_scatter, "row_scatter"},
                                         {Split::feature, "feature"},
                                         {Split::expert, "expert"},
                                         {Split::dispatch_batch, "dispatch_batch"},
                                         {Split::dispatch_sequence, "dispatch_sequence"},
                                         {Split::combine_batch, "combine_batch"},
                                         {Split::combine_sequence, "combine_sequence"}});
}
inline constexpr std::size_t kSplits = spellings(Split{}).size();

using Cuts = std::array<Cut, 2>;
using Splits = std::array<Split, 2>;

Cut input_of(Split s);
Cut output_of(Split s);
// The cut of inputs other than the first. For a combine, those come from the router.
Cut other_input_of(Split s);
// The cuts along both axes: `of` is one of the three functions above.
inline Cuts cuts_of(const Splits& splits, Cut (*of)(Split)) {
  return {of(splits[0]), of(splits[1])};
}
// Whether each rank does 1/p of the work; whether it holds 1/p of the parameters; whether it holds
// all parameters but sees only part of the tokens, so that gradients are summed over ranks.
bool divides_work(Split s);
bool divides_parameters(Split s);
bool sums_gradients(Split s);

// All splits of an operator along an axis.
std::vector<Split> splits_of(const model::Operator& op);
// True if the sizes are divisible: samples, tokens per sample, heads, features, experts. An axis of
// one rank allows only Split::replicate.
bool can_split(const model::Operator& op, const Splits& splits, const std::array<int, 2>& ranks,
               std::int64_t samples, std::int64_t tokens_each);

}  // namespace stepcast::automatic
