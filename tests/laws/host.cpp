// The cost of the host: launches, the framework's work between them, and the points where the host
// waits.
#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "catch.hpp"
#include "lower/passes/passes.h"
#include "stepcast/cost/software.h"
#include "stepcast/engine/engine.h"
#include "stepcast/program/timeline.h"
#include "support/lowered.h"

using namespace stepcast;

namespace {

constexpr int kLayers = 4;
constexpr int kMicroBatches = 3;

struct Host {
  std::string launch = "0 us";
  std::string overhead = "0 us";
  int tensor = 1;
  bool sync = false;
  bool graph = false;
  bool blocking = false;
  std::string modules = "[]";  // of the graph; none: the whole step
  std::string moe = "null";
};

// Two devices so fast that the host determines the step time.
std::string job_with(const Host& h) {
  return fmt::format(
      "model: {{layers: {}, hidden: 1024, heads: 8, head_dim: 128, ffn: 4096, vocab: 1024, "
      "gated_mlp: false, biases: false, tied_embeddings: true, max_positions: 1024, moe: {}}}\n"
      "cluster:\n"
      "  nodes: 1\n"
      "  device: {{name: ideal, compute_capability: 8.0, peak: {{fp16: 1e21}}, memory: 1e15, "
      "memory_bandwidth: 1e18, sms: 80, nvlink: 1e18, pcie: 1e18}}\n"
      "  node: {{name: ideal, gpus: {}, intra: nvswitch}}\n"
      "  fabric: {{kind: none}}\n"
      "system: {{use: megatron-lm-2021, launch: {}, layer_overhead: {}, sync_micro_batch: {}, "
      "launch_blocking: {}}}\n"
      "workload: {{sequence_length: 1024, global_batch: {}, micro_batch: 1, precision: fp16}}\n"
      "parallelism: {{tensor: {}}}\n"
      "kernels: {{cuda_graph: {}, cuda_graph_modules: {}}}\n"
      "memory: {{recompute: full}}\n",
      kLayers, h.moe, h.tensor, h.launch, h.overhead, h.sync, h.blocking, kMicroBatches, h.tensor,
      h.graph, h.modules);
}

double seconds(const Host& h) {
  const support::Lowered l(job_with(h));
  auto outcome = engine::run(l.world);
  REQUIRE(std::holds_alternative<program::Timeline>(outcome));
  return to_seconds(std::get<program::Timeline>(outcome).period);
}

}  // namespace

TEST_CASE("A host-bound step grows by a layer's overhead in every pass", "[laws]") {
  // Forward, forward again and backward of each layer; forward and backward of embedding and head.
  constexpr int kPasses = kMicroBatches * (3 * kLayers + 4);
  const double one = seconds({"10 us", "10 ms"});
  const double two = seconds({"10 us", "20 ms"});
  CHECK(two - one == Approx(kPasses * 10e-3).epsilon(1e-6));
  // The launch of a graph does not involve the framework.
  CHECK(seconds({"10 us", "20 ms", 1, false, true}) ==
        Approx(seconds({"10 us", "10 ms", 1, false, true})).epsilon(1e-9));
}

TEST_CASE("A graph of modules costs the host a launch each, and of the layer the rest", "[laws]") {
  const auto with = [](const std::string& modules, const char* overhead = "0 us") {
    return seconds({"1 ms", overhead, 1, true, true, false, modules});
  };
  const double none = seconds({"1 ms", "0 us", 1, true});
  const double attention = with("[attn]");
  const double mlp = with("[mlp]");
  const double layer = with("[attn, mlp]");
  CHECK(attention < none);
  CHECK(mlp < none);
  CHECK(layer < std::min(attention, mlp));
  // Both together save what each saves, and the launch of one of the two graphs, which are one.
  constexpr int kPasses = kMicroBatches * 3 * kLayers;
  CHECK(none - layer == Approx((none - attention) + (none - mlp) + kPasses * 1e-3).epsilon(1e-3));
  // All of a layer's work but a launch's share of it is saved with its launches.
  CHECK(with("[attn, mlp]", "10 ms") - layer < 0.5 * (seconds({"1 ms", "10 ms", 1, true}) - none));
  // Names that a layer does not have change nothing beside those that it has.
  CHECK(with("[attn, mamba, moe, moe_router, moe_preprocess]") == attention);
}

TEST_CASE("A router's graph ends where experts are chosen, by scores or by a table", "[laws]") {
  for (const char* moe :
       {"{experts: 4, topk: 2, ffn: 1024}", "{experts: 4, topk: 2, ffn: 1024, hash_layers: 4}"}) {
    const auto with = [&](const std::string& modules) {
      return seconds({"1 ms", "0 us", 1, false, true, false, modules, moe});
    };
    INFO(moe);
    CHECK(with("[attn, moe]") < with("[attn, moe_router]"));
    CHECK(with("[attn, moe_router]") < with("[attn]"));
  }
}

