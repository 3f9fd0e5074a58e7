// Stages of one number of micro-batches: blocks of layers to sub-meshes, and within each the
// operators' cuts.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "../infinity.h"
#include "plans.h"

namespace stepcast::automatic {

// How a stage is cut, and what that takes.
struct CutStage {
  View view;
  double time = kInfinity;    // infinity: it cannot be
  double memory = 0;          // with one micro-batch in flight
  double memory_of_each = 0;  // and of each more
  std::vector<int> choice;
};

// Stages cut at their fastest, whatever memory that takes: the same for all numbers of virtual
// stages and all that is left free, so that plans of one model share them.
struct StageMemo {
  struct Free {
    CutStage cut;
    double least_memory = 0;  // of all cuts
    double transient = 0;     // of the device's memory, what no cut may take
  };
  std::map<std::string, Free> stages;
};

class StagePlanner {
 public:
  StagePlanner(GraphModel& model, const Setting& setting, const StageSearch& search,
               StageMemo& memo);

  // Seconds that no plan is below: the best with no limit on memory. Infinity: there is none.
  double least();
  // `limit`: nothing as slow is of use.
  GraphPlan plan(double limit);
  std::int64_t solved() const { return solved_; }  // problems of stages

 private:
  // Stages that cost alike.
  struct Kind {
    std::string content;
    StageAsk ask;  // of one of them; the view is still to be chosen
    double least = 0;
    std::optional<CutStage> best;  // under the limit on memory
  };

  StageProblem problem();
  StageAsk ask_of(int first, int last, const View& view, int later) const;
  // -1: impossible.
  int kind_of(int first, int last, int shape, int later);
  std::vector<View> views(int devices) const;
  // Seconds that no cut is below; infinity: none fits.
  double least(const StageAsk& ask, const std::string& content);
  const StageMemo::Free& unlimited(const StageAsk& ask, const std::string& content);
  CutStage limited(const StageAsk& ask, double limit);
  const CutStage& best(Kind& kind);

  GraphModel& model_;
  const Setting setting_;
  const StageSearch search_;
  StageMemo& memo_;
  const std::string common_;  // of keys of the memo
  double limit_;
  std::vector<int> starts_;  // first layer of each block, and the end
  std::vector<int> shapes_;
  std::map<std::tuple<std::string, int, int>, int> kind_;  // by content, devices, in flight
  std::vector<Kind> kinds_;
  std::int64_t solved_ = 0;
};

}  // namespace stepcast::automatic
