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

bool is_split(const std::string& name, Split s) {
  switch (s) {
    case Split::replicate:
      return name == "none" || is_named(s, name);
    case Split::batch:
    case Split::dispatch_batch:
    case Split::combine_batch:
      return name == "batch" || is_named(s, name);
    case Split::sequence:
    case Split::dispatch_sequence:
    case Split::combine_sequence:
      return name == "sequence" || is_named(s, name);
    case Split::expert:
      return name == "experts" || is_named(s, name);
    default:
      return name == "hidden" || is_named(s, name);
  }
}

bool concerns(const UserRules::Cut& cut, const model::Operator& op) {
  if (!matches(cut.op, op)) {
    return false;
  }
  const auto ways = splits_of(op);
  return std::any_of(ways.begin(), ways.end(), [&](Split s) {
    return std::any_of(cut.splits.begin(), cut.splits.end(),
                       [&](const auto& name) { return is_split(name, s); });
  });
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
  return fmt::format("{}: op_order {}", to_string(order->origin), order->schedule);
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
          std::none_of(cut.splits.begin(), cut.splits.end(),
                       [&](const auto& name) { return is_split(name, splits[k]); })) {
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
    frame.all_in_flight = rules.order->schedule == "gpipe";
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
  return {fmt::format("parallelism.schedule={}", rules.order->schedule),
          fmt::format("parallelism.virtual_pipeline={}", rules.order->virtual_stages)};
}

}  // namespace stepcast::automatic
