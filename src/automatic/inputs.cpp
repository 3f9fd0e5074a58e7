#include "inputs.h"

#include "stepcast/search/strategy.h"

namespace stepcast::automatic {

std::optional<result::Strategy> forecast(const Inputs& in,
                                         const std::vector<std::string>& overrides,
                                         std::string& why) {
  auto loaded = in.loader(overrides);
  if (const auto* no = std::get_if<Infeasible>(&loaded)) {
    why = no->reason;
    return std::nullopt;
  }
  const auto& job = std::get<job::Job>(loaded);
  const auto outcome = in.forecaster.forecast(job);
  if (const auto* no = std::get_if<Infeasible>(&outcome)) {
    why = no->reason;
    return std::nullopt;
  }
  return search::strategy_of(std::get<result::Report>(outcome), job, overrides,
                             in.request.objective, true);
}

}  // namespace stepcast::automatic
