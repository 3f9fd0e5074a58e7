// Compares the lowered programs of a pipeline with the simulated schedule alone, and checks laws of
// all schedules on random jobs.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <set>

#include "catch.hpp"
#include "stepcast/engine/engine.h"
#include "stepcast/lower/fold.h"
#include "support/lowered.h"
#include "support/run_world.h"

using namespace stepcast;
using support::Lowered;
using support::run;

namespace {

const std::vector<std::string> kSchedules = {
    "1f1b", "gpipe", "1f1b_overlap", "interleaved_1f1b", "looped_bfs", "zb_h1",      "zb_h2",
    "zb_v", "v_min", "v_half",       "zb_auto",          "dualpipe",   "dualpipe_v", "chimera"};

std::string job_of(const std::string& schedule, int pipeline, int chunks, int layers,
                   int micro_batches, const std::string& more = {}) {
  return fmt::format(
      "model: {{layers: {}, hidden: 2048, heads: 16, kv_heads: 16, head_dim: 128, ffn: 8192, "
      "vocab: 32000, max_positions: 1024}}\n"
      "cluster: {{use: dgx-a100, nodes: 1}}\n"
      "workload: {{sequence_length: 1024, global_batch: {}, micro_batch: 1}}\n"
      "parallelism: {{tensor: {}, data: 1, pipeline: {}, virtual_pipeline: {}, schedule: {}{}}}\n",
      layers, micro_batches, 8 / pipeline, pipeline, chunks, schedule, more);
}

bool has_chunks(const std::string& schedule) {
  return schedule == "interleaved_1f1b" || schedule == "looped_bfs";
}

// Only the passes of the layers take time: no communication, no host time, no end of the step.
void only_passes(Lowered& lowered) {
  lowered.free_links();
  for (program::Program& p : lowered.world.programs) {
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
}

// A plan with equal stages: the embedding and the head are removed.
std::unique_ptr<Lowered> layers_alone(const std::string& text) {
  return std::make_unique<Lowered>(text, false, [](strategy::Plan& plan) {
    for (auto& rank : plan.stages) {
      for (auto& chunk : rank) {
        chunk.embedding = chunk.head = false;
      }
    }
  });
}

}  // namespace

TEST_CASE("With free communication a step takes as long as its schedule played on its own",
          "[agree][pipeline]") {
  for (const std::string& name : kSchedules) {
    for (const int p : {2, 4}) {
      const int chunks = has_chunks(name) ? 2 : 1;
      const int m = 4 * p;
      INFO(name << " on " << p << " stages");
      auto lowered = layers_alone(job_of(name, p, chunks, 4 * p, m));
      only_passes(*lowered);
      // Times of a pass of a rank's layers, from one rank's program of the first micro-batch.
      const auto& order = lowered->plan.order;
      const schedule::Request request = schedule::request_of(order);
      double forward = 0, input = 0, weight = 0;
      for (const program::Task& t : lowered->program(0).tasks) {
        if (t.kind != program::TaskKind::kernel || t.micro_batch != 0 || t.chunk != 0) {
          continue;
        }
        const std::string& label = lowered->world.labels[t.label];
        const bool of_weight = label.ends_with(" wgrad") || label == "accumulate gradient";
        const bool backward = label.ends_with(" dgrad") || label.ends_with(" backward");
        (of_weight  ? weight
         : backward ? input
                    : forward) += static_cast<double>(t.duration.count());
      }
      REQUIRE(forward > 0);
      REQUIRE(input > 0);
      REQUIRE(weight > 0);
      const bool twice = order.placement == schedule::Placement::bidirectional;
      const double share = twice ? 1 : request.chunks;
      schedule::Times times;
      times.forward = forward * share;
      times.input_grad = input * share;
      times.weight_grad = weight * share;
      const auto played = std::get<schedule::Played>(schedule::play(order, request, times));
      const auto timeline = run(lowered->world);
      CHECK(timeline.first_step.count() == std::llround(played.makespan));
    }
  }
}

// 2411.05288, section 5: communication over all stages lies beside passes.
TEST_CASE(
    "Stages that share the vocabulary's rows wait for no pass of each other once all are busy",
    "[agree][pipeline]") {
  for (const char* name : {"1f1b+vocab_1", "1f1b+vocab_2"}) {
    for (const int p : {4, 8}) {
      INFO(name << " on " << p << " stages");
      const auto step_and_work = [&](int micro_batches) {
        Lowered lowered(job_of(name, p, 1, 2 * p, micro_batches));
        only_passes(lowered);
        double most = 0;
        for (const program::Program& of : lowered.world.programs) {
          double work = 0;
          for (const program::Task& t : of.tasks) {
            work += static_cast<double>(t.duration.count());
          }
          most = std::max(most, work);
        }
        return std::pair(static_cast<double>(run(lowered.world).first_step.count()), most);
      };
      const auto [shorter, less] = step_and_work(4 * p);
      const auto [longer, more] = step_and_work(8 * p);
      CHECK(longer - shorter <= 1.01 * (more - less));
    }
  }
}

TEST_CASE("Weight gradients of the head that wait are the same work, and hold inputs and logits",
          "[agree][pipeline]") {
  const auto work = [](const Lowered& l) {
    Time sum{0};
    for (const program::Task& t : l.world.programs.back().tasks) {
      sum += t.duration;
    }
    return sum;
  };
  for (const auto& [schedule, chunks] : {std::pair{"1f1b", 1}, std::pair{"interleaved_1f1b", 2}}) {
    const auto of = [&, s = schedule, c = chunks](const std::string& waits) {
      return Lowered(job_of(s, 4, c, 8, 8, ", deferred_head_wgrad: " + waits));
    };
    const Lowered none = of("0");
    program::Timeline before = run(none.world);
    for (const char* waits : {"1", "3", "all"}) {
      INFO(schedule << " " << waits);
      const Lowered some = of(waits);
      CHECK(work(some) == work(none));
      const program::Timeline now = run(some.world);
      CHECK(now.period <= before.period);
      CHECK(now.ranks.back().peak_allocated > before.ranks.back().peak_allocated);
      before = now;
    }
  }
}

TEST_CASE("I and W are B: a split backward pass does the same work", "[agree][pipeline]") {
  const auto work = [](const std::string& schedule) {
    Lowered lowered(job_of(schedule, 4, 1, 8, 8));
    std::vector<std::int64_t> out;
    for (const program::Program& p : lowered.world.programs) {
      out.push_back(std::accumulate(
          p.tasks.begin(), p.tasks.end(), std::int64_t{0},
          [](std::int64_t sum, const program::Task& t) { return sum + t.duration.count(); }));
    }
    return out;
  };
  const auto whole = work("1f1b");
  CHECK(work("zb_h1") == whole);
  CHECK(work("zb_h2") == whole);
  CHECK(work("zb_auto") == whole);
}

TEST_CASE("Random jobs of every schedule: folded is full, the breakdown adds up, memory returns",
          "[agree][pipeline]") {
  std::mt19937 random(20261121);
  const auto pick = [&](std::initializer_list<int> of) {
    return of.begin()[std::uniform_int_distribution<std::size_t>(0, of.size() - 1)(random)];
  };
  std::vector<std::string> names = kSchedules;
  for (const char* more : {"interlaced", "1f1b+vocab_1", "1f1b+vocab_2", "v_half+vocab_1"}) {
    names.emplace_back(more);
  }
  for (const std::string& name : names) {
    for (int n = 0; n < 3; ++n) {
      const int p = pick({2, 4, 8});
      const int chunks = has_chunks(name) ? 2 : 1;
      const int m = 2 * p * pick({1, 2});
      const std::string sharding = pick({0, 1}) != 0 ? ", sharding: zero1" : "";
      std::string text = job_of(name, p, chunks, 2 * p * pick({1, 2}), m, sharding);
      text += fmt::format("memory: {{recompute: {}", pick({0, 1}) != 0 ? "full" : "none");
      if (pick({0, 1}) != 0) {
        text += fmt::format(
            ", offload: {{activations: {{to: cpu, ratio: {}}}, prefetch: {}, overlap: {}}}",
            pick({0, 1}) != 0 ? 1.0 : 0.4, pick({0, 1, 3}), pick({0, 1, 1}) != 0);
      }
      text += "}\n";
      if (name == "interleaved_1f1b" && p > 2) {
        text += "system: megatron-kwai\n";
      }
      INFO(text);
      Lowered lowered(text, true);
      const auto full = run(lowered.world);
      const auto folded = lower::fold(lowered.world);
      REQUIRE(folded);
      const auto small = run(folded->world);
      CHECK(full.period == small.period);
      for (std::size_t r = 0; r < full.ranks.size(); ++r) {
        const auto& x = full.ranks[r];
        const auto& y = small.ranks[folded->class_of[r]];
        REQUIRE(x.breakdown == y.breakdown);
        REQUIRE(x.peak_allocated == y.peak_allocated);
        const auto sum = std::accumulate(x.breakdown.begin(), x.breakdown.end(), Time{0});
        if (full.periodic) {
          REQUIRE(sum == full.period);
        }
      }
      for (const program::Program& program : lowered.world.programs) {
        std::map<std::uint32_t, int> live;
        for (const program::HostOp& op : program.host) {
          live[op.buffer] += op.kind == program::HostKind::allocate  ? 1
                             : op.kind == program::HostKind::release ? -1
                                                                     : 0;
        }
        for (const auto& [buffer, count] : live) {
          REQUIRE(count == 0);
        }
      }
    }
  }
}

TEST_CASE("The papers' order of merit holds", "[agree][pipeline]") {
  const auto period = [](const std::string& schedule, const char* system) {
    Lowered lowered(job_of(schedule, 8, 1, 32, 24) + system, true);
    return run(lowered.world).period;
  };
  const char* with_barrier = "system: {optimizer_post_validation: false}\n";
  const char* without = "system: {optimizer_post_validation: true}\n";
  const auto plain = period("1f1b", with_barrier);
  const auto h1 = period("zb_h1", with_barrier);
  const auto h2 = period("zb_h2", without);
  CHECK(h1 < plain);
  CHECK(h2 < h1);
  CHECK(h2 < period("zb_h2", with_barrier));
}
