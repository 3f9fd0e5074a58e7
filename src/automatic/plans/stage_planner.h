// Plans the stages for one number of micro-batches: blocks of layers on sub-meshes, and within each
// the operators' cuts.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "../infinity.h"
#include "plans.h"

namespace stepcast::automatic {

// The cuts of a stage, with its time and memory.
struct CutStage {
  View view;
  double time = kInfinity;    // infinity: impossible
  double memory = 0;          // with one micro-batch in flight
  double memory_of_each = 0;  // of each further one
  std::vector<int> choice;
};

// Stages with their fastest cuts without a memory limit. They are the same for all numbers of
// virtual stages and all reserves of memory, so that plans of one model share them.
struct StageMemo {
  struct Free {
    CutStage cut;
    double least_memory = 0;  // of all cuts
    double transient = 0;     // bytes of the device that no cut may take
  };
  std::map<std::string, Free> stages;
};

class StagePlanner {
 public:
  StagePlanner(GraphModel& model, const Setting& setting, const StageSearch& search,
               StageMemo& memo);

  // A lower bound of all plans in seconds: the best without a memory limit. Infinity where no plan
  // exists.
  double least();
  // `limit`: plans as slow as this are of no use.
  GraphPlan plan(double limit);
  std::int64_t solved() const { return solved_; }  // stage problems solved

 private:
  // Stages that cost the same.
  struct Kind {
    std::string content;
    StageAsk ask;  // of one of them; the view is still to be chosen
    double least = 0;
    std::optional<CutStage> best;  // under the memory limit
  };

  StageProblem problem();
  StageAsk ask_of(int first, int last, const View& view, int later) const;
  // -1: impossible.
  int kind_of(int first, int last, int shape, int later);
  std::vector<View> views(int devices) const;
  // A lower bound of all cuts in seconds; infinity where none fits.
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
