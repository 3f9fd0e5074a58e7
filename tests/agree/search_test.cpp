// Compares a search with brute force: every combination of a small space through the event engine.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "catch.hpp"
#include "search/dimensions.h"
#include "search/enumerate.h"
#include "search/stated.h"
#include "support/search_space.h"

using namespace stepcast;

namespace {

constexpr int kSpaces = 300;

struct Engine {
  double step = 0;       // seconds
  double allocated = 0;  // bytes, of the fullest stage
  double process = 0;    // the same with what lies outside the allocator
};

// Returns nothing if the job is refused.
std::optional<Engine> engine(forecast::Forecaster& forecaster, const search::JobLoader& loader,
                             const std::vector<std::string>& overrides) {
  const auto loaded = loader(overrides);
  const auto* job = std::get_if<job::Job>(&loaded);
  if (job == nullptr) {
    return std::nullopt;
  }
  const auto outcome = forecaster.forecast(*job, {.allocator = forecast::Allocator::rule});
  const auto* report = std::get_if<result::Report>(&outcome);
  if (report == nullptr) {
    return std::nullopt;
  }
  Engine out{report->step_time.value, 0, 0};
  for (const auto& stage : report->memory) {
    const Bytes outside = stage.process - stage.reserved;
    out.allocated = std::max(out.allocated, static_cast<double>(stage.allocated.count()));
    out.process = std::max(out.process, static_cast<double>((stage.allocated + outside).count()));
  }
  return out;
}

struct Judged {
  int combinations = 0;          // number that the engine can run
  int alike = 0;                 // of them: the same job as another
  double bounds = 0, steps = 0;  // sums, seconds
};

// A candidate's bound is that of its own job, whatever others share its family and what was bounded
// before it.
void check_alone(forecast::Forecaster& forecaster, const search::JobLoader& loader,
                 const std::vector<std::string>& overrides, const bound::Candidate& candidate,
                 const search::Enumerated::Refined& among) {
  const auto loaded = loader(overrides);
  auto bounds = forecaster.bounds(std::get<job::Job>(loaded));
  auto* own = std::get_if<forecast::Forecaster::Bounds>(&bounds);
  REQUIRE(own != nullptr);
  const bound::Refined alone = own->of.refine(candidate);
  CHECK(to_seconds(alone.step) == among.bound);
  CHECK(static_cast<double>(alone.memory.count()) == among.memory);
}

// Compares every combination's bounds with the engine, and those that stand for one job with each
// other.
void judge(const std::string& job, const std::string& space, Judged& judged) {
  const search::JobLoader loader = test::loader_of(job);
  search::Request request;
  request.space = test::space_of(space, job);
  forecast::Forecaster forecaster(text::data_directory());
  search::Enumerated all =
      search::enumerate(request, loader, forecaster, std::numeric_limits<double>::infinity());
  std::map<std::size_t, Engine> runs;  // by position in the list
  std::int64_t combinations = 0;
  test::each_combination(request.space, [&](const std::vector<std::string>& overrides) {
    ++combinations;
    const auto found = engine(forecaster, loader, overrides);
    if (!found) {
      return;
    }
    INFO(job << space << fmt::format("{}", fmt::join(overrides, " ")));
    const auto place = search::place_of(all, overrides);
    if (!place) {
      FAIL("the engine runs it, the bound calls it impossible");
    }
    const search::Item& item = all.items[*place];
    ++judged.combinations;
    if (const auto [at, first] = runs.try_emplace(*place, *found); !first) {
      ++judged.alike;
      CHECK(at->second.step == found->step);
      CHECK(at->second.allocated == found->allocated);
      CHECK(at->second.process == found->process);
      return;
    }
    const auto refined = all.refine(item);
    CHECK_FALSE(refined.refused);
    check_alone(forecaster, loader, overrides, all.candidate(item), refined);
    CHECK(item.bound <= refined.bound);
    CHECK(refined.bound <= found->step);
    judged.bounds += refined.bound;
    judged.steps += found->step;
    CHECK(item.memory <= found->allocated);
    CHECK(item.memory <= refined.memory);
    CHECK(refined.memory <= found->process);
  });
  CHECK(combinations == all.counts.candidates);
  CHECK(static_cast<std::int64_t>(all.items.size()) + all.counts.alike + all.counts.impossible ==
        all.counts.candidates);
}

}  // namespace

