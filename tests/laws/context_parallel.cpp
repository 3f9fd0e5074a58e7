// Closed forms of context parallelism: what each rank computes, and the bytes of the ring, the
// gather and the all-to-all.
#include <fmt/format.h>

#include <numeric>

#include "catch.hpp"
#include "lower/passes/context_steps.h"
#include "stepcast/engine/engine.h"
#include "stepcast/lower/fold.h"
#include "stepcast/model/documents.h"
#include "support/lowered.h"

using namespace stepcast;
using program::Category;
using support::Lowered;

namespace {

constexpr std::int64_t kSequence = 8192;
constexpr int kLayers = 2;

// Grouped queries: 16 heads, 4 key-value heads of 64.
std::string job_text(int context, const std::string& more, const std::string& attention = "flash2",
                     const std::string& workload = "", const std::string& model = "") {
  return fmt::format(
      "model: {{layers: {}, hidden: 1024, heads: 16, kv_heads: 4, head_dim: 64, ffn: 4096, vocab: "
      "32000, "
      "positions: rotary{}}}\n"
      "cluster: {{use: dgx-a100, nodes: 1}}\nsystem: megatron-lm\n"
      "workload: {{sequence_length: {}, global_batch: {}{}}}\nkernels: {{attention: {}}}\n"
      "parallelism: {{context: {{size: {}{}}}}}\n",
      kLayers, model, kSequence, 8 / context, workload, attention, context, more);
}

// Number of (query, key) pairs that a step computes for one sequence.
double pairs(const lower::ContextStep& step) {
  double sum = 0;
  for (const auto& s : step.shapes) {
    const auto q = static_cast<double>(s.query_length);
    const auto k = static_cast<double>(s.key_length);
    sum += (s.causal ? q * (k - q / 2) : q * k) * s.share;
  }
  return sum / static_cast<double>(step.shapes.size());
}

double pairs(const Lowered& l) {
  model::AttentionShape shape;
  for (const auto& op :
       model::build_layer(l.job.model, model::LayerKind::dense, l.plan.shard, l.plan.style)
           .operators) {
    if (op.attention) {
      shape = *op.attention;
    }
  }
  const auto context = lower::context_shape(l.plan, shape, 2);
  double sum = 0;
  for (const auto& step : lower::context_steps(context, l.job.workload.documents)) {
    sum += pairs(step);
  }
  // After an all-to-all a rank has fewer heads of longer sequences.
  return sum * context.whole.heads / 16;
}

constexpr double kAll = 0.5 * static_cast<double>(kSequence) * static_cast<double>(kSequence);

}  // namespace

TEST_CASE("Context-parallel ranks share attention evenly when chunks are balanced", "[laws]") {
  for (const int c : {2, 4, 8}) {
    for (const char* kind : {"p2p", "all_gather", "a2a", "hierarchical, inner: 2"}) {
      if (c == 8 && std::string(kind) == "a2a") {
        continue;  // 4 key-value heads are copied: work stays the same, below
      }
      INFO(c << " " << kind);
      const Lowered l(job_text(c, fmt::format(", kind: {}", kind)));
      CHECK(std::abs(pairs(l) / (kAll / c) - 1) < 1e-9);
    }
    CHECK(std::abs(pairs(Lowered(job_text(c, ", kind: a2a"))) / (kAll / c) - 1) < 1e-9);
    // Without balancing, the last rank computes most: all its queries with all keys, except half of
    // its own.
    for (const char* kind : {"p2p", "all_gather"}) {
      const Lowered l(job_text(c, fmt::format(", kind: {}, balanced: false", kind)));
      CHECK(std::abs(pairs(l) / (kAll * (2 * c - 1) / (c * c)) - 1) < 1e-9);
    }
  }
}

TEST_CASE("A ring moves keys and values c - 1 times forward, with their gradients again backward",
          "[laws]") {
  for (const int c : {2, 4, 8}) {
    const Lowered l(job_text(c, ", kind: p2p"));
    // Bytes of the rank's own keys and values.
    const std::int64_t kv = kSequence / c * 4 * (64 + 64) * 2;
    const auto all = l.sent(Category::context, "core_attention");
    CHECK(all.count == kLayers * (2 * c - 1));
    CHECK(all.bytes == kLayers * 3 * (c - 1) * kv);
    CHECK(l.sent(Category::context, "dkv").bytes +
              l.sent(Category::context, "core_attention kv").bytes >=
          all.bytes);
  }
}

