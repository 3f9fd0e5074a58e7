// States outside the GPU: the bandwidths that ZeRO-Infinity requires, what overlaps, what shares a
// node's memory and drives, and what the device no longer holds.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

#include "catch.hpp"
#include "stepcast/engine/engine.h"
#include "stepcast/program/timeline.h"
#include "support/lowered.h"

using namespace stepcast;
using program::Category;
using program::Place;
using program::TaskKind;

namespace {

constexpr std::int64_t kHidden = 8192;
constexpr std::int64_t kLayers = 4;
constexpr std::int64_t kSequence = 1024;
constexpr double kFast = 1e18;  // bytes per second, practically infinite

struct Machine {
  int gpus = 1;
  double link = kFast;  // data sheet, per direction
  double memory = kFast;
  double drives = kFast;
  int cores = 65'536;
  std::int64_t layers = kLayers;
};

// A device that no calibration file covers, so that only its data sheet counts.
std::string job_on(const Machine& m, const std::string& system, const std::string& parallelism,
                   const std::string& memory, std::int64_t hidden = kHidden) {
  return fmt::format(
      "model: {{layers: {}, hidden: {}, heads: {}, head_dim: 128, ffn: {}, vocab: 1024, "
      "gated_mlp: false, biases: false, tied_embeddings: true, max_positions: 1024}}\n"
      "cluster:\n"
      "  nodes: 1\n"
      "  device: {{name: ideal, compute_capability: 8.0, peak: {{fp16: 100e12}}, memory: 1e15, "
      "memory_bandwidth: 1e15, sms: 80, nvlink: 1e14, pcie: {}}}\n"
      "  node: {{name: ideal, gpus: {}, intra: nvswitch, host_memory: 1e15, "
      "host_memory_bandwidth: {}, cpu_cores: {}, nvme: 1e15, nvme_read: {}, nvme_write: {}}}\n"
      "  fabric: {{kind: none}}\n"
      "system: {{use: {}, launch: 0, layer_overhead: 0}}\n"
      "workload: {{sequence_length: {}, global_batch: {}, micro_batch: 1, precision: fp16}}\n"
      "parallelism: {}\n"
      "memory: {}\n",
      m.layers, hidden, hidden / 128, 4 * hidden, m.link, m.gpus, m.memory, m.cores, m.drives,
      m.drives, system, kSequence, m.gpus, parallelism, memory);
}

program::Timeline run(const support::Lowered& l) {
  auto outcome = engine::run(l.world);
  if (auto* deadlock = std::get_if<program::Deadlock>(&outcome)) {
    for (const auto& line : deadlock->chain) {
      UNSCOPED_INFO(line);
    }
    FAIL("deadlock");
  }
  return std::get<program::Timeline>(std::move(outcome));
}

double seconds(const std::string& text) { return to_seconds(run(support::Lowered(text)).period); }

double part(const program::RankResult& r, Category c) {
  return to_seconds(r.breakdown[static_cast<std::size_t>(c)]);
}

// Finds the bandwidth at which the efficiency (compute time over step time) is one half, by
// bisection over five decades.
template <class Step>
double crossing(double compute, Step&& step) {
  double low = 1e8;
  double high = 1e13;
  for (int n = 0; n < 40; ++n) {
    const double middle = std::sqrt(low * high);
    (compute / step(middle) < 0.5 ? low : high) = middle;
  }
  return std::sqrt(low * high);
}

// 2104.07857, section 4: forward, recomputed forward and backward pass.
double infinity_flops() { return 96.0 * kSequence * kLayers * kHidden * kHidden; }

double link_rate(double pcie) {  // of large copies
  const support::Lowered l(job_on({1, pcie}, "deepspeed", "{sharding: zero3}",
                                  "{recompute: full, offload: {parameters: cpu}}"));
  for (const program::Price& p : l.world.shapes[l.world.ranks[0].copy_shape].prices) {
    if (l.world.labels[p.label] == "host to device") {
      return static_cast<double>(p.rate);
    }
  }
  FAIL("no copies");
  return 0;
}

}  // namespace