TEST_CASE(
    "Of every combination both bounds are at most what the engine finds, in time and in memory",
    "[agree]") {
  std::mt19937 random(20261122);
  Judged judged;
  for (int n = 0; n < kSpaces; ++n) {
    const test::DrawnSpace drawn = test::draw_space(random);
    judge(drawn.job, drawn.space, judged);
  }
  CHECK(judged.combinations > 150);
  CHECK(judged.alike > 10);
  CHECK(judged.bounds > 0.6 * judged.steps);  // a bound of zero would be admissible as well
}

TEST_CASE(
    "In no training system do other keys' defaults follow a key that a bound takes to stand alone",
    "[agree]") {
  const std::map<std::string, std::vector<std::string>> values = {
      {"parallelism.tensor", {"1", "2"}},
      {"parallelism.pipeline", {"1", "2"}},
      {"parallelism.virtual_pipeline", {"1", "2"}},
      {"parallelism.data", {"8", "16"}},
      {"parallelism.context", {"1", "2"}},
      {"parallelism.expert_tensor", {"1", "2"}},
      {"workload.micro_batch", {"1", "2"}},
      {"parallelism.sequence_parallel", {"false", "true"}},
      {"parallelism.sharding", {"none", "zero1", "zero2", "zero3"}},
      {"memory.recompute", {"none", "selective", "full"}},
      {"parallelism.overlap.tensor", {"none", "ring"}},
      {"memory.offload", {"{}", "{optimizer: cpu}", "{activations: cpu}"}},
      {"parallelism.overlap.grad_reduce", {"false", "true"}},
      {"parallelism.overlap.param_gather", {"false", "true"}},
      {"parallelism.overlap.pipeline", {"false", "true"}}};
  int compared = 0;
  int followed = 0;
  for (const std::string& key : search::inner_keys()) {
    REQUIRE(values.count(key) == 1);
    const auto& leading = search::leading_keys();
    const bool leads = std::find(leading.begin(), leading.end(), key) != leading.end();
    for (const std::string& system : config::list("systems")) {
      const auto loader = test::loader_of(
          "model: {layers: 8, hidden: 1024, heads: 16, kv_heads: 8, head_dim: 64, ffn: 4096, "
          "vocab: 16000, gated_mlp: true, norm: rms, positions: rotary}\n"
          "cluster: {use: dgx-a100, nodes: 2}\nsystem: " +
          system + "\nworkload: {sequence_length: 4096, global_batch: 64, micro_batch: 1}\n");
      std::optional<job::Job> first;
      for (const std::string& value : values.at(key)) {
        auto loaded = loader({key + "=" + value});
        auto* job = std::get_if<job::Job>(&loaded);
        if (job != nullptr && first) {
          INFO(system << " " << key << "=" << value);
          const bool differ = search::differ_beside(*first, *job, key);
          CHECK((leads || !differ));
          followed += differ ? 1 : 0;
          ++compared;
        } else if (job != nullptr) {
          first = std::move(*job);
        }
      }
    }
  }
  CHECK(compared > 400);
  CHECK(followed > 0);
}

// Passes that reduce their gradients add nothing up, unlike those of the candidates beside them; of
// two passes side by side, the host launches one while it waits in the other.
TEST_CASE("Bounds that longer series of drawn spaces found too high", "[agree]") {
  const std::string dense =
      "model: {layers: 8, hidden: 1024, heads: 16, kv_heads: 8, head_dim: 64, ffn: 4096, vocab: "
      "16000, gated_mlp: true, norm: rms, positions: rotary}\n"
      "cluster: {use: aws-p4d, nodes: 1}\nsystem: megatron-lm\n"
      "workload: {sequence_length: 4096, global_batch: 64, micro_batch: 1}\n"
      "parallelism: {tensor: 4}\n";
  const std::string experts =
      "model: {layers: 4, hidden: 512, heads: 8, kv_heads: 8, head_dim: 64, ffn: 2048, vocab: "
      "8000, gated_mlp: true, norm: rms, positions: rotary, moe: {experts: 8, topk: 2, ffn: "
      "1024}}\n"
      "cluster: {use: dgx-h100, nodes: 2}\nsystem: megatron-lm\n"
      "workload: {sequence_length: 1024, global_batch: 32, micro_batch: 1}\n"
      "parallelism: {context: 4, expert: 4, expert_tensor: 4, overlap: {expert: true}}\n";
  const auto [job, space] =
      GENERATE_COPY(std::pair(dense, "sharding: [none, zero2]\nsequence_parallel: [false, true]\n"),
                    std::pair(experts, "dispatcher: [alltoall]\nexpert: [1, 4]\n"));
  Judged judged;
  judge(job, space, judged);
  CHECK(judged.combinations >= 2);
}

