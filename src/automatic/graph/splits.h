// How an operator may be cut over a mesh of two axes, and what its tensors then look like.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "stepcast/model/operators.h"

namespace stepcast::automatic {

// Of an activation along one axis: whole on every rank, or cut by samples, by tokens of each
// sample, by features (heads), by experts.
enum class Cut { whole, batch, sequence, feature, expert };
inline constexpr int kCuts = 5;

// Of an operator along one axis; what stands in brackets travels within the operator. Survey's
// names of a linear layer's Y = X A: batch and sequence split m, column n, row k.
enum class Split {
  replicate,          // whole -> whole: every rank does all
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
inline constexpr int kSplits = 13;
const char* to_string(Split s);
// Names of op-trans rules: the splits, and "dispatch", "combine" for both of theirs.
std::vector<std::string> split_names();
bool is_named(Split s, const std::string& name);

using Cuts = std::array<Cut, 2>;
using Splits = std::array<Split, 2>;

Cut input_of(Split s);
Cut output_of(Split s);
// What it needs of inputs other than the first: those of a combine come from the router.
Cut other_input_of(Split s);
// The cuts that a pair of splits takes or makes: `of` is one of the three above.
inline Cuts cuts_of(const Splits& splits, Cut (*of)(Split)) {
  return {of(splits[0]), of(splits[1])};
}
// Whether each rank does 1/p of the work; holds 1/p of the parameters; has whole parameters that
// see only a part of the tokens, so that gradients are summed over ranks.
bool divides_work(Split s);
bool divides_parameters(Split s);
bool sums_gradients(Split s);

// What an operator can be split by along an axis.
std::vector<Split> splits_of(const model::Operator& op);
// Whether sizes divide: samples, tokens of each, heads, features, experts. An axis of one rank has
// one choice.
bool can_split(const model::Operator& op, const Splits& splits, const std::array<int, 2>& ranks,
               std::int64_t samples, std::int64_t tokens_each);

}  // namespace stepcast::automatic
