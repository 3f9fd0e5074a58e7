// What make_programs() makes, and all that it depends on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "../passes/labels.h"
#include "../passes/merge.h"
#include "../passes/price_book.h"
#include "../stage/kinds.h"
#include "stepcast/cost/kernels.h"
#include "stepcast/lower/programs.h"

namespace stepcast::lower {

// All that programs depend on.
struct ProgramKey {
  strategy::Plan plan;  // without what of its cluster only prices and lattices depend on
  std::vector<hardware::Device> devices;
  std::vector<const cost::Kernels*>
      kernels;  // of each; what they price is the same as long as they are
  std::vector<Kind> kinds;
  bool merge = true;

  bool operator==(const ProgramKey&) const = default;
};

// Programs, and what else a world has of lowering them.
struct LoweredPrograms {
  std::vector<program::Program> programs;
  std::vector<Bytes> outside;  // Program::outside_allocator as lowered
  Labels labels;
  PriceBook book;
  Blends blends;
  program::CurveId blends_from;  // tasks' curves from here on are blends
  std::vector<char> rows;        // of slow-downs, in use
  std::vector<double> again_flops;
  std::size_t tasks = 0;
  std::uint64_t number = 0;  // of these programs; 0: not lent yet
};

}  // namespace stepcast::lower