// With slow links and long host steps, an incomplete bound would show.
TEST_CASE("Bounds know what leaves the GPUs, and stay below the engine", "[agree]") {
  const std::string model =
      "model: {layers: 8, hidden: 1024, heads: 16, kv_heads: 16, head_dim: 64, ffn: 4096, vocab: "
      "8000, gated_mlp: true, norm: rms, positions: rotary}\n";
  // The last value is the share of the engine's time that bounds must reach. It was 0.28 of the
  // second on H100, whose pageable copies are measured (8 to 10 GB/s) and rule those steps.
  const auto [system, cluster, space, share] = GENERATE_COPY(
      std::tuple("megatron-lm", "dgx-a100, nodes: 2",
                 "tensor: [1, 4]\npipeline: [1, 4]\nvirtual_pipeline: [1, 2]\nsharding: [none, "
                 "zero1]\nrecompute: [none, full]\n"
                 "offload: [{activations: cpu}, {optimizer: cpu}, {optimizer: {to: cpu, ratio: "
                 "0.5}, activations: {to: cpu, ratio: 0.5}}, {activations: cpu, prefetch: 0}]\n",
                 0.6),
      std::tuple("megatron-lm-2022", "dgx-a100, nodes: 2",
                 "pipeline: [2, 4]\nschedule: [1f1b, gpipe, zb_h1]\nrecompute: [{uniform: 2}, "
                 "{every: 2}, {block: 1}, selective]\nmicro_batch: [1, 2]\n"
                 "offload: [{activations: cpu, pinned: false}, {activations: cpu, prefetch: 3}]\n"
                 "cluster.order: [tp-cp-ep-dp-pp, tp-cp-ep-pp-dp, pp-dp-ep-cp-tp]\n",
                 0.35),
      std::tuple("deepspeed", "dgx-a100, nodes: 1",
                 "sharding: [zero1, zero2, zero3]\nmicro_batch: [1, 4]\nrecompute: [none, full]\n"
                 "offload: [{optimizer: cpu}, {optimizer: cpu, parameters: cpu}, {optimizer: cpu, "
                 "activations: cpu}, {optimizer: nvme, parameters: nvme}]\n",
                 0.75),
      std::tuple("pytorch-fsdp2", "dgx-h100, nodes: 1",
                 "sharding: [zero2, zero3]\nmicro_batch: [1, 4]\nrecompute: [none, full]\n"
                 "offload: [{optimizer: cpu, parameters: cpu, gradients: cpu}, {activations: "
                 "cpu}, {activations: cpu, overlap: false}]\n",
                 0.6));
  Judged judged;
  judge(fmt::format("{}cluster: {{use: {}}}\nsystem: {}\nworkload: {{sequence_length: 4096, "
                    "global_batch: 64, micro_batch: 1}}\n",
                    model, cluster, system),
        space, judged);
  CHECK(judged.combinations > 5);
  CHECK(judged.bounds > share * judged.steps);
}

