// Closed forms of tensor parallelism: what grids of ranks compute, hold and send, and products in
// chunks that overlap their exchanges.
#include <fmt/format.h>

#include <numeric>

#include "catch.hpp"
#include "stepcast/engine/engine.h"
#include "stepcast/lower/fold.h"
#include "support/lowered.h"

using namespace stepcast;
using program::Category;
using support::Lowered;

namespace {

constexpr std::int64_t kSequence = 1024;
constexpr std::int64_t kHidden = 4096;
constexpr std::int64_t kFfn = 16384;
constexpr int kBatch = 8;

std::string grid(const char* parallelism, int gpus = 8, const char* cluster = "dgx-a100") {
  return fmt::format(
      "model: {{layers: 1, hidden: {}, heads: 32, kv_heads: 32, head_dim: 128, ffn: {}, vocab: "
      "32768, max_positions: 1024, "
      "tied_embeddings: false, biases: false}}\n"
      "cluster: {{use: {}, nodes: 1, gpus_per_node: {}}}\n"
      "workload: {{sequence_length: {}, micro_batch: {}, global_batch: {}}}\nkernels: {{attention: "
      "flash2}}\n"
      "parallelism: {}\n",
      kHidden, kFfn, cluster, gpus, kSequence, kBatch, kBatch, parallelism);
}

struct Linear {
  const char* name;
  std::int64_t k, n;
};
constexpr Linear kLinears[] = {{"qkv", kHidden, 3 * kHidden},
                               {"out", kHidden, kHidden},
                               {"fc1", kHidden, kFfn},
                               {"fc2", kFfn, kHidden}};

// FLOPs of the products that a rank launches, forward and backward.
double parameters(const Lowered& l) {
  double sum = 0;
  for (const auto& b : l.program().buffers) {
    if (b.category == program::MemoryCategory::parameters) {
      sum += static_cast<double>(b.bytes.count());
    }
  }
  return sum;
}

}  // namespace

TEST_CASE("2D: SUMMA broadcasts q blocks of X and W a product, and reduces as many", "[laws]") {
  const int q = 2;
  const Lowered l(grid("{tensor: 4, tensor_kind: 2d}", 4));
  const std::int64_t rows = kBatch * kSequence;
  for (const Linear& w : kLinears) {
    INFO(w.name);
    const std::int64_t x = rows * w.k / (q * q) * 2;
    const std::int64_t weights = w.k * w.n / (q * q) * 2;
    // Forward X and W; dX: W in, X out; dW: X in, W out.
    const auto xs = l.sent(Category::tensor, fmt::format("{} x broadcast", w.name));
    CHECK(xs.count == q);
    CHECK(xs.bytes == q * x);
    CHECK(l.sent(Category::tensor, fmt::format("{} w broadcast", w.name)).bytes == q * weights);
    CHECK(l.sent(Category::tensor, fmt::format("{} dgrad w broadcast", w.name)).bytes ==
          q * weights);
    CHECK(l.sent(Category::tensor, fmt::format("{} dgrad reduce", w.name)).bytes == q * x);
    CHECK(l.sent(Category::tensor, fmt::format("{} wgrad x broadcast", w.name)).bytes == q * x);
    CHECK(l.sent(Category::tensor, fmt::format("{} wgrad reduce", w.name)).bytes == q * weights);
  }
}

TEST_CASE(
    "2.5D: a layer of the grid has 1/depth of the batch; weight gradients are reduced over the "
    "layers",
    "[laws]") {
  const int q = 2, depth = 2;
  const Lowered l(grid("{tensor: 8, tensor_kind: 2.5d, tensor_depth: 2}"));
  for (const Linear& w : kLinears) {
    INFO(w.name);
    const std::int64_t x = kBatch * kSequence / depth * w.k / (q * q) * 2;
    const std::int64_t weights = w.k * w.n / (q * q) * 2;
    CHECK(l.sent(Category::tensor, fmt::format("{} x broadcast", w.name)).bytes == q * x);
    CHECK(l.sent(Category::tensor, fmt::format("{} w broadcast", w.name)).bytes == q * weights);
    const auto copies = l.sent(Category::tensor, fmt::format("{} wgrad all_reduce", w.name));
    CHECK(copies.count == 1);
    CHECK(copies.bytes == weights);
  }
}