TEST_CASE("Gathered keys come once a pass, their gradients are scattered", "[laws]") {
  const int c = 4;
  const Lowered l(job_text(c, ", kind: all_gather"));
  const std::int64_t whole = kSequence * 4 * 64 * 2;  // keys, or values, of the sequence
  const auto gathers = l.sent(Category::context, "all_gather");
  CHECK(gathers.count == kLayers * 4);  // k and v, in the forward and again in the backward pass
  CHECK(gathers.bytes == kLayers * 4 * whole);
  const auto scatters = l.sent(Category::context, "reduce_scatter");
  CHECK(scatters.count == kLayers * 2);
  CHECK(scatters.bytes == kLayers * 2 * whole);
}

TEST_CASE("Ulysses trades 4 N h / P in four all-to-alls a pass", "[laws]") {
  for (const int c : {2, 4, 8}) {
    // With as many key-value heads as query heads, the count is that of the paper (2309.14509,
    // section 3.2).
    const std::string job = fmt::format(
        "model: {{layers: {}, hidden: 1024, heads: 16, kv_heads: 16, head_dim: 64, ffn: 4096, "
        "vocab: 32000}}\n"
        "cluster: {{use: dgx-a100, nodes: 1}}\nsystem: megatron-lm\n"
        "workload: {{sequence_length: {}, global_batch: {}}}\nkernels: {{attention: flash2}}\n"
        "parallelism: {{context: {{size: {}, kind: a2a}}}}\n",
        kLayers, kSequence, 8 / c, c);
    const Lowered l(job);
    const auto all = l.sent(Category::context, "all_to_all");
    CHECK(all.count == kLayers * 8);
    CHECK(all.bytes == kLayers * 2 * 4 * kSequence * 1024 / c * 2);
  }
  // Four key-value heads over eight ranks: each is copied to two ranks.
  const auto grouped = Lowered(job_text(8, ", kind: a2a")).sent(Category::context, "all_to_all");
  CHECK(grouped.bytes ==
        kLayers * 2 * (2 * kSequence / 8 * 1024 * 2 + 2 * kSequence / 8 * 8 * 64 * 2));
}

TEST_CASE("Hierarchical: all-to-all inside, a ring over what is left", "[laws]") {
  const int c = 8, inner = 2, outer = 4;
  const Lowered l(job_text(c, ", kind: hierarchical, inner: 2"));
  const auto trades = l.sent(Category::context, "all_to_all");
  const std::int64_t q = kSequence / c * 16 * 64 * 2;
  const std::int64_t k = kSequence / c * 4 * 64 * 2;
  CHECK(trades.count == kLayers * 8);
  CHECK(trades.bytes == kLayers * 2 * (2 * q + 2 * k));
  const std::int64_t kv = kSequence / outer * 4 / inner * 128 * 2;
  CHECK(l.sent(Category::context, "kv").bytes == kLayers * 3 * (outer - 1) * kv);
  // The ring leaves out the ranks of the inner group.
  for (const auto& task : l.program().tasks) {
    if (task.kind == program::TaskKind::exchange) {
      const auto& t = l.program().transfers[task.first_transfer];
      const auto& channel =
          l.world.channels[l.world.channel_table[l.world.ranks[0].first_channel + t.channel]];
      CHECK(channel.receiver == inner);
      break;
    }
  }
}

TEST_CASE("Latent attention sends expanded keys and values", "[laws]") {
  const Lowered l(
      job_text(4, ", kind: p2p", "flash2", "",
               ", mla: {kv_lora_rank: 128, qk_nope_dim: 64, qk_rope_dim: 32, v_dim: 48}"));
  CHECK(l.sent(Category::context, "kv").bytes ==
        kLayers * 3 * 3 * (kSequence / 4) * 16 * (96 + 48) * 2);
}

