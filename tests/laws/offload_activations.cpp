// Activations offloaded to host memory: when the simulated stall begins, what stays on the device,
// and that nothing else changes.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "catch.hpp"
#include "stepcast/engine/engine.h"
#include "support/lowered.h"
#include "support/run_world.h"

using namespace stepcast;
using support::Lowered;
using support::run;

namespace {

constexpr auto kOffload = static_cast<std::size_t>(program::Category::offload);

std::string job_of(const std::string& system, const std::string& parallelism, int layers,
                   int micro_batches, const std::string& memory) {
  return fmt::format(
      "model: {{layers: {}, hidden: 2048, heads: 16, kv_heads: 16, head_dim: 128, ffn: 8192, "
      "vocab: 32000, max_positions: 1024}}\n"
      "cluster: {{use: dgx-a100, nodes: 1}}\n"
      "system: {}\n"
      "workload: {{sequence_length: 1024, global_batch: {}, micro_batch: 1}}\n"
      "parallelism: {{{}}}\n"
      "memory: {{{}}}\n",
      layers, system, micro_batches, parallelism, memory);
}

const std::string kInterleaved =
    "tensor: 2, data: 1, pipeline: 4, virtual_pipeline: 2, schedule: interleaved_1f1b";

std::string alpha(double ratio) {
  return fmt::format("offload: {{activations: {{to: cpu, ratio: {}}}}}", ratio);
}

// Only layers: nothing takes time but their passes and the copies. A copy of one unit takes `out`
// picoseconds to the host and `back` to the device; copies to and from drives take `write` and
// `read`.
std::unique_ptr<Lowered> copies_alone(const std::string& text, std::int64_t out, std::int64_t back,
                                      std::int64_t write = 0, std::int64_t read = 0) {
  auto lowered = std::make_unique<Lowered>(text, false, [](strategy::Plan& plan) {
    for (auto& rank : plan.stages) {
      for (auto& chunk : rank) {
        chunk.embedding = chunk.head = false;
      }
    }
  });
  lowered->free_links();
  auto& world = lowered->world;
  for (program::Program& p : world.programs) {
    for (program::Task& t : p.tasks) {
      t.slowdown = 0;
      if (t.micro_batch == 0xffff) {
        t.duration = Time{0};
      }
    }
    for (program::HostOp& op : p.host) {
      op.duration = Time{0};
    }
  }
  for (std::size_t r = 0; r < world.ranks.size(); ++r) {
    const program::Program& p = lowered->program(r);
    for (const program::Task& t : p.tasks) {
      if (t.kind == program::TaskKind::copy) {
        const std::string& label = world.labels[t.label];
        world.shapes[world.ranks[r].copy_shape].prices[t.price].latency =
            Time(label == "activations to the host" ? out
                 : label == "activations to NVMe"   ? write
                 : label == "activations from NVMe" ? read
                                                    : back);
      }
    }
  }
  return lowered;
}

std::int64_t stall(const program::Timeline& timeline) {
  std::int64_t out = 0;
  for (const auto& rank : timeline.ranks) {
    out += rank.breakdown[kOffload].count();
  }
  return out;
}

struct Passes {
  std::int64_t forward = 0;  // of one chunk
  std::int64_t backward = 0;
};

Passes passes_of(const Lowered& lowered) {
  Passes out;
  for (const program::Task& t : lowered.program(0).tasks) {
    if (t.kind == program::TaskKind::kernel && t.micro_batch == 0 && t.chunk == 0) {
      const std::string& label = lowered.world.labels[t.label];
      const bool backward = label.ends_with(" dgrad") || label.ends_with(" backward") ||
                            label.ends_with(" wgrad") || label == "accumulate gradient";
      (backward ? out.backward : out.forward) += t.duration.count();
    }
  }
  return out;
}

// Largest number of bytes of activations on the device (or the host) at one time, in issue order.
std::int64_t peak(const program::Program& p, program::Place place) {
  std::int64_t now = 0, most = 0;
  for (const program::HostOp& op : p.host) {
    const bool made = op.kind == program::HostKind::allocate;
    if (!made && op.kind != program::HostKind::release) {
      continue;
    }
    const program::Buffer& b = p.buffers[op.buffer];
    const std::string& label = p.labels[b.label];
    if (b.place == place && label.find("activations") != std::string::npos) {
      now += made ? b.bytes.count() : -b.bytes.count();
      most = std::max(most, now);
    }
  }
  CHECK(now == 0);
  return most;
}

}  // namespace

