// Time of the allocator model for each event (a request or a release).
//   exact_reuse: a block is freed and requested again among `n` live blocks and as many holes
//   passes:      the requests of a pipeline stage: layers' tensors in the forward pass, in reverse
//                order in the backward pass, with four micro-batches in flight
//   random:      sizes over four decades, random lifetimes
#include "stepcast/memory/allocator.h"

#include <benchmark/benchmark.h>

#include <random>
#include <vector>

#include "stepcast/memory/replay.h"

using namespace stepcast;
using memory::BlockId;

namespace {

constexpr std::int64_t kMiB = 1 << 20;

void per_event(benchmark::State& state, std::int64_t events) {
  state.SetItemsProcessed(state.iterations() * events);
  state.counters["s/event"] =
      benchmark::Counter(static_cast<double>(state.iterations() * events),
                         benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

void exact_reuse(benchmark::State& state) {
  const auto n = static_cast<int>(state.range(0));
  memory::CachingAllocator a({.expandable_segments = state.range(1) != 0});
  std::vector<BlockId> blocks;
  std::vector<std::int64_t> sizes;
  for (int i = 0; i < 2 * n; ++i) {
    sizes.push_back((20 + i) * kMiB);
    blocks.push_back(*a.allocate(sizes.back(), 0));
  }
  for (int i = 0; i < 2 * n; i += 2) {
    a.release(blocks[i]);
  }
  int i = 1;
  for (auto _ : state) {
    a.release(blocks[i]);
    blocks[i] = *a.allocate(sizes[i], 0);
    i = (i + 2) % (2 * n);
  }
  per_event(state, 2);
}

// A stage of `layers` layers, each of 14 kept and 10 temporary tensors, as pass scripts.
struct Stage {
  program::Program p;
  std::vector<program::MemoryEvent> trace;

  Stage(int layers, int micro_batches, int in_flight) {
    std::mt19937_64 random(1);
    std::uniform_int_distribution<int> size(1, 40);
    const auto add = [&](int count, bool transient) {
      program::Buffer b;
      b.first_block = static_cast<std::uint32_t>(p.blocks.size());
      b.blocks = static_cast<std::uint32_t>(count);
      b.transient = transient;
      for (int i = 0; i < count; ++i) {
        const auto end = static_cast<std::uint16_t>(transient ? i + 1 : 20 - i);
        p.blocks.push_back({Bytes(size(random) * 4 * kMiB), 0, static_cast<std::uint16_t>(i), end});
      }
      return b;
    };
    const program::Buffer kept = add(14, false);
    const program::Buffer forward = add(10, true);
    const program::Buffer backward = add(14, true);
    Time time{0};
    const auto event = [&](std::uint32_t buffer, bool allocate) {
      trace.push_back({time, time, program::BufferIndex::at(buffer), allocate});
      time += Time(1000);
    };
    const auto make = [&](const program::Buffer& b) {
      p.buffers.push_back(b);
      return static_cast<std::uint32_t>(p.buffers.size() - 1);
    };
    std::vector<std::vector<std::uint32_t>> stands;
    for (int m = 0; m < micro_batches + in_flight; ++m) {
      if (m < micro_batches) {
        stands.emplace_back();
        for (int l = 0; l < layers; ++l) {
          stands.back().push_back(make(kept));
          event(stands.back().back(), true);
          const std::uint32_t t = make(forward);
          event(t, true);
          event(t, false);
        }
      }
      if (m >= in_flight) {
        for (int l = layers; l-- > 0;) {
          const std::uint32_t t = make(backward);
          event(t, true);
          event(t, false);
          event(stands[m - in_flight][l], false);
        }
      }
    }
  }
};

void passes(benchmark::State& state) {
  const Stage stage(10, 32, static_cast<int>(state.range(0)));
  const std::int64_t tensors = 10 * 32 * (14 + 10 + 14);
  memory::ReplayOptions options;
  options.allocator.expandable_segments = state.range(1) != 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(memory::replay(stage.p, stage.trace, options).peak.reserved);
  }
  per_event(state, 2 * 2 * tensors);  // two steps
}

void random_traffic(benchmark::State& state) {
  std::mt19937_64 random(1);
  memory::CachingAllocator a({.expandable_segments = state.range(0) != 0});
  std::vector<BlockId> live;
  std::vector<std::int64_t> sizes;
  for (int i = 0; i < 4096; ++i) {
    sizes.push_back(std::int64_t{512} << (random() % 18));
  }
  std::size_t k = 0;
  for (int i = 0; i < 1000; ++i) {
    live.push_back(*a.allocate(sizes[i], 0));
  }
  for (auto _ : state) {
    const std::size_t i = random() % live.size();
    a.release(live[i]);
    live[i] = *a.allocate(sizes[++k % sizes.size()], 0);
  }
  per_event(state, 2);
}

BENCHMARK(exact_reuse)->ArgsProduct({{16, 256}, {0, 1}});
BENCHMARK(passes)->ArgsProduct({{1, 8}, {0, 1}})->Unit(benchmark::kMillisecond);
BENCHMARK(random_traffic)->Arg(0)->Arg(1);

}  // namespace

BENCHMARK_MAIN();
