// A world on its way: what build_world() (world.cpp) passes from step to step, each in a file of
// its own: programs, the lattice of its ranks, prices, memory outside the allocator, curves.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "../lattice/lattice.h"
#include "../stage/kinds.h"
#include "../stage/stage.h"
#include "program_memo.h"
#include "stepcast/lower/lower.h"

namespace stepcast::lower {

struct WorldDraft {
  WorldDraft(const strategy::Plan& of, const cluster::Topology& on, const Prices& at_prices,
             const Options& with)
      : plan(of),
        topology(on),
        prices(at_prices),
        options(with),
        kinds(of, on),
        blends(kBlendBase) {}

  // Blends are numbered from here until the curve table is complete.
  static constexpr program::CurveId kBlendBase = 0x8000;

  const strategy::Plan& plan;
  const cluster::Topology& topology;
  const Prices& prices;
  const Options& options;
  Kinds kinds;
  program::World world = {};
  Labels labels = {};
  PriceBook book = {};
  Blends blends;
  program::CurveId blends_from = kBlendBase;  // in tasks, which may have been of a world before
  std::vector<DraftShape> shapes = {};
  // What is kept of the programs, and what for; none: nothing is.
  std::unique_ptr<ProgramKey> key = {};
  std::unique_ptr<LoweredPrograms> lowered = {};
};

// In the order in which build_world() calls them.
// One program a stage and kind of rank, and slowdowns of their kernels.
void make_programs(WorldDraft& w);
// Ranks, with the tables of their lattice.
void make_ranks(WorldDraft& w, Lattice lattice);
void price_shapes(WorldDraft& w);
// What lies beyond the GPUs; returns the curves of CPUs and drives.
std::vector<program::Curve> add_host_side(WorldDraft& w);
void weigh_outside(WorldDraft& w);
// Curves of kernels and collectives, then those of the host, then blends.
void make_curves(WorldDraft& w, const std::vector<program::Curve>& host_curves);

}  // namespace stepcast::lower
