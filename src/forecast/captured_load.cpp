// The load of a capture's experts. Values are zero in a capture, so its tokens are routed evenly.
#include "captured_load.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "stepcast/model/experts.h"

namespace stepcast::forecast {
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

std::variant<double, Infeasible> load_of(const capture::Rank& rank,
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

}  // namespace

std::variant<std::vector<double>, Infeasible> captured_loads(const capture::Capture& capture,
                                                             const job::ExpertBalance& balance) {
  std::vector<double> out;
  for (const capture::Rank& rank : capture.ranks) {
    const auto load = load_of(rank, balance);
    if (const auto* why = std::get_if<Infeasible>(&load)) {
      return *why;
    }
    out.push_back(std::get<double>(load));
  }
  return out;
}

}  // namespace stepcast::forecast
