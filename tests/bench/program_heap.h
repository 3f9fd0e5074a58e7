// Benchmarks that run on the heap of the program.
#pragma once

#include <benchmark/benchmark.h>

#include "heap.h"

namespace stepcast::bench {

inline int run_on_program_heap(int argc, char** argv) {
  cli::keep_freed_memory();
  cli::take_huge_pages();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}

}  // namespace stepcast::bench
