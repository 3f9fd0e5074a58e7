// The key under which the store keeps a point of a sweep.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "stepcast/planner/sweep.h"

namespace stepcast::planner {

// The key states all that the point depends on: the job, the text of files that its values name
// (which may change), the fidelity and the space. A sweep with more values finds the points of a
// smaller one.
class SweepKeys {
 public:
  explicit SweepKeys(const SweepRequest& request);
  std::string key(const std::vector<std::string>& overrides) const;

 private:
  std::string base_;
  std::map<std::string, std::string> meanings_;  // text of the files that overrides name
};

}  // namespace stepcast::planner
