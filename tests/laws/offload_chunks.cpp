// Gemini's chunks: parameters are stored, gathered and moved in whole chunks of one size, including
// the empty space in them.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "catch.hpp"
#include "stepcast/engine/engine.h"
#include "support/lowered.h"

using namespace stepcast;
using program::Category;
using program::Place;

namespace {

// Chunks of 8 Mi elements. In the order of the forward pass, a layer has norms and 4 h^2 of
// attention, which share a chunk with the previous arrays if there is space, then two arrays of 4
// h^2 that fill one: two chunks per layer. The table and the positions, h^2 each, are in the first
// chunk; the last has only the final norm.
constexpr std::int64_t kChunkedHidden = 1024;
constexpr std::int64_t kChunkedLayers = 4;
constexpr std::int64_t kCapacity = 8 * kChunkedHidden * kChunkedHidden;
constexpr std::int64_t kChunks = 2 * kChunkedLayers + 1;
constexpr int kGpus = 4;

std::string job_of(const std::string& offload, const char* chunk = "16 MiB") {
  return fmt::format(
      "model: {{layers: {}, hidden: {}, heads: 16, kv_heads: 16, head_dim: 64, ffn: {}, vocab: "
      "1024, gated_mlp: false, biases: false, positions: learned, max_positions: 1024, "
      "tied_embeddings: true}}\n"
      "cluster: {{use: dgx-a100, nodes: 1, gpus_per_node: {}}}\n"
      "system: colossal-ai\n"
      "workload: {{sequence_length: 1024, global_batch: {}, micro_batch: 1}}\n"
      "parallelism: {{sharding: zero3}}\n"
      "memory: {{recompute: none, offload: {{chunk: {}{}}}}}\n",
      kChunkedLayers, kChunkedHidden, 4 * kChunkedHidden, kGpus, kGpus, chunk, offload);
}

std::int64_t standing(const program::Program& p, Place place) {
  std::int64_t out = 0;
  for (const program::Buffer& b : p.buffers) {
    if (b.persistent && b.place == place && p.labels[b.label] == "parameters") {
      out += b.bytes.count();
    }
  }
  return out;
}

std::int64_t moved_bytes(const support::Lowered& l, const std::string& label) {
  std::int64_t out = 0;
  for (const program::Task& t : l.program().tasks) {
    if (t.kind == program::TaskKind::copy && l.program().labels[t.label] == label) {
      out += l.world.shapes[l.world.ranks[0].copy_shape].prices[t.price].bytes.count();
    }
  }
  return out;
}

}  // namespace

TEST_CASE("Chunks: what stands, is gathered and reduced is whole chunks", "[laws][offload]") {
  const std::int64_t bytes = 2 * kCapacity;  // of a chunk
  const support::Lowered l(job_of(""));
  CHECK(standing(l.program(), Place::device) == kChunks * bytes / kGpus);
  CHECK(l.sent(Category::data, "chunk all_gather").bytes == 2 * kChunks * bytes);
  CHECK(l.sent(Category::data, "chunk all_gather").count == 2 * kChunks);
  CHECK(l.sent(Category::data, "reduce_scatter").bytes == kChunks * bytes);
  // Two chunks are gathered at a time: those of a layer. The first is gathered once for both the
  // table and the layer.
  std::int64_t now = 0, most = 0;
  for (const program::HostOp& op : l.program().host) {
    const bool made = op.kind == program::HostKind::allocate;
    if ((made || op.kind == program::HostKind::release) &&
        l.program().labels[l.program().buffers[op.buffer].label] == "gathered chunk") {
      now += (made ? 1 : -1) * l.program().buffers[op.buffer].bytes.count();
      most = std::max(most, now);
    }
  }
  CHECK(now == 0);
  CHECK(most == 2 * bytes);
}

TEST_CASE("Chunks: the first of them are away until the share is reached, and move whole",
          "[laws][offload]") {
  const std::int64_t shard = 2 * kCapacity / kGpus;
  for (const auto& [ratio, away] :
       std::map<double, std::int64_t>{{0.1, 1}, {0.5, 5}, {0.99, kChunks}, {1.0, kChunks}}) {
    for (const char* where : {"cpu", "nvme"}) {
      INFO(where << " " << ratio);
      const support::Lowered l(
          job_of(fmt::format(", parameters: {{to: {}, ratio: {}}}", where, ratio)));
      CHECK(standing(l.program(), Place::device) == (kChunks - away) * shard);
      CHECK(standing(l.program(), *where == 'c' ? Place::host : Place::nvme) == away * shard);
      // Once for the forward and once for the backward pass.
      CHECK(moved_bytes(l, "parameters") == (*where == 'c' ? 1 : 2) * 2 * away * shard);
      const auto out = engine::run(l.world);
      CHECK(std::holds_alternative<program::Timeline>(out));
    }
  }
}

TEST_CASE("Chunks: a tensor that is larger than a chunk has one of its own size",
          "[laws][offload]") {
  // Chunks of h^2 elements: each array of that size fills one, those of 4 h^2 are separate chunks,
  // and every norm is in a chunk of its own.
  const support::Lowered l(job_of("", "2 MiB"));
  const std::int64_t square = kChunkedHidden * kChunkedHidden;
  const std::int64_t parameters = (12 * kChunkedLayers + 2) * square;
  const std::int64_t norms = (2 * kChunkedLayers + 1) * square;
  CHECK(standing(l.program(), Place::device) * kGpus / 2 == parameters + norms);
}

TEST_CASE("Pages: a rank's shards lie in them one behind the other; they move whole, once a pass",
          "[laws][offload]") {
  const std::int64_t page = 1 << 20;
  const std::int64_t norms = (2 * kChunkedLayers + 1) * kChunkedHidden;
  const std::int64_t shards =
      2 * ((12 * kChunkedLayers + 2) * kChunkedHidden * kChunkedHidden + norms) / kGpus;
  const std::int64_t pages = (shards + page - 1) / page;
  for (const double ratio : {0.25, 1.0}) {
    INFO(ratio);
    std::string text = job_of(fmt::format(", parameters: {{to: cpu, ratio: {}}}", ratio));
    text.replace(text.find("system: colossal-ai"), 19, "system: angel-ptm");
    text.replace(text.find("chunk: 16 MiB"), 13, "page: 1 MiB");
    const support::Lowered l(text);
    const auto away =
        static_cast<std::int64_t>(std::ceil(ratio * static_cast<double>(pages) - 1e-9));
    CHECK(standing(l.program(), Place::device) == (pages - away) * page);
    CHECK(standing(l.program(), Place::host) == away * page);
    CHECK(moved_bytes(l, "parameters") == 2 * away * page);
  }
}