TEST_CASE("Documents: attention inside each, and what cuts them", "[laws]") {
  CHECK(model::document_share({}, 4096) == 1);
  CHECK(model::document_share({1024}, 4096) == 0.25);
  CHECK(model::document_share({2048, 1024}, 4096) ==
        (0.25 + 0.0625 + 0.0625));  // 2048, 1024, then 1024 of 2048
  const std::string documents = ", documents: [4096, 1024, 1024, 2048]";
  const double share = (16.0 + 1 + 1 + 4) / 64;
  CHECK(std::abs(pairs(Lowered(job_text(1, "", "flash2", documents))) / (kAll * share) - 1) < 1e-9);
  for (const char* kind : {"p2p", "a2a"}) {
    INFO(kind);
    CHECK(
        std::abs(pairs(Lowered(job_text(4, fmt::format(", kind: {}", kind), "flash2", documents))) /
                     (kAll * share / 4) -
                 1) < 1e-9);
  }
  // With gathered keys the sequence is split without regard to documents, and the rank with the
  // longest ones determines the time.
  const double slowest = pairs(Lowered(job_text(4, ", kind: all_gather", "flash2", documents)));
  CHECK(slowest > kAll * share / 4 * 1.01);
  CHECK(slowest < kAll * share);
  // Ranks 0 to 3 hold chunks of 1024 (i, 7 - i): the fourth of the first document has the most
  // keys.
  const double fourth = 1024.0 * 1024 * (4 - 0.5) + 1024.0 * 1024 / 2;
  CHECK(std::abs(slowest / fourth - 1) < 1e-9);
}

TEST_CASE("With free links nothing of context parallelism shows, and folded equals full",
          "[laws]") {
  for (const char* kind : {"p2p", "all_gather", "a2a", "hierarchical, inner: 2"}) {
    INFO(kind);
    Lowered l(job_text(4, fmt::format(", kind: {}", kind)), true);
    const auto full = std::get<program::Timeline>(engine::run(l.world));
    const auto folded = lower::fold(l.world);
    REQUIRE(folded);
    CHECK(folded->world.ranks.size() < l.world.ranks.size());
    const auto fast = std::get<program::Timeline>(engine::run(folded->world));
    CHECK(fast.period == full.period);
    for (std::size_t r = 0; r < l.world.ranks.size(); ++r) {
      CHECK(full.ranks[r].breakdown == fast.ranks[folded->class_of[r]].breakdown);
      CHECK(full.ranks[r].peak_allocated == fast.ranks[folded->class_of[r]].peak_allocated);
    }
    l.free_links();
    const auto free = std::get<program::Timeline>(engine::run(l.world));
    CHECK(free.ranks[0].breakdown[static_cast<std::size_t>(Category::context)] == Time{0});
    CHECK(free.period < full.period);
  }
}

TEST_CASE("Ring self-attention: keys round for scores, values for results, their gradients whole",
          "[laws]") {
  const int c = 4;
  const Lowered l(job_text(c, ", kind: p2p", "unfused"));
  const std::int64_t block =
      kSequence / c * 16 * 64 * 2;  // keys are repeated for their queries' heads
  CHECK(l.sent(Category::context, "scores k").count == kLayers * (2 * (c - 1) + 1));
  CHECK(l.sent(Category::context, "context v").count == kLayers * (2 * (c - 1) + 1));
  const auto gradients = l.sent(Category::context, "all_reduce");
  CHECK(gradients.count == kLayers * 2);
  CHECK(gradients.bytes == kLayers * 2 * c * block);
  CHECK(l.sent(Category::context, "").bytes == kLayers * 2 * (2 * (c - 1) + c) * block);
  CHECK(std::holds_alternative<Infeasible>(
      strategy::resolve(config::parse(job_text(c, ", kind: a2a", "unfused"), "job").job)));
}

TEST_CASE("Ranks of a Mamba hybrid trade its projections in five all-to-alls, its results in one",
          "[laws]") {
  const std::int64_t heads = 32, dim = 64, state = 128, groups = 8;
  for (const int c : {2, 4, 8}) {
    const Lowered l(job_text(c, "", "flash2", "",
                             ", mixers: ma, mlps: -d, mamba: {heads: 32, head_dim: 64, state: 128, "
                             "groups: 8, chunk: 256}"));
    const auto all = l.sent(Category::context, "mamba");
    CHECK(all.count == 2 * 6);  // one of the two layers, in both passes
    const std::int64_t width = 2 * heads * dim + 2 * groups * state + heads;
    CHECK(all.bytes == 2 * kSequence / c * (width + heads * dim) * 2);
  }
}