TEST_CASE("3D: X, W and Y are gathered and scattered over one side each", "[laws]") {
  const int l3 = 2;
  const Lowered l(grid("{tensor: 8, tensor_kind: 3d}"));
  for (const Linear& w : kLinears) {
    INFO(w.name);
    const std::int64_t x = kBatch * kSequence * w.k / (l3 * l3) * 2;
    const std::int64_t weights = w.k * w.n / (l3 * l3) * 2;
    const std::int64_t y = kBatch * kSequence * w.n / (l3 * l3) * 2;
    // In the forward pass and for dW.
    CHECK(l.sent(Category::tensor, fmt::format("{} x all_gather", w.name)).bytes == 2 * x);
    CHECK(l.sent(Category::tensor, fmt::format("{} w all_gather", w.name)).bytes == 2 * weights);
    CHECK(l.sent(Category::tensor, fmt::format("{} y reduce_scatter", w.name)).bytes == y);
    CHECK(l.sent(Category::tensor, fmt::format("{} dy all_gather", w.name)).bytes == y);
    CHECK(l.sent(Category::tensor, fmt::format("{} dx reduce_scatter", w.name)).bytes == x);
    CHECK(l.sent(Category::tensor, fmt::format("{} dw reduce_scatter", w.name)).bytes == weights);
  }
}

TEST_CASE("Grids hold 1/P of the parameters, 2.5D depth/P", "[laws]") {
  const double whole = parameters(Lowered(grid("{tensor: 1, data: 1}", 1)));
  const double two = parameters(Lowered(grid("{tensor: 4, tensor_kind: 2d}", 4)));
  const double half = parameters(Lowered(grid("{tensor: 8, tensor_kind: 2.5d, tensor_depth: 2}")));
  const double three = parameters(Lowered(grid("{tensor: 8, tensor_kind: 3d}")));
  CHECK(std::abs(two / (whole / 4) - 1) < 0.01);
  CHECK(std::abs(half / (whole / 4) - 1) < 0.01);
  CHECK(std::abs(three / (whole / 8) - 1) < 0.01);
}

TEST_CASE("Grids and chunked products run, folded as in full", "[laws]") {
  for (const char* parallelism :
       {"{tensor: 4, tensor_kind: 2d}", "{tensor: 8, tensor_kind: 2.5d, tensor_depth: 2}",
        "{tensor: 8, tensor_kind: 3d}",
        "{tensor: 4, sequence_parallel: true, overlap: {tensor: ring}}",
        "{tensor: 8, sequence_parallel: true, overlap: {tensor: async}}",
        "{tensor: 4, sequence_parallel: true, overlap: {tensor: bulk}}"}) {
    INFO(parallelism);
    const bool half = std::string(parallelism).find("tensor: 4") != std::string::npos;
    Lowered l(grid(parallelism, half ? 4 : 8), true);
    const auto full = std::get<program::Timeline>(engine::run(l.world));
    const auto folded = lower::fold(l.world);
    REQUIRE(folded);
    const auto fast = std::get<program::Timeline>(engine::run(folded->world));
    CHECK(full.period == fast.period);
    l.free_links();
    const auto free = std::get<program::Timeline>(engine::run(l.world));
    CHECK(free.ranks[0].breakdown[static_cast<std::size_t>(Category::tensor)] == Time{0});
    CHECK(free.period < full.period);
  }
}

