// Plans the stages for one number of micro-batches: assigns blocks of layers to sub-meshes and
// splits the operators of each.
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
  double memory = 0;          // bytes with one micro-batch in flight
  double memory_of_each = 0;  // bytes of each further micro-batch in flight
  std::vector<int> choice;
};

// The fastest cuts of stages without a memory limit. They do not depend on the number of virtual
// stages nor on the reserve of memory, so that plans of one model share them.
struct StageMemo {
  struct Free {
    CutStage cut;
    double least_memory = 0;  // minimum over all cuts
    // Bytes of the device that operators use while they run, and that cuts may not use.
    double transient = 0;
  };
  std::map<std::string, Free> stages;
};

class StagePlanner {
 public:
  StagePlanner(GraphModel& model, const Setting& setting, const StageSearch& search,
               StageMemo& memo);

  // A lower bound of all plans in seconds: the best plan without a memory limit. Infinity if no
  // plan exists.
  double least();
  // A plan whose latency is not below `limit` is of no use.
  GraphPlan plan(double limit);
  std::int64_t solved() const { return solved_; }  // number of stage problems solved

 private:
  // A group of stages with the same cost.
  struct Kind {
    std::string content;
    StageAsk ask;  // the problem of one of them, without its view
    double least = 0;
    std::optional<CutStage> best;  // best cut under the memory limit
  };

  StageProblem problem();
  StageAsk ask_of(int first, int last, const View& view, int later) const;
  // Returns -1 if the stage is impossible.
  int kind_of(int first, int last, int shape, int later);
  std::vector<View> views(int devices) const;
  // A lower bound of all cuts in seconds; infinity if none fits.
  double least(const StageAsk& ask, const std::string& content);
  const StageMemo::Free& unlimited(const StageAsk& ask, const std::string& content);
  CutStage limited(const StageAsk& ask, double limit);
  const CutStage& best(Kind& kind);

  GraphModel& model_;
  const Setting setting_;
  const StageSearch search_;
  StageMemo& memo_;
  const std::string common_;  // common part of the memo's keys
  double limit_;
  std::vector<int> starts_;  // first layer of each block, then the number of layers
  std::vector<int> shapes_;
  // By content, devices and micro-batches in flight.
  std::map<std::tuple<std::string, int, int>, int> kind_;
  std::vector<Kind> kinds_;
  std::int64_t solved_ = 0;
};

}  // namespace stepcast::automatic
