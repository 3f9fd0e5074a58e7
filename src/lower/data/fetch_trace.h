// Which parameters DeepSpeed's stage 3 gathers together, at which module it does so, and where it
// gives them up: its coordinator played over the modules of one micro-batch (deepspeed 0.19.8,
// runtime/zero/partitioned_param_coordinator.py), once it knows their order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace stepcast::lower {

struct Stage;

// Passes of a unit in which its modules are called.
enum class FetchPass : std::uint8_t { forward, again, backward };

// A place in the micro-batch.
struct FetchSpot {
  std::size_t unit = 0;
  FetchPass pass = FetchPass::forward;
  std::uint16_t place = 0;  // operator of the pass
  bool same_pass(const FetchSpot& o) const { return unit == o.unit && pass == o.pass; }
};

struct FetchedArray {
  std::int64_t elements = 0;
  bool expert = false;
  FetchSpot released;
  bool left = false;  // for the next micro-batch: `released` is the end of this one
};

// Parameters that are gathered by one operation.
struct FusedGather {
  std::vector<FetchedArray> arrays;
  FetchSpot issued, used;  // used: the first module that reads any of them
  bool on_demand = false;  // that module is the one that gathers them
};

// In the order of issue.
std::vector<FusedGather> trace_fetches(const Stage& stage);

// Of a micro-batch that finds whole what the one before left, as it is whole for a coordinator that
// counts from zero again (deepspeed 0.15.4, partitioned_param_coordinator.py:252, reset_step).
struct LaterFetches {
  std::vector<FusedGather> gathers;
  std::vector<FetchSpot> released;  // where arrays that were left before are given up
};
LaterFetches later_fetches(const Stage& stage);

// Those of the first micro-batch, whose order of modules is not known: each module gathers its own
// parameters, and gives them up behind it.
std::vector<FusedGather> untraced_fetches(const Stage& stage);

}  // namespace stepcast::lower