// Yuan et al., USENIX ATC'24: a chunk's copy of alpha * A / bandwidth is hidden by one forward pass
// in the warm-up and by a forward-backward pair in the steady state.
TEST_CASE("Pairs: the stall begins where a chunk's copy takes longer than a forward pass",
          "[laws][offload]") {
  const std::string text = job_of("megatron-kwai", kInterleaved, 16, 16, alpha(0.5));
  const int units = 2;  // per chunk
  const auto still = copies_alone(text, 0, 0);
  const Passes time = passes_of(*still);
  REQUIRE(time.forward > 0);
  REQUIRE(time.backward > time.forward);
  const auto free = run(still->world);
  CHECK(stall(free) == 0);

  const std::int64_t edge = time.forward / units;  // limit for the copy of one unit
  const auto below = run(copies_alone(text, edge, edge)->world);
  CHECK(stall(below) == 0);
  CHECK(below.period == free.period);
  const auto above = run(copies_alone(text, edge + 1000, edge + 1000)->world);
  CHECK(stall(above) > 0);
  CHECK(above.period > free.period);
  // Above the limit, the stall grows with the copies.
  Time last = above.period;
  for (const int percent : {110, 130, 160, 200, 300}) {
    const auto more = run(copies_alone(text, edge * percent / 100, edge * percent / 100)->world);
    CHECK(more.period > last);
    last = more.period;
  }
}

// The same limit in terms of alpha, at the price of an unshared link.
TEST_CASE(
    "Pairs: the step grows with alpha from where alpha * A / bandwidth exceeds a forward pass",
    "[laws][offload]") {
  bool free = false, stalled = false;
  Time last{0};
  for (int percent = 10; percent <= 100; percent += 10) {
    const std::string text = job_of("megatron-kwai", kInterleaved, 16, 16, alpha(0.01 * percent));
    // The price of the copies without their latency.
    const Lowered priced(text);
    const program::World& world = priced.world;
    const program::Program& p = priced.program(0);
    program::Price price;
    for (const program::Task& t : p.tasks) {
      if (t.kind == program::TaskKind::copy) {
        const auto& one = world.shapes[world.ranks[0].copy_shape].prices[t.price];
        price = one.bytes > price.bytes ? one : price;  // of a layer, not the embedding
      }
    }
    REQUIRE(price.fluid > Time{0});
    const std::int64_t took = price.fluid.count();
    const auto lowered = copies_alone(text, took, took);
    const auto timeline = run(lowered->world);
    INFO("alpha " << percent << " %, a copy of " << price.bytes.count() << " bytes takes " << took);
    const bool hides = 2 * took <= passes_of(*lowered).forward;
    CHECK((stall(timeline) == 0) == hides);
    CHECK(timeline.period >= last);
    if (!hides && stalled) {
      CHECK(timeline.period > last);
    }
    last = timeline.period;
    free = free || hides;
    stalled = stalled || !hides;
  }
  CHECK(free);
  CHECK(stalled);
}

TEST_CASE("Pairs: in the steady state a copy has a forward and a backward pass",
          "[laws][offload]") {
  const int units = 2;
  const auto job = [&](int m) { return job_of("megatron-kwai", kInterleaved, 16, m, alpha(1)); };
  const Passes time = passes_of(*copies_alone(job(16), 0, 0));
  const std::int64_t edge = (time.forward + time.backward) / units;
  // How much longer eight additional micro-batches take than their passes.
  const auto growth = [&](std::int64_t out) {
    return (run(copies_alone(job(24), out, 0)->world).period -
            run(copies_alone(job(16), out, 0)->world).period)
        .count();
  };
  const std::int64_t free = growth(0);
  CHECK(free == 16 * (time.forward + time.backward));  // of two chunks
  CHECK(growth(edge) == free);
  CHECK(growth(edge + edge / 50) > free);
}

TEST_CASE("Pairs: the device keeps the rest of each chunk and some copies in flight",
          "[laws][offload]") {
  const auto none = copies_alone(job_of("megatron-kwai", kInterleaved, 16, 16, ""), 0, 0);
  const int p = 4, v = 2;
  for (std::size_t rank = 0; rank < 8; rank += 2) {
    const int r = static_cast<int>(rank) / 2;
    const int live = std::min(16 * v, 2 * (p - 1 - r) + (v - 1) * p + 1);
    const std::int64_t whole = peak(none->program(rank), program::Place::device);
    const std::int64_t chunk = whole / live;
    CHECK(whole == chunk * live);
    for (const double ratio : {0.25, 0.5, 1.0}) {
      INFO("rank " << r << ", alpha " << ratio);
      const auto some =
          copies_alone(job_of("megatron-kwai", kInterleaved, 16, 16, alpha(ratio)), 0, 0);
      const auto stays = static_cast<double>(peak(some->program(rank), program::Place::device));
      const double moved = ratio * static_cast<double>(chunk);
      const double in_flight = (stays - (1 - ratio) * static_cast<double>(whole)) / moved;
      CHECK(in_flight >= 2);
      CHECK(in_flight <= 4.01);
      const auto host = static_cast<double>(peak(some->program(rank), program::Place::host));
      CHECK(host <= moved * live * 1.01);
      CHECK(host > 0);
    }
  }
}

