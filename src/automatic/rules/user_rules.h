// A user's constraints on plans in nnScaler's three primitives (Lin et al., OSDI 2024): how
// operators are split (op-trans), to which stage layers belong (op-assign), and in which order
// micro-batches run (op-order).
#pragma once

#include <bitset>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "../graph/graph_model.h"
#include "../plans/plans.h"
#include "stepcast/base/diagnostics.h"
#include "stepcast/base/spelling.h"
#include "stepcast/text/document.h"

namespace stepcast::automatic {

using SplitSet = std::bitset<kSplits>;
inline bool contains(const SplitSet& set, Split s) { return set.test(static_cast<std::size_t>(s)); }

// Schedules that an op-order rule may ask for.
enum class RuleSchedule { one_f_one_b, gpipe, interleaved };

constexpr auto spellings(RuleSchedule) {
  return std::to_array<Spelling<RuleSchedule>>({{RuleSchedule::one_f_one_b, "1f1b"},
                                                {RuleSchedule::gpipe, "gpipe"},
                                                {RuleSchedule::interleaved, "interleaved_1f1b"}});
}

struct UserRules {
  struct Cut {
    Origin origin;
    std::string op;                  // "attention.qkv", "qkv", or a whole module: "attention"
    std::vector<std::string> words;  // names of the splits as the user wrote them
    SplitSet splits;                 // any of them is allowed
    int axis = -1;  // 0: data, the outer one; 1: tensor, the nearest ranks; -1: both
  };
  struct Assign {
    Origin origin;
    LayersAt layers;
  };
  struct Order {
    Origin origin;
    RuleSchedule schedule = RuleSchedule::one_f_one_b;
    int virtual_stages = 1;
    int micro_batches = 0;  // 0: any number
  };
  std::vector<Cut> cuts;
  std::vector<Assign> assigns;
  std::optional<Order> order;

  std::size_t size() const { return cuts.size() + assigns.size() + (order ? 1 : 0); }
  UserRules without(std::size_t rule) const;
  std::string text(std::size_t rule) const;  // "FILE:3:5: op_trans attention.qkv"
};

// Reads rules strictly. Unknown keys, operators and splits, layers that the model lacks, and rules
// that contradict each other are faults of one line each.
UserRules read_rules(const text::Value& document, const job::Job& job,
                     const std::vector<Analysed>& operators);

bool allows(const UserRules& rules, const model::Operator& op, const Splits& splits,
            const View& view);
void apply(const UserRules& rules, Frame& frame);
// Overrides that set the job's schedule.
std::vector<std::string> overrides_of(const UserRules& rules);

}  // namespace stepcast::automatic