TEST_CASE("The answer is that of brute force with the event engine", "[agree]") {
  const char* dense =
      "model: {layers: 8, hidden: 1024, heads: 16, kv_heads: 16, head_dim: 64, ffn: 4096, vocab: "
      "32000}\n"
      "cluster: {use: dgx-a100, nodes: 2, device: {memory: 5 GB, usable_memory: 5 GB}}\n"
      "system: megatron-lm\n"
      "workload: {sequence_length: 2048, global_batch: 32}\n";
  const char* experts =
      "model: {layers: 4, hidden: 1024, heads: 16, kv_heads: 16, head_dim: 64, ffn: 4096, vocab: "
      "32000, gated_mlp: true, norm: rms, positions: rotary, moe: {experts: 8, topk: 2, ffn: "
      "2048}}\n"
      "cluster: {use: dgx-h100, nodes: 2}\n"
      "system: megatron-lm\n"
      "workload: {sequence_length: 2048, global_batch: 32}\n";
  // The last value says whether memory decides.
  const auto [job, space, objective, misfits_expected] = GENERATE_COPY(
      std::tuple(dense,
                 "tensor: [1, 2, 4]\npipeline: [1, 2, 4]\nmicro_batch: [1, 2]\n"
                 "recompute: [none, selective, full]\nsharding: [none, zero1]\n",
                 search::Objective::time, true),
      std::tuple(dense,
                 "pipeline: [2, 4]\nvirtual_pipeline: [1, 2]\ncontext: [1, 2]\n"
                 "recompute: [none, {block: 1}, {every: 2}]\ncluster.nodes: [1, 2]\n"
                 "layers_per_stage: [[3, 5], [2, 2, 2, 2]]\n",
                 search::Objective::cost, false),
      std::tuple(experts,
                 "tensor: [1, 2]\nexpert: [1, 2, 8]\nexpert_tensor: [1, 2]\npipeline: [1, 2]\n"
                 "schedule: [1f1b, gpipe]\nsharding: zero1\nmicro_batch: [1, 2]\n",
                 search::Objective::energy, false),
      // Distribution of layers, placement of ranks, and recomputation.
      std::tuple(dense,
                 "tensor: [1, 2]\npipeline: [2, 4]\nvirtual_pipeline: [1, 2]\n"
                 "layers_per_stage: [[], [3, 5], [1, 2, 2, 3], [1, 2, 3, 2]]\n"
                 "cluster.order: [tp-cp-ep-dp-pp, tp-cp-ep-pp-dp, pp-dp-ep-cp-tp]\n"
                 "recompute: [none, {every: 4}, {every: 2}, {block: 1}, full]\n",
                 search::Objective::time, false),
      std::tuple(dense,
                 "pipeline: [2, 4]\nparallelism.embedding_as_layer: [false, true]\n"
                 "parallelism.loss_as_layer: [false, true]\nlayers_per_stage: [[], [5, 3]]\n"
                 "recompute: [{uniform: 2}, {modules: [core_attn, mlp]}, {block: 2}]\n"
                 "offload: [{}, {activations: cpu}, {optimizer: cpu}]\n",
                 search::Objective::time, false));
  const search::JobLoader loader = test::loader_of(job);
  search::Request request;
  request.space = test::space_of(space, job);
  request.objective = objective;
  request.front.clear();
  const result::Search answer = search::search(request, loader, text::data_directory());
  REQUIRE(answer.found);
  CHECK(answer.gap == 0);

  forecast::Forecaster forecaster(text::data_directory());
  double best = std::numeric_limits<double>::infinity();
  double answered = 0;
  int misfits = 0;
  test::each_combination(request.space, [&](const std::vector<std::string>& overrides) {
    const auto loaded = loader(overrides);
    const auto* one = std::get_if<job::Job>(&loaded);
    if (one == nullptr) {
      return;
    }
    const auto outcome = forecaster.forecast(*one);
    const auto* report = std::get_if<result::Report>(&outcome);
    if (report == nullptr) {
      return;
    }
    misfits += report->fits ? 0 : 1;
    if (!report->fits) {
      return;
    }
    const double ranks = one->cluster.ranks();
    const double value = report->step_time.value * (objective == search::Objective::time ? 1
                                                    : objective == search::Objective::cost
                                                        ? ranks
                                                        : 700 * ranks);  // W, an H100
    best = std::min(best, value);
    const std::set<std::string> mine(overrides.begin(), overrides.end());
    if (mine == std::set<std::string>(answer.best.overrides.begin(), answer.best.overrides.end())) {
      answered = value;
    }
  });
  CHECK((misfits > 0) == misfits_expected);
  CHECK(answered == Approx(best).epsilon(1e-12));
  CHECK(answer.best.objective == Approx(best).epsilon(1e-12));
}
