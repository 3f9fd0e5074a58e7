// The best strategy of a space together with all that was simulated on the way to it, for those who go on from there.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "stepcast/result/search.h"
#include "stepcast/search/search.h"

namespace stepcast::search {

struct Explored {
  std::optional<result::Strategy> best;     // nullopt: none fits, for the reason in `why_none`
  std::vector<result::Strategy> simulated;  // in the order of their lower bounds, whether they fit or not
  std::int64_t candidates = 0;              // combinations of the space
  std::int64_t evaluated = 0;               // those that were simulated or found impossible
  bool stopped = false;                     // by the time limit
  double gap = 0;                           // of the best to the least lower bound that is left
  std::string why_none;
};

// By the branch and bound of search(), without its explanations. `stage`: what Request::progress names it.
Explored explore(const Request& request, const JobLoader& loader, const std::filesystem::path& data_directory,
                 const std::string& stage);

}  // namespace stepcast::search
