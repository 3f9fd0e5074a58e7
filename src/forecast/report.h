// Computes the report's figures from a timeline.
#pragma once

#include <array>
#include <vector>

#include "memory.h"
#include "site.h"
#include "stepcast/cluster/topology.h"
#include "stepcast/cost/curve.h"
#include "stepcast/cost/structure.h"
#include "stepcast/lower/fold.h"
#include "stepcast/lower/lower.h"
#include "stepcast/program/timeline.h"
#include "stepcast/result/report.h"
#include "stepcast/strategy/plan.h"

namespace stepcast::forecast {

struct Source {
  const strategy::Plan* plan = nullptr;  // null: of a capture, whose rates are filled by the caller
  const program::World* world = nullptr;
  const program::Timeline* timeline = nullptr;
  const std::vector<cost::Curve>* curves = nullptr;
  const job::Device* device = nullptr;
  std::vector<Bytes> capacity;                      // usable, by rank of the world
  const std::vector<RankMemory>* memory = nullptr;  // likewise
  Flops recomputed{0};                              // all ranks together
  const SiteUse* site = nullptr;
  std::array<double, cost::kSiteParameters> site_seconds{};  // added by one deviation of each
  double site_scatter = 0;                                   // seconds
  const cost::Structure* structure = nullptr;  // null: no deviations of structure are added
  const cost::MemoryStructure* memory_structure = nullptr;  // never null
  std::vector<OpenKey> open;
  // By program, names of its communicators' roles; empty: those of a job.
  std::vector<std::vector<std::string>> group_names = {};
};

// Memory of a device that a process may use.
Bytes usable_memory(const job::Device& device);

// Fills `memory`, `peak`, `capacity` and `fits`. Of the timeline it reads the ranks alone.
void fill_memory(const Source& source, result::Report& report);

// Fills everything but `engine`, `job_json`, `advice` and `trace`.
void fill_report(const Source& source, result::Report& report);

// Fills the step time and the rates that follow from it; their intervals follow from that of the
// step time.
void fill_rates(const strategy::Plan& plan, const result::Estimate& step_time, Flops recomputed,
                result::Report& report);

// FLOPs of recomputation in a step, of all ranks together.
Flops recomputed_flops(const program::World& world, const lower::Recomputed& recomputed);

// The curves that take any of `seconds`, in an order that does not depend on which of them an
// earlier job used first: sums over them are the same in their last digits, too.
std::vector<std::size_t> used_curves(const std::vector<cost::Curve>& curves,
                                     const std::vector<double>& seconds);

// Derivative of the step time by the logarithm of each curve, in seconds. Time of merged kernels is
// divided among their curves.
std::vector<double> curve_seconds(const program::World& world, const program::Timeline& timeline);

}  // namespace stepcast::forecast
