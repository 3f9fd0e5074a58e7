// Memory-centric tiling (ZeRO-Infinity, 2104.07857, section 5.1.3): a unit's linear layers are
// split into tiles that are gathered, used and released one after the other.
#include <fmt/format.h>

#include <algorithm>

#include "catch.hpp"
#include "stepcast/engine/engine.h"
#include "support/lowered.h"

using namespace stepcast;
using program::Category;

namespace {

constexpr std::int64_t kTiledHidden = 2048;
constexpr std::int64_t kTiledLayers = 4;
constexpr std::int64_t kLargest = 4 * kTiledHidden * kTiledHidden;  // the largest linear of a layer

std::string job_of(int tiling, const std::string& more, const std::string& recompute = "none") {
  return fmt::format(
      "model: {{layers: {}, hidden: {}, heads: 16, head_dim: 128, ffn: {}, vocab: 1024, "
      "gated_mlp: false, biases: false, max_positions: 1024}}\n"
      "cluster: {{use: dgx-a100, nodes: 1}}\n"
      "system: {{use: deepspeed, reuse_elements: 0, live_elements: 1}}\n"
      "workload: {{sequence_length: 1024, global_batch: 8, micro_batch: 1}}\n"
      "parallelism: {{sharding: zero3}}\n"
      "memory: {{recompute: {}, offload: {{tiling: {}{}}}}}\n",
      kTiledLayers, kTiledHidden, 4 * kTiledHidden, recompute, tiling, more);
}

// Largest number of bytes at one time, in issue order, of buffers with one of these labels.
std::int64_t peak(const program::Program& p, const std::vector<std::string>& labels) {
  std::int64_t now = 0, most = 0;
  for (const program::HostOp& op : p.host) {
    const bool made = op.kind == program::HostKind::allocate;
    if (!made && op.kind != program::HostKind::release) {
      continue;
    }
    const program::Buffer& b = p.buffers[op.buffer];
    if (std::find(labels.begin(), labels.end(), p.labels[b.label]) != labels.end()) {
      now += made ? b.bytes.count() : -b.bytes.count();
      most = std::max(most, now);
    }
  }
  CHECK(now == 0);
  return most;
}

std::int64_t period(const support::Lowered& l) {
  const auto out = engine::run(l.world);
  REQUIRE(std::holds_alternative<program::Timeline>(out));
  return std::get<program::Timeline>(out).period.count();
}

}  // namespace

TEST_CASE("Tiling: of the linears' parameters and gradients one tile of the largest is whole",
          "[laws][offload]") {
  // A layer's norms are small and are not split.
  const support::Lowered whole(job_of(1, ", prefetch: 0"));
  const std::int64_t unit = peak(whole.program(), {"unsharded gradients"});
  CHECK(unit >= 2 * 12 * kTiledHidden * kTiledHidden);
  for (const int tiles : {2, 4, 8}) {
    INFO(tiles << " tiles");
    const support::Lowered l(job_of(tiles, ", prefetch: 0"));
    CHECK(peak(l.program(), {"gathered tile"}) == 2 * kLargest / tiles);
    CHECK(peak(l.program(), {"tile's gradient"}) == 2 * kLargest / tiles);
    // With prefetch, one more tile is in flight.
    const support::Lowered ahead(job_of(tiles, ""));
    CHECK(peak(ahead.program(), {"gathered tile"}) == 2 * 2 * kLargest / tiles);
    CHECK(peak(ahead.program(), {"tile's gradient"}) == 2 * kLargest / tiles);
  }
}

TEST_CASE("Tiling: as many bytes are gathered and reduced, in more pieces, and no sooner",
          "[laws][offload]") {
  for (const char* recompute : {"none", "full"}) {
    for (const char* more : {"", ", prefetch: 0", ", parameters: cpu",
                             ", overlap: false, "
                             "parameters: cpu, optimizer: cpu"}) {
      INFO(recompute << more);
      const support::Lowered whole(job_of(1, more, recompute));
      const auto gathered = whole.sent(Category::data, "all_gather");
      const auto reduced = whole.sent(Category::data, "reduce_scatter");
      std::int64_t last = period(whole);
      for (const int tiles : {2, 4, 8}) {
        const support::Lowered l(job_of(tiles, more, recompute));
        CHECK(l.sent(Category::data, "all_gather").bytes == gathered.bytes);
        // Every tile of the four linears of a layer, for both passes.
        const auto gathers = l.sent(Category::data, "all_gather").count;
        CHECK(gathers > gathered.count);
        CHECK(gathers >= tiles * 2 * 4 * kTiledLayers);
        CHECK(l.sent(Category::data, "reduce_scatter").bytes == reduced.bytes);
        const std::int64_t now = period(l);
        CHECK(now >= last);
        last = now;
      }
    }
  }
}

TEST_CASE("Tiling: the host link carries what it did", "[laws][offload]") {
  const auto moved = [](int tiling, const char* where) {
    const support::Lowered l(
        job_of(tiling, fmt::format(", parameters: {}, optimizer: {}", where, where)));
    std::int64_t bytes = 0;
    for (const program::Task& t : l.program().tasks) {
      if (t.kind == program::TaskKind::copy) {
        bytes += l.world.shapes[l.world.ranks[0].copy_shape].prices[t.price].bytes.count();
      }
    }
    return bytes;
  };
  for (const char* where : {"cpu", "nvme"}) {
    const auto whole = static_cast<double>(moved(1, where));
    CHECK(static_cast<double>(moved(4, where)) == Approx(whole).epsilon(1e-6));
  }
}