TEST_CASE("ZeRO-Infinity: parameters and gradients need peak / (s b) of bandwidth", "[laws]") {
  const char* parallelism = "{sharding: zero3, overlap: {grad_reduce: false, param_gather: false}}";
  const char* memory =
      "{recompute: full, dtypes: {gradients: fp16}, offload: {parameters: cpu, gradients: cpu, "
      "optimizer: cpu, overlap: false, prefetch: 0}}";
  const auto text = [&](double link) {
    // reuse_elements: tensors that recomputation read are loaded again for the backward pass.
    return job_on({1, link}, "deepspeed, reuse_elements: 0, zero3_overlaps: false", parallelism,
                  memory);
  };
  const double compute = seconds(text(kFast));
  const double achieved = infinity_flops() / compute;
  const double published = achieved / kSequence;  // arithmetic intensity s b
  const double share = link_rate(1e10) / 1e10;
  const double simulated =
      share * crossing(compute, [&](double link) { return seconds(text(link)); });
  INFO("achieved " << achieved << ", published " << published << ", simulated " << simulated);
  CHECK(std::abs(simulated / published - 1) < 0.15);
  // "about 70 GB/s" at 70 TFLOP/s.
  CHECK(std::abs(simulated / achieved * 70e12 / 70e9 - 1) < 0.15);
}

TEST_CASE("ZeRO-Infinity: optimizer states need four times that", "[laws]") {
  const auto text = [](double drives) {
    return job_on(
        {1, kFast, kFast, drives}, "deepspeed, reuse_elements: 0, zero3_overlaps: false",
        "{sharding: zero3, overlap: {grad_reduce: false, param_gather: false}}",
        "{recompute: full, dtypes: {gradients: fp32}, offload: {parameters: cpu, gradients: "
        "nvme, optimizer: nvme, overlap: false, prefetch: 0}}");
  };
  const double compute = seconds(text(kFast));
  const double published = infinity_flops() / compute / (kSequence / 4.0);
  const double simulated = crossing(compute, [&](double drives) { return seconds(text(drives)); });
  INFO("published " << published << ", simulated " << simulated);
  CHECK(std::abs(simulated / published - 1) < 0.15);
}

TEST_CASE("ZeRO-Infinity: activation checkpoints need peak / (24 h) of bandwidth", "[laws]") {
  // With many layers, what embedding and head keep does not matter.
  constexpr std::int64_t kMany = 32;
  const auto text = [](double link) {
    Machine machine{1, link};
    machine.layers = kMany;
    return job_on(machine, "deepspeed, reuse_elements: 0, zero3_overlaps: false",
                  "{sharding: zero3, overlap: {grad_reduce: false, param_gather: false}}",
                  "{recompute: full, offload: {activations: cpu, overlap: false, prefetch: 0}}");
  };
  const double compute = seconds(text(kFast));
  const double published = infinity_flops() * kMany / kLayers / compute / (24.0 * kHidden);
  const double share = link_rate(1e10) / 1e10;
  const double simulated =
      share * crossing(compute, [&](double link) { return seconds(text(link)); });
  INFO("published " << published << ", simulated " << simulated);
  CHECK(std::abs(simulated / published - 1) < 0.15);
}

TEST_CASE("With a free host link the step is that without offloading but for Adam's place",
          "[laws]") {
  for (const char* offload :
       {"{optimizer: cpu}", "{optimizer: cpu, gradients: cpu}",
        "{optimizer: {to: cpu, ratio: 0.4}}", "{optimizer: cpu, parameters: cpu}",
        "{optimizer: nvme, parameters: nvme, gradients: nvme}", "{parameters: cpu}"}) {
    INFO(offload);
    const auto text = [&](const std::string& what) {
      return job_on({4}, "deepspeed", "{sharding: zero3}",
                    fmt::format("{{recompute: none, offload: {}}}", what), 2048);
    };
    support::Lowered none(text("none"));
    support::Lowered away(text(offload));
    none.free_links();
    away.free_links();
    const auto a = run(none);
    const auto b = run(away);
    const double before = to_seconds(a.period) - part(a.ranks[0], Category::optimizer);
    const double after = to_seconds(b.period) - part(b.ranks[0], Category::optimizer);
    CHECK(after == Approx(before).epsilon(0.002));
  }
}

TEST_CASE("More bandwidth is never slower, and what is exposed is offload", "[laws]") {
  double last = 0;
  for (const double link : {2e9, 4e9, 8e9, 16e9, 64e9, 1e12}) {
    const auto t = run(support::Lowered(
        job_on({1, link}, "deepspeed", "{sharding: zero3}",
               "{recompute: none, offload: {optimizer: cpu, parameters: cpu}}", 2048)));
    const auto& r = t.ranks[0];
    CHECK(std::accumulate(r.breakdown.begin(), r.breakdown.end(), Time{0}) == t.period);
    if (last > 0) {
      CHECK(static_cast<double>(t.period.count()) <= last);
    }
    if (link < 4e9) {
      CHECK(part(r, Category::offload) > 0.5 * to_seconds(t.period));
    }
    last = static_cast<double>(t.period.count());
  }
}

