// Stages of one number of micro-batches: blocks of layers to sub-meshes, and within each the
// operators' cuts.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "plans.h"

namespace stepcast::search {

class StagePlanner {
 public:
  StagePlanner(GraphModel& model, const Setting& setting);

  // `limit`: nothing as slow is of use.
  GraphPlan plan(const StageSearch& search, double limit);

 private:
  struct Solved {
    View view;
    double time;
    double memory = 0;          // with one micro-batch in flight
    double memory_of_each = 0;  // and of each more
    double memory_limit = 0;
    std::vector<int> choice;
  };

  StageAsk ask_of(int first, int last, const View& view, int later) const;
  Solved solve(const StageAsk& ask, bool limited);
  const Solved& unlimited(const StageAsk& ask, const std::string& key);
  const Solved* best_view(int first, int last, int shape, int later);

  GraphModel& model_;
  const Setting& setting_;
  double limit_;
  std::vector<int> starts_;  // first layer of each block, and the end
  std::vector<int> shapes_;
  std::map<std::pair<std::string, View>, Solved> free_;
  std::map<std::tuple<std::string, int, int>, Solved> best_;
  std::int64_t solved_ = 0;
};

}  // namespace stepcast::search
