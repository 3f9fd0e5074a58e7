#include "alike.h"

#include <algorithm>
#include <string>

namespace stepcast::search {
namespace {

bool may_be_idle(const std::string& override_) {
  return override_.starts_with("parallelism.schedule=") || override_.starts_with("cluster.order=");
}

std::vector<std::string> without_idle(std::vector<std::string> overrides) {
  overrides.erase(std::remove_if(overrides.begin(), overrides.end(), may_be_idle), overrides.end());
  return overrides;
}

}  // namespace

std::vector<std::uint32_t> kin_of(const Family& family, const std::vector<Family>& before) {
  std::vector<std::uint32_t> out;
  const std::vector<std::string> ours = without_idle(family.overrides);
  if (ours.size() == family.overrides.size()) {
    return out;
  }
  for (std::size_t f = 0; f < before.size(); ++f) {
    if (before[f].gpus == family.gpus && without_idle(before[f].overrides) == ours &&
        before[f].inner.same_choices(family.inner)) {
      out.push_back(static_cast<std::uint32_t>(f));
    }
  }
  return out;
}

std::optional<std::uint32_t> first_alike(const Family& family, const bound::Bound& own,
                                         const bound::Candidate& candidate,
                                         std::vector<forecast::Forecaster::Bounds>& bounds) {
  const auto alike = [&](std::uint32_t kin) {
    return own.same_job(bounds[kin].of, candidate) && bounds[kin].of.layout(candidate) != nullptr;
  };
  const auto found = std::find_if(family.kin.begin(), family.kin.end(), alike);
  return found == family.kin.end() ? std::nullopt : std::optional(*found);
}

}  // namespace stepcast::search