TEST_CASE("The ranks of a node share its memory: Adam takes as long as its bytes", "[laws]") {
  constexpr double kMemory = 100e9;
  for (const int gpus : {1, 2, 8}) {
    const support::Lowered l(job_on({gpus, kFast, kMemory}, "deepspeed", "{sharding: zero2}",
                                    "{recompute: none, offload: {optimizer: cpu}}", 2048));
    std::int64_t touched = 0;
    std::int64_t moved = 0;
    const auto& prices = l.world.shapes[l.world.ranks[0].copy_shape].prices;
    for (const program::Task& task : l.program().tasks) {
      if (task.kind == TaskKind::copy) {
        const bool cpu = l.world.labels[prices[task.price].label] == "CPU";
        (cpu ? touched : moved) += prices[task.price].bytes.count();
      }
    }
    const auto t = run(l);
    // The bytes of all ranks at the share of the memory's bandwidth that CPU Adam reaches, and
    // those of the copies at the share that streams reach (src/lower/offload/host_prices.h).
    const double expected = gpus * (static_cast<double>(touched) / (0.46 * kMemory) +
                                    static_cast<double>(moved) / (0.82 * kMemory));
    INFO(gpus << " GPUs, " << touched << " bytes each");
    double spent = to_seconds(t.period);
    const auto free = run([&] {
      support::Lowered other(job_on({gpus, kFast, kFast}, "deepspeed", "{sharding: zero2}",
                                    "{recompute: none, offload: {optimizer: cpu}}", 2048));
      return other;
    }());
    spent -= to_seconds(free.period);
    CHECK(spent == Approx(expected).epsilon(0.03));
  }
}

TEST_CASE("Pieces of states on drives are read, stepped and written side by side", "[laws]") {
  const auto text = [](int prefetch) {
    return job_on(
        {1, kFast, 400e9, 20e9}, "deepspeed", "{sharding: zero3}",
        fmt::format("{{recompute: none, offload: {{optimizer: nvme, prefetch: {}}}}}", prefetch),
        2048);
  };
  const support::Lowered in_turn(text(0));
  const support::Lowered piped(text(1));
  const auto& prices = piped.world.shapes[piped.world.ranks[0].copy_shape].prices;
  double drives = 0;
  double cpu = 0;
  for (const program::Task& task : piped.program().tasks) {
    if (task.kind == TaskKind::copy) {
      const auto& label = piped.world.labels[prices[task.price].label];
      const double time = to_seconds(prices[task.price].fluid);
      drives += label.starts_with("NVMe") ? time : 0;
      cpu += label == "CPU" ? time : 0;
    }
  }
  const auto a = run(in_turn);
  const auto b = run(piped);
  // Without overlap the times add up. With overlap the drives are busy except during the first read
  // and the last write.
  const double saved = to_seconds(a.period - b.period);
  CHECK(saved > 0.5 * cpu);
  CHECK(saved < cpu + drives / 2);
}

TEST_CASE("The device holds less by what is offloaded, the host as much more", "[laws]") {
  const auto held = [](const std::string& offload, int gpus) {
    const support::Lowered l(job_on({gpus}, "deepspeed", "{sharding: zero3}",
                                    fmt::format("{{recompute: none, offload: {}}}", offload),
                                    2048));
    std::array<std::int64_t, program::kPlaces> out{};
    for (const program::Buffer& b : l.program().buffers) {
      // Buckets are staging buffers through which the gradients pass.
      if (b.persistent && l.program().labels[b.label] != "gradient buckets") {
        out[static_cast<std::size_t>(b.place)] += b.bytes.count();
      }
    }
    return out;
  };
  for (const int gpus : {1, 4}) {
    const auto none = held("none", gpus);
    CHECK(none[1] == 0);
    const std::int64_t parameters =
        (kLayers * 12 * 2048 * 2048 + 2 * 1024 * 2048) / gpus;  // and norms
    const auto all = held("{optimizer: cpu, parameters: cpu}", gpus);
    // fp32 moments and masters, 16-bit parameters and gradients.
    CHECK(static_cast<double>(none[0] - all[0]) ==
          Approx(static_cast<double>(parameters) * (12 + 2 + 2)).epsilon(0.02));
    // The host's gradients are fp32.
    CHECK(static_cast<double>(all[1]) ==
          Approx(static_cast<double>(parameters) * (12 + 2 + 4)).epsilon(0.02));
    const auto half = held("{optimizer: {to: cpu, ratio: 0.5}, gradients: none}", gpus);
    CHECK(static_cast<double>(none[0] - half[0]) ==
          Approx(static_cast<double>(parameters) * 6).epsilon(0.02));
    const auto drives = held("{optimizer: nvme, gradients: cpu}", gpus);
    CHECK(static_cast<double>(drives[2]) ==
          Approx(static_cast<double>(parameters) * 12).epsilon(0.02));
    const auto pages = held("{optimizer: cpu, page: 4 MiB, gradients: none}", gpus);
    CHECK(pages[1] % (4 << 20) == 0);
  }
}

