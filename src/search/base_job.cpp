// The job that a space varies, whether or not it is valid without the space's choices.
#include <algorithm>

#include "stepcast/input/input.h"
#include "stepcast/search/jobs.h"

namespace stepcast::search {
namespace {

using Texts = std::vector<std::string>;

// Choices that may make the job valid: single ones first, then pairs of different dimensions, up to
// a maximum number.
std::vector<Texts> repairs(const Space& space) {
  constexpr std::size_t kMaxRepairs = 400;
  std::vector<Texts> out;
  std::vector<std::pair<std::size_t, std::string>> choices;  // with the index of the dimension
  for (std::size_t d = 0; d < space.dimensions.size(); ++d) {
    for (const std::string& value : space.dimensions[d].values) {
      choices.emplace_back(d, space.dimensions[d].key + "=" + value);
      out.push_back({choices.back().second});
    }
  }
  for (const auto& [d, one] : choices) {
    for (const auto& [other, two] : choices) {
      if (other > d && out.size() < kMaxRepairs) {
        out.push_back({one, two});
      }
    }
  }
  return out;
}

}  // namespace

config::Loaded base_of(const std::string& config, const std::vector<std::string>& overrides,
                       const std::function<Space(const job::Job&)>& space) {
  try {
    return input::load(config, overrides);
  } catch (const InputError&) {
    for (const Texts& repair : repairs(space(smallest_job()))) {
      Texts all = overrides;
      all.insert(all.end(), repair.begin(), repair.end());
      try {
        return input::load(config, all);
      } catch (const InputError&) {  // try the next one
      }
    }
    throw;
  }
}

}  // namespace stepcast::search