TEST_CASE("Pairs: nothing of the last rank's last chunk leaves", "[laws][offload]") {
  const auto lowered = copies_alone(job_of("megatron-kwai", kInterleaved, 16, 16, alpha(1)), 0, 0);
  for (std::size_t rank = 0; rank < 8; rank += 2) {
    int of_chunk[2] = {0, 0};
    for (const program::Task& t : lowered->program(rank).tasks) {
      if (t.kind == program::TaskKind::copy) {
        ++of_chunk[t.chunk];
      }
    }
    CHECK(of_chunk[0] == 16 * 2 * 2);
    // The previous rank keeps two chunks, since no forward pass precedes their backward pass.
    CHECK(of_chunk[1] == (rank == 6 ? 0 : rank == 4 ? 14 * 2 * 2 : 16 * 2 * 2));
  }
}

// One rank, unit by unit: the next unit's pass hides each copy.
TEST_CASE("Units: a copy hides behind the next unit's pass; without overlap it never does",
          "[laws][offload]") {
  const std::string grid = "tensor: 8, data: 1, pipeline: 1";
  const auto job = [&](const std::string& more) {
    return job_of("{use: megatron-lm, activation_offload: units}", grid, 8, 2,
                  fmt::format("offload: {{activations: cpu{}}}", more));
  };
  const auto still = copies_alone(job(""), 0, 0);
  const std::int64_t forward = passes_of(*still).forward / 8;  // of one layer
  const auto free = run(still->world).period;
  CHECK(run(copies_alone(job(""), forward, 0)->world).period == free);
  const auto slow = run(copies_alone(job(""), forward + 8000, 0)->world);
  CHECK(slow.period > free);
  CHECK(stall(slow) > 0);
  // Seven of eight layers are offloaded, twice per step: the last one's backward pass follows at
  // once.
  const std::int64_t each = 1'000'000;
  CHECK(run(copies_alone(job(", overlap: false"), each, each)->world).period ==
        free + Time(2 * 8 * 2 * each));
  // With a longer prefetch, more copies may be in flight.
  CHECK(run(copies_alone(job(", prefetch: 2"), 2 * forward, 0)->world).period <
        run(copies_alone(job(""), 2 * forward, 0)->world).period);
}

// Transformer Engine's cpu_offload: n of L layers, where each copy may take as long as the passes
// of L / n layers.
TEST_CASE("Spread: a copy of n of L layers has L / n layers' passes to hide behind",
          "[laws][offload]") {
  const std::string grid = "tensor: 8, data: 1, pipeline: 1";
  for (const int n : {2, 4}) {
    const std::string text =
        job_of("megatron-lm", grid, 8, 2,
               fmt::format("offload: {{activations: cpu, activation_layers: {}}}", n));
    const auto still = copies_alone(text, 0, 0);
    const std::int64_t forward = passes_of(*still).forward / 8;
    const auto free = run(still->world).period;
    // The first copy starts after its own layer, so it has one layer less.
    const std::int64_t edge = (8 / n - 1) * forward;
    CHECK(run(copies_alone(text, edge, 0)->world).period == free);
    CHECK(run(copies_alone(text, edge + 8000, 0)->world).period > free);
    const auto copies =
        std::count_if(still->program(0).tasks.begin(), still->program(0).tasks.end(),
                      [](const program::Task& t) { return t.kind == program::TaskKind::copy; });
    CHECK(copies == 2 * 2 * n);
  }
}