TEST_CASE("A tensor collective takes the host several launches", "[laws]") {
  const std::int64_t launches =
      cost::read_software(text::data_directory() / "calibration").collective_launches;
  const support::Lowered l(job_with({"10 us", "0 us", 2}));
  const program::Program& p = l.world.programs[0];
  std::size_t at = 0;
  int collectives = 0;
  for (const program::HostOp& op : p.host) {
    if (op.kind != program::HostKind::launch) {
      continue;
    }
    for (std::uint32_t n = 0; n < op.count; ++n, ++at) {
      const program::Task& task = p.tasks[at];
      if (task.kind == program::TaskKind::collective &&
          task.category == program::Category::tensor && task.micro_batch == 1 &&
          op.duration.count() != 10'000'000) {
        CHECK(op.duration.count() == 10'000'000 * launches);
        ++collectives;
      }
    }
  }
  // At least two per layer in every forward pass, again in the recomputed one, and two in the
  // backward pass.
  CHECK(collectives >= 6 * kLayers);
}

TEST_CASE("A host that reads a batch's sizes back waits once a micro-batch", "[laws]") {
  const auto waits = [](bool sync) {
    const support::Lowered l(job_with({"10 us", "0 us", 1, sync}));
    const auto& host = l.world.programs[0].host;
    return std::count_if(host.begin(), host.end(), [](const program::HostOp& op) {
      return op.kind == program::HostKind::sync;
    });
  };
  CHECK(waits(true) == waits(false) + kMicroBatches);
  CHECK(seconds({"10 us", "1 ms", 1, true}) >= seconds({"10 us", "1 ms", 1, false}));
}

TEST_CASE("Under blocking launches the host's time adds to the device's", "[laws]") {
  // On devices whose kernels take their latency alone, the host's work is nearly the whole step.
  const double ahead = seconds({"10 us", "10 ms"});
  const double behind = seconds({"10 us", "10 ms", 1, false, false, true});
  CHECK(behind > ahead);
  CHECK(behind == Approx(ahead).epsilon(0.01));
  // On an A100 that is never short of work, the layers' host time is hidden; then it is not.
  const auto on_a100 = [](const char* overhead, bool blocking) {
    std::string text = job_with({"0 us", overhead, 1, false, false, blocking});
    const std::size_t from = text.find("device: {");
    const std::size_t to = text.find('\n', from);
    text.replace(from, to - from, "device: a100-sxm-80");
    const std::size_t size = text.find("hidden: 1024, heads: 8, head_dim: 128, ffn: 4096");
    REQUIRE(size != std::string::npos);
    text.replace(size, 48, "hidden: 8192, heads: 64, head_dim: 128, ffn: 32768");
    const support::Lowered l(text);
    auto outcome = engine::run(l.world);
    REQUIRE(std::holds_alternative<program::Timeline>(outcome));
    return to_seconds(std::get<program::Timeline>(outcome).period);
  };
  constexpr int kPasses = kMicroBatches * (3 * kLayers + 4);
  CHECK(on_a100("100 us", false) == Approx(on_a100("0 us", false)).epsilon(0.01));
  CHECK(on_a100("100 us", true) - on_a100("0 us", true) == Approx(kPasses * 100e-6).epsilon(0.05));
}

TEST_CASE("FSDP1's rate limiter holds the host back until the unit before the last is given up",
          "[laws]") {
  const auto waits = [](bool limited) {
    std::string text = job_with({"10 us", "0 us", 2});
    const auto put = [&](const std::string& old, const std::string& fresh) {
      const std::size_t at = text.find(old);
      REQUIRE(at != std::string::npos);
      text.replace(at, old.size(), fresh);
    };
    put("use: megatron-lm-2021", fmt::format("use: pytorch-fsdp1, limit_all_gathers: {}", limited));
    put("parallelism: {tensor: 2}", "parallelism: {data: 2}");
    put(fmt::format("global_batch: {}", kMicroBatches),
        fmt::format("global_batch: {}", 2 * kMicroBatches));
    const support::Lowered l(text);
    const auto& host = l.world.programs[0].host;
    return std::count_if(host.begin(), host.end(), [](const program::HostOp& op) {
      return op.kind == program::HostKind::sync;
    });
  };
  // The root (embedding and head) is gathered once a micro-batch and each layer twice; the root and
  // two layers are gathered before two units have been given up.
  constexpr int kGathers = kMicroBatches * (1 + 2 * kLayers);
  CHECK(waits(true) == waits(false) + kGathers - 3);
}
