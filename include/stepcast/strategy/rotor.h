// Activation checkpoints of a chain with the shortest passes within a memory limit: the dynamic
// programme of Beaumont, Eyraud-Dubois, Herrmann, Joly and Shilova ("Optimal checkpointing for
// heterogeneous chains", arXiv 1911.13214), over plain numbers. A kept tensor stays until the backward
// pass that reads it.
//
// A pipeline adds to it: several micro-batches are between their forward and backward passes and hold
// what was kept, while passes of only one of them run.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace stepcast::strategy {

// Times and sizes in any unit.
struct ChainStage {
  std::int64_t forward = 0;  // time
  std::int64_t backward = 0;
  std::int64_t saved = 0;           // what its backward pass reads in addition to its input
  std::int64_t output = 0;          // input of the next stage
  std::int64_t gradient = 0;        // of the output
  std::int64_t forward_extra = 0;   // temporary memory of its forward pass that keeps all
  std::int64_t sweep_extra = 0;     // of its forward pass that keeps nothing
  std::int64_t backward_extra = 0;  // of its backward pass
  bool fixed = false;               // never runs again
  auto operator<=>(const ChainStage&) const = default;
};

struct Chain {
  std::vector<ChainStage> stages;
  std::int64_t input = 0;  // of the first stage; held throughout
};

struct ChainStep {
  enum class Kind : std::uint8_t { keep_all, keep_input, keep_nothing, backward } kind;
  int stage = 0;
  auto operator<=>(const ChainStep&) const = default;
};

// Memory above which no plan is faster: everything kept, and the largest transients.
std::int64_t enough(const Chain& chain);

// Bytes in which a solver counts, for a chain that keeps `whole` when it keeps everything: a 4000th of that, at least 512.
// The solver's tables reach as far as memory matters, transients included. Where those are many times what is kept
// (sequences of a few tokens), or a chain is very long, units are larger, so that a solution takes a second or so:
// at most 16,000 units, and 8e8 units times stages squared.
std::int64_t solver_unit(const Chain& chain, std::int64_t whole);

// Cost of a sequence of steps. `kept`: memory held when all stages have run forward and none
// backward. `peak`: peak memory of one micro-batch.
struct ChainCost {
  std::int64_t time = 0;
  std::int64_t kept = 0;
  std::int64_t peak = 0;
};

// Nothing: a step needs what is not in memory, or a backward pass is missing.
std::optional<ChainCost> cost_of(const Chain& chain, const std::vector<ChainStep>& steps);

// Keeps the input of every `group`-th stage and recomputes the others group by group; fixed stages
// keep all.
std::vector<ChainStep> redo_in_groups(const Chain& chain, int group);
// Recomputes the first `count` stages one by one and keeps the others.
std::vector<ChainStep> redo_first(const Chain& chain, int count);

struct ChainLimits {
  std::int64_t memory = 0;
  int others = 0;         // number of further micro-batches that hold `kept`
  std::int64_t slot = 1;  // sizes are rounded up to whole slots, the memory down
};

struct ChainPlan {
  ChainCost cost;
  std::vector<ChainStep> steps;
};

// The shortest order of steps with others * kept + peak <= memory; nothing: none fits. Equal groups
// and first stages alone are tried in exact sizes as well, so that rounding never makes the plan worse
// than those. O(slots * length) for each of the segments that differ, and O(slots * stages^2) for each
// size of what is kept (with others).
std::optional<ChainPlan> optimal_chain(const Chain& chain, const ChainLimits& limits);

// The least memory for which there is a plan, to a slot.
std::int64_t least_memory(const Chain& chain, int others, std::int64_t slot);

}  // namespace stepcast::strategy
