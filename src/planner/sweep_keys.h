// Under what name a point of a sweep is kept.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "stepcast/planner/sweep.h"

namespace stepcast::planner {

// The name says all that the point depends on: the job and what its values stand for (a value may
// name a file of the user's, whose text may change), the fidelity, the space. A sweep with more
// values finds those of a smaller one.
class SweepKeys {
 public:
  explicit SweepKeys(const SweepRequest& request);
  std::string key(const std::vector<std::string>& overrides) const;

 private:
  std::string base_;
  std::map<std::string, std::string> meanings_;  // of overrides that may name a file
};

}  // namespace stepcast::planner
