// Stages of one number of micro-batches: blocks of layers to sub-meshes, and within each the
// operators' cuts.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "plans.h"

namespace stepcast::search {

class StagePlanner {
 public:
  StagePlanner(GraphModel& model, const Setting& setting, const StageSearch& search);

  // Seconds that no plan is below: the best with no limit on memory. Infinity: there is none.
  double least();
  // `limit`: nothing as slow is of use.
  GraphPlan plan(double limit);

 private:
  struct Solved {
    View view;
    double time;
    double memory = 0;          // with one micro-batch in flight
    double memory_of_each = 0;  // and of each more
    double memory_limit = 0;
    std::vector<int> choice;
  };
  // Stages that cost alike.
  struct Kind {
    std::string content;
    StageAsk ask;  // of one of them; the view is still to be chosen
    double least = 0;
    std::optional<Solved> best;  // under the limit on memory
  };

  StageProblem problem();
  StageAsk ask_of(int first, int last, const View& view, int later) const;
  // -1: impossible.
  int kind_of(int first, int last, int shape, int later);
  std::vector<View> views(int devices) const;
  Solved solve(const StageAsk& ask, bool limited, double limit);
  const Solved& unlimited(const StageAsk& ask, const std::string& content);
  const Solved& best(Kind& kind);

  GraphModel& model_;
  const Setting setting_;
  const StageSearch search_;
  double limit_;
  std::vector<int> starts_;  // first layer of each block, and the end
  std::vector<int> shapes_;
  std::map<std::pair<std::string, View>, Solved> free_;
  std::map<std::tuple<std::string, int, int>, int> kind_;  // by content, devices, in flight
  std::vector<Kind> kinds_;
  std::int64_t solved_ = 0;
};

}  // namespace stepcast::search
