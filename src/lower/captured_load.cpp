// The load of a capture's experts. Values are zero in a capture, so its tokens are routed evenly.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "captured_draft.h"
#include "stepcast/model/experts.h"

namespace stepcast::lower {
namespace {

std::optional<Infeasible> unsuited(const capture::Group& group, const job::ExpertBalance& balance) {
  using Kind = job::ExpertBalance::Kind;
  const int experts = group.routed->experts;
  if (balance.kind == Kind::shares && static_cast<int>(balance.shares.size()) != experts) {
    return Infeasible{
        "moe.balance",
        fmt::format("{} shares; expected one for each of the {} experts of group '{}'",
                    balance.shares.size(), experts, group.name)};
  }
  if (balance.kind == Kind::shares &&
      std::accumulate(balance.shares.begin(), balance.shares.end(), 0.0) <= 0) {
    return Infeasible{"moe.balance", "the shares add up to 0; expected a load of some expert"};
  }
  if (balance.kind == Kind::spread && balance.spread > experts) {
    return Infeasible{"moe.balance", fmt::format("one expert cannot get {:g} times the mean load; "
                                                 "expected at most {}, the number of experts",
                                                 balance.spread, experts)};
  }
  return std::nullopt;
}

}  // namespace

std::variant<double, Infeasible> captured_load(const capture::Rank& rank,
                                               const job::ExpertBalance& balance) {
  double most = 1;
  for (const capture::Group& group : rank.groups) {
    if (!group.routed) {
      continue;
    }
    if (auto why = unsuited(group, balance)) {
      return *why;
    }
    const int ranks = static_cast<int>(group.ranks.size());
    const double copies = static_cast<double>(group.routed->rows) * ranks;
    most = std::max(most, model::expert_load(balance, group.routed->experts, ranks, copies));
  }
  return most;
}

std::int64_t loaded(std::int64_t amount, double load) {
  return std::llround(static_cast<double>(amount) * load);
}

}  // namespace stepcast::lower