namespace {

// Bytes that rank 0 moves in a step, by the mover.
double moved(const support::Lowered& l, const std::string& by) {
  const auto& prices = l.world.shapes[l.world.ranks[0].copy_shape].prices;
  std::int64_t bytes = 0;
  for (const program::Task& task : l.program().tasks) {
    if (task.kind == TaskKind::copy && l.world.labels[prices[task.price].label] == by) {
      bytes += prices[task.price].bytes.count();
    }
  }
  return static_cast<double>(bytes);
}

}  // namespace

TEST_CASE("What crosses the link a step", "[laws]") {
  constexpr int kGpus = 4;
  const double shard = (kLayers * 12.0 * 2048 * 2048 + 2.0 * 1024 * 2048) / kGpus;
  struct Case {
    const char* system;
    const char* sharding;
    const char* offload;
    double down, up;  // bytes per parameter of the shard
  };
  const char* const on_demand =
      "deepspeed, reuse_elements: 0, forward_prefetch: none, backward_prefetch: none";
  for (const Case& c : {
           // ZeRO-Offload: 16-bit gradients down, 16-bit parameters up (2101.06840, section 4.1).
           Case{"deepspeed", "zero2", "{optimizer: cpu}", 2, 2},
           Case{"deepspeed", "zero3", "{optimizer: {to: cpu, ratio: 0.25}}", 0.5, 0.5},
           // Parameters are offloaded as well: they are loaded for the forward and for the backward
           // pass, where none is kept because it was gathered ahead.
           Case{on_demand, "zero3", "{optimizer: cpu, parameters: cpu}", 2, 4},
           // FSDP keeps fp32 shards on the host.
           Case{"pytorch-fsdp2", "zero3", "{optimizer: cpu, parameters: cpu}", 4, 8},
           // Megatron-LM's main gradients are fp32 under bf16, 16-bit under fp16.
           Case{"megatron-lm", "zero1", "{optimizer: cpu}", 2, 2},
           // The optimizer runs on the device: gradients stay there, and parameters are written
           // back.
           Case{on_demand, "zero3", "{parameters: cpu}", 2, 4},
       }) {
    INFO(c.system << " " << c.offload);
    const support::Lowered l(job_on({kGpus}, c.system, fmt::format("{{sharding: {}}}", c.sharding),
                                    fmt::format("{{recompute: none, offload: {}}}", c.offload),
                                    2048));
    CHECK(moved(l, "device to host") == Approx(shard * c.down).epsilon(0.02));
    // FSDP's root stays whole from the forward to the backward pass.
    CHECK(moved(l, "host to device") == Approx(shard * c.up).epsilon(0.04));
  }
}

TEST_CASE("GPUs below one PCIe switch share its uplink", "[laws]") {
  // 16 GPUs of a DGX-2 copy at about 3 GB/s each when all copy at once (2104.07857, figure 2b).
  const auto step = [](const char* switches) {
    return seconds(fmt::format(
        "model: {{layers: 4, hidden: 2048, heads: 16, ffn: 8192, vocab: 1024, gated_mlp: false}}\n"
        "cluster: {{use: dgx-2, nodes: 1{}}}\n"
        "system: {{use: deepspeed}}\n"
        "workload: {{sequence_length: 16, global_batch: 16, precision: fp16}}\n"
        "parallelism: {{sharding: zero1}}\n"
        "kernels: {{attention: unfused}}\n"
        "memory: {{recompute: none, offload: {{optimizer: cpu, gradients: none, overlap: "
        "false}}}}\n",
        switches));
  };
  const double shared = step("");
  const double alone = step(", node: {use: dgx-2, pcie_switches: 0}");
  // 16-bit gradients go down and parameters come up one after the other; each link has a quarter of
  // its 12.4 GB/s.
  const double bytes = (4 * 12.0 * 2048 * 2048 + 2.0 * 1024 * 2048) / 16 * 2 * 2;
  CHECK(shared - alone == Approx(bytes / 3.1e9 - bytes / 12.4e9).epsilon(0.03));
}