TEST_CASE(
    "Chunked products move what collectives move, and hide it no faster than the slower of both",
    "[laws]") {
  const int t = 8;
  const std::string serial = "{tensor: 8, sequence_parallel: true}";
  const std::string ring = "{tensor: 8, sequence_parallel: true, overlap: {tensor: ring}}";
  const std::string async = "{tensor: 8, sequence_parallel: true, overlap: {tensor: async}}";
  const std::int64_t activation = kBatch * kSequence * kHidden * 2;
  for (const std::string& job : {ring, async}) {
    INFO(job);
    const Lowered l(grid(job.c_str()));
    // Forward: rows to qkv and fc1, sums from out and fc2; backward: rows of the gradients to out
    // and fc2.
    CHECK(l.sent(Category::tensor, "qkv rows").bytes == activation * (t - 1) / t);
    const bool pipelined = l.job.parallelism.overlap.tensor == job::TensorOverlap::async;
    CHECK(l.sent(Category::tensor, "fc2 sums").bytes == (pipelined ? activation * (t - 1) / t : 0));
    const auto parts = l.sent(Category::tensor, "fc2 reduce_scatter");
    CHECK(parts.bytes == (pipelined ? 0 : activation));
    CHECK(parts.count == (pipelined ? 0 : 4));
    CHECK(l.sent(Category::tensor, "fc2 dgrad rows").bytes == activation * (t - 1) / t);
    CHECK(l.sent(Category::tensor, "qkv input all_gather").bytes == activation);
    CHECK(l.sent(Category::tensor, "qkv dgrad reduce_scatter").bytes ==
          (pipelined ? 0 : activation));
    CHECK(l.sent(Category::tensor, "qkv dgrad sums").bytes ==
          (pipelined ? activation * (t - 1) / t : 0));
  }
  // Without slowdown, hidden communication costs only the chunks' less efficient products and the
  // additions.
  const auto step = [](const Lowered& l) {
    program::World world = l.world;
    for (auto& shape : world.shapes) {
      for (auto& price : shape.prices) {
        price.pressure = price.pressure_waiting = 0;
      }
    }
    return std::get<program::Timeline>(engine::run(world));
  };
  const Lowered before(grid(serial.c_str()));
  const Lowered after(grid(ring.c_str()));
  const auto kernels = [](const Lowered& l) {
    Time sum{0};
    for (const auto& task : l.program().tasks) {
      sum += task.kind == program::TaskKind::kernel ? task.duration : Time{0};
    }
    return sum;
  };
  const auto slow = step(before);
  const auto fast = step(after);
  CHECK(fast.period <= slow.period + (kernels(after) - kernels(before)));
  CHECK(fast.period >= kernels(after));
  CHECK(fast.ranks[0].breakdown[static_cast<std::size_t>(Category::tensor)] <
        slow.ranks[0].breakdown[static_cast<std::size_t>(Category::tensor)]);
}

TEST_CASE(
    "Ranks that share a key-value head gather the projections of all, and scatter their gradients",
    "[laws]") {
  for (const int heads : {1, 2, 4}) {
    INFO(heads << " key-value heads");
    std::string job = grid("{tensor: 8, sequence_parallel: true}");
    job.replace(job.find("kv_heads: 32"), 12, fmt::format("kv_heads: {}", heads));
    const std::int64_t rows = kBatch * kSequence;
    const std::int64_t whole = rows * (32 + 2 * heads) * 128 * 2;
    const Lowered l(job);
    const auto gathered = l.sent(Category::tensor, "qkv_gather all_gather");
    CHECK(gathered.count == 1);
    CHECK(gathered.bytes == whole);
    CHECK(l.sent(Category::tensor, "qkv_gather dgrad reduce_scatter").bytes == whole);
    // Each rank attends with its own query heads and one key-value head.
    for (const model::Operator& op :
         model::build_layer(l.job.model, model::LayerKind::dense, l.plan.shard, l.plan.style)
             .operators) {
      if (op.attention) {
        CHECK(op.attention->heads == 4);
        CHECK(op.attention->kv_heads == 1);
      }
    }
  }
  // Attention in 8 bits keeps copies of what a rank reads, and nothing that is gathered.
  std::string job = grid("{tensor: 8, sequence_parallel: true}");
  job.replace(job.find("kv_heads: 32"), 12, "kv_heads: 2");
  const Lowered l(job);
  model::Style narrow = l.plan.style;
  narrow.fp8_attention = true;
  for (const model::Operator& op :
       model::build_layer(l.job.model, model::LayerKind::dense, l.plan.shard, narrow).operators) {
    if (op.name == "qkv_gather") {
      REQUIRE(op.saved.size() == 1);
      CHECK(op.saved[0].bytes.count() == std::int64_t{kBatch} * kSequence * (4 + 2) * 128);
    }
  }
  const Lowered apart(grid("{tensor: 8, sequence_parallel: true}"));
  CHECK(apart.sent(Category::tensor, "qkv_gather").count == 0);
}
