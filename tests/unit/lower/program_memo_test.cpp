// Programs that are kept from world to world.
#include <string>
#include <utility>

#include "catch.hpp"
#include "stepcast/engine/engine.h"
#include "stepcast/lower/programs.h"
#include "support/lowered.h"

using namespace stepcast;

namespace {

const std::string kJob =
    "model: {layers: 4, hidden: 512, heads: 8, kv_heads: 8, head_dim: 64, ffn: 2048, vocab: 8000, "
    "max_positions: 1024}\ncluster: {use: dgx-h100, nodes: 2}\nsystem: megatron-lm\n"
    "workload: {sequence_length: 1024, global_batch: 32, micro_batch: 1}\n"
    "parallelism: {tensor: 2, pipeline: 2, sharding: zero1}\n";

// Worlds of one job's plan, as a forecast makes them.
struct Worlds {
  support::Lowered job{kJob, true};
  lower::ProgramMemo memo = {};

  program::World make(const strategy::Plan& plan, lower::Recomputed* again = nullptr,
                      bool keep = true) {
    lower::Options options;
    options.recomputed = again;
    options.programs = keep ? &memo : nullptr;
    return lower::build_world(plan, job.topology(), job.prices, options);
  }
};

void check_same(const program::World& a, const program::World& b) {
  REQUIRE(a.programs.size() == b.programs.size());
  for (std::size_t i = 0; i < a.programs.size(); ++i) {
    const program::Program& p = a.programs[i];
    const program::Program& q = b.programs[i];
    CHECK(p.outside_allocator == q.outside_allocator);
    CHECK(p.outside_parts == q.outside_parts);
    CHECK(p.labels == q.labels);
    REQUIRE(p.tasks.size() == q.tasks.size());
    bool same = true;
    for (std::size_t k = 0; k < p.tasks.size(); ++k) {
      const program::Curve& curve = a.curves[p.tasks[k].curve];
      const program::Curve& other = b.curves[q.tasks[k].curve];
      same = same && p.tasks[k].duration == q.tasks[k].duration &&
             p.tasks[k].price == q.tasks[k].price && p.tasks[k].label == q.tasks[k].label &&
             curve.name == other.name && curve.parts == other.parts;
    }
    CHECK(same);
  }
  CHECK(std::get<program::Timeline>(engine::run(a)).period ==
        std::get<program::Timeline>(engine::run(b)).period);
}

}  // namespace

TEST_CASE("Programs that came back are those that are lowered anew", "[lower]") {
  Worlds w;
  lower::Recomputed first_again;
  program::World first = w.make(w.job.plan, &first_again);
  const auto lent = w.memo.last();
  CHECK(lent.world > 0);
  const program::Program* const place = first.programs.data();
  w.memo.bring_back(lent.world, std::move(first.programs));
  // Blends are numbered behind all curves, of which there are more by now.
  cost::Curve other;
  other.name = "of another job";
  w.job.prices.curves->add(other);
  lower::Recomputed again;
  const program::World second = w.make(w.job.plan, &again);
  CHECK(second.programs.data() == place);
  CHECK(w.memo.last().programs == lent.programs);
  CHECK(w.memo.last().world != lent.world);
  CHECK(again.flops == first_again.flops);
  check_same(second, w.make(w.job.plan, nullptr, false));
}

TEST_CASE("Programs are kept for jobs that differ in their network alone", "[lower]") {
  Worlds w;
  program::World first = w.make(w.job.plan);
  const program::Program* const place = first.programs.data();
  w.memo.bring_back(w.memo.last().world, std::move(first.programs));
  strategy::Plan network = w.job.plan;
  network.cluster.node.nic = network.cluster.node.nic / 2;
  network.cluster.fabric.oversubscription = 4;
  network.nccl.algo = "ring";
  program::World second = w.make(network);
  CHECK(second.programs.data() == place);
  w.memo.bring_back(w.memo.last().world, std::move(second.programs));
  strategy::Plan other = w.job.plan;
  other.host.launch = 2 * other.host.launch;
  const program::World third = w.make(other);
  CHECK(third.programs.data() != place);
  check_same(third, w.make(other, nullptr, false));
}

TEST_CASE("Programs that are out are lowered anew", "[lower]") {
  Worlds w;
  program::World first = w.make(w.job.plan);
  const auto lent = w.memo.last();
  program::World second = w.make(w.job.plan);
  CHECK(w.memo.last().programs != lent.programs);
  CHECK(second.programs.data() != first.programs.data());
  w.memo.bring_back(w.memo.last().world, std::move(second.programs));
  w.memo.bring_back(lent.world, std::move(first.programs));
  const program::World third = w.make(w.job.plan);
  CHECK(w.memo.last().programs == lent.programs);
  check_same(third, w.make(w.job.plan, nullptr, false));
}