TEST_CASE("Modules: what they read leaves, the rest of a layer stays", "[laws][offload]") {
  const auto bytes = [](const std::string& modules) {
    const Lowered lowered(job_of("megatron-lm", "tensor: 2, data: 4, pipeline: 1", 4, 4,
                                 "offload: {activations: cpu" + modules + "}"));
    const program::Program& p = lowered.program(0);
    std::int64_t most = 0;
    for (const program::Task& t : p.tasks) {
      if (t.kind == program::TaskKind::copy) {
        const auto& rank = lowered.world.ranks[0];
        most = std::max(most, lowered.world.shapes[rank.copy_shape].prices[t.price].bytes.count());
      }
    }
    return most;
  };
  // Each of h 16-bit numbers a token, of 1024 tokens; q, k and v: half of each on this rank.
  const std::int64_t hidden = 1024 * 2048 * 2;
  const auto near = [](std::int64_t a, std::int64_t b) { return std::abs(a - b) <= 1024; };
  CHECK(near(bytes(", activation_modules: [attn_norm]"), hidden));
  CHECK(near(bytes(", activation_modules: [attn_norm, mlp_norm]"), 2 * hidden));
  CHECK(near(bytes(", activation_modules: [qkv_linear]"), hidden));
  CHECK(near(bytes(", activation_modules: [core_attn]"), 3 * hidden / 2));
  CHECK(near(bytes(", activation_modules: [attn_proj]"), hidden / 2));
  CHECK(bytes("") > 6 * hidden);
}

// One rank with 8 layers, of which 7 are offloaded: the last one's backward pass follows at once.
TEST_CASE("Drives: all that leaves is written and read once, through two buffers each way",
          "[laws][offload]") {
  const std::string grid = "tensor: 8, data: 1, pipeline: 1";
  const std::string text = job_of("{use: megatron-lm, activation_offload: units}", grid, 8, 2,
                                  "offload: {activations: nvme}");
  const auto lowered = copies_alone(text, 0, 0);
  const program::Program& p = lowered->program(0);
  std::map<std::string, std::vector<std::int64_t>> bytes;
  for (const program::Task& t : p.tasks) {
    if (t.kind == program::TaskKind::copy) {
      const auto& price = lowered->world.shapes[lowered->world.ranks[0].copy_shape].prices[t.price];
      bytes[p.labels[t.label]].push_back(price.bytes.count());
    }
  }
  for (const char* way : {"activations to the host", "activations to NVMe", "activations from NVMe",
                          "activations from the host"}) {
    INFO(way);
    CHECK(bytes[way].size() == 2 * 7);
    CHECK(bytes[way] == std::vector<std::int64_t>(2 * 7, bytes[way].front()));
  }
  const std::int64_t each = bytes["activations to NVMe"].front();
  CHECK(bytes["activations from NVMe"].front() == each);
  const auto slow =
      copies_alone(text, 0, 0, passes_of(*lowered).forward, passes_of(*lowered).backward);
  const auto timeline = run(slow->world);
  CHECK(timeline.ranks[0].nvme_peak.count() <= 2 * 7 * each);
  CHECK(timeline.ranks[0].nvme_peak.count() >= 7 * each);
  CHECK(timeline.ranks[0].host_peak.count() <= 4 * each);
  CHECK(timeline.ranks[0].host_peak.count() >= 2 * each);
  // With `cpu` instead of the drives, the host holds what the drives held.
  const auto host = run(copies_alone(job_of("{use: megatron-lm, activation_offload: units}", grid,
                                            8, 2, "offload: {activations: cpu}"),
                                     0, 0)
                            ->world);
  CHECK(host.ranks[0].host_peak.count() >= 7 * each);
  CHECK(host.ranks[0].nvme_peak.count() == 0);
}

TEST_CASE("Drives: the stall begins where the last layer's write outlasts the pass, a read a layer",
          "[laws][offload]") {
  const std::string text =
      job_of("{use: megatron-lm, activation_offload: units}", "tensor: 8, data: 1, pipeline: 1", 8,
             2, "offload: {activations: nvme}");
  const auto still = copies_alone(text, 0, 0);
  const std::int64_t forward = passes_of(*still).forward / 8;  // of one layer
  const std::int64_t backward = passes_of(*still).backward / 8;
  const auto free = run(still->world).period;
  // Seven writes in turn from the first layer's end; the seventh is read while the eighth layer's
  // backward pass runs: forward + 7 write <= 8 forward + backward. A buffer is free in time up to
  // write = 7/5 forward, which comes later.
  REQUIRE(5 * backward < 14 * forward);
  const std::int64_t edge = forward + backward / 7;
  CHECK(run(copies_alone(text, 0, 0, edge, 0)->world).period == free);
  CHECK(run(copies_alone(text, 0, 0, edge + 8000, 0)->world).period > free);
  // A read has the time of the next layer's backward pass.
  CHECK(run(copies_alone(text, 0, 0, 0, backward)->world).period == free);
  const auto slow = run(copies_alone(text, 0, 0, 0, backward + 8000)->world);
  CHECK(slow.period > free);
  CHECK(stall(slow) > 0);
}
