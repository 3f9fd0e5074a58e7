#include "user_rules.h"

#include <fmt/format.h>

#include <algorithm>

#include "rule_match.h"
#include "stepcast/model/operators.h"

namespace stepcast::automatic {
namespace {

constexpr const char* kModules[] = {"embedding",     "attention", "core_attention", "mlp", "moe",
                                    "shared_expert", "head"};

}  // namespace

std::string module_of(const model::Operator& op) { return kModules[static_cast<int>(op.module)]; }

bool matches(const std::string& pattern, const model::Operator& op) {
  const std::string module = module_of(op);
  return pattern == op.name || pattern == module || pattern == module + "." + op.name;
}

const std::vector<SplitWord>& split_words() {
  static const std::vector<SplitWord> words = [] {
    const auto set_of = [](std::initializer_list<Split> splits) {
      SplitSet out;
      for (const Split s : splits) {
        out.set(static_cast<std::size_t>(s));
      }
      return out;
    };
    std::vector<SplitWord> out = {
        {"none", set_of({Split::replicate})},
        {"batch", set_of({Split::batch, Split::dispatch_batch, Split::combine_batch})},
        {"sequence", set_of({Split::sequence, Split::dispatch_sequence, Split::combine_sequence})},
        {"hidden", set_of({Split::column, Split::column_gather, Split::row, Split::row_scatter,
                           Split::feature})},
        {"experts", set_of({Split::expert})}};
    for (const Spelling<Split>& s : spellings(Split{})) {
      if (s.value != Split::batch && s.value != Split::sequence) {
        out.push_back({s.word, set_of({s.value})});
      }
    }
    out.push_back({"dispatch", set_of({Split::dispatch_batch, Split::dispatch_sequence})});
    out.push_back({"combine", set_of({Split::combine_batch, Split::combine_sequence})});
    return out;
  }();
  return words;
}

bool concerns(const UserRules::Cut& cut, const model::Operator& op) {
  if (!matches(cut.op, op)) {
    return false;
  }
  const auto ways = splits_of(op);
  return std::any_of(ways.begin(), ways.end(), [&](Split s) { return contains(cut.splits, s); });
}

UserRules UserRules::without(std::size_t rule) const {
  UserRules out = *this;
  if (rule < cuts.size()) {
    out.cuts.erase(out.cuts.begin() + static_cast<std::ptrdiff_t>(rule));
  } else if (rule - cuts.size() < assigns.size()) {
    out.assigns.erase(out.assigns.begin() + static_cast<std::ptrdiff_t>(rule - cuts.size()));
  } else {
    out.order.reset();
  }
  return out;
}

std::string UserRules::text(std::size_t rule) const {
  if (rule < cuts.size()) {
    return fmt::format("{}: op_trans of {}", to_string(cuts[rule].origin), cuts[rule].op);
  }
  rule -= cuts.size();
  if (rule < assigns.size()) {
    const LayersAt& at = assigns[rule].layers;
    return fmt::format("{}: op_assign of layers {}..{} to stage {}",
                       to_string(assigns[rule].origin), at.first, at.last, at.stage);
  }
  return fmt::format("{}: op_order {}", to_string(order->origin), to_string(order->schedule));
}

bool allows(const UserRules& rules, const model::Operator& op, const Splits& splits,
            const View& view) {
  return std::all_of(rules.cuts.begin(), rules.cuts.end(), [&](const UserRules::Cut& cut) {
    if (!concerns(cut, op)) {
      return true;
    }
    for (int a = 0; a < 2; ++a) {
      const auto k = static_cast<std::size_t>(a);
      if (view.ranks[k] > 1 && (cut.axis < 0 || cut.axis == a) &&
          !contains(cut.splits, splits[k])) {
        return false;
      }
    }
    return true;
  });
}

void apply(const UserRules& rules, Frame& frame) {
  for (const auto& a : rules.assigns) {
    frame.layers_at.push_back(a.layers);
  }
  if (rules.order) {
    frame.all_in_flight = rules.order->schedule == RuleSchedule::gpipe;
    frame.virtual_stages = rules.order->virtual_stages;
    if (rules.order->micro_batches > 0) {
      frame.counts_of_micro_batches = {rules.order->micro_batches};
    }
  }
}

std::vector<std::string> overrides_of(const UserRules& rules) {
  if (!rules.order) {
    return {};
  }
  return {fmt::format("parallelism.schedule={}", to_string(rules.order->schedule)),
          fmt::format("parallelism.virtual_pipeline={}", rules.order->virtual_stages)};
}

}  // namespace stepcast::automatic
