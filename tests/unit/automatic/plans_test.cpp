// Plans of small jobs, compared with all possible plans: every split of layers into stages, every
// mesh, every split of every operator.
#include "automatic/plans/plans.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>

#include "automatic/choice/choice.h"
#include "automatic/choice/ilp.h"
#include "automatic/infinity.h"
#include "catch.hpp"
#include "stepcast/config/config.h"
#include "stepcast/text/document.h"

namespace stepcast::automatic {
namespace {

// Few tokens and wide products: gradients cost more than activations, so that data parallelism,
// with which FlexFlow begins, is not optimal.
constexpr const char* kWideJob = R"(
model: {layers: 4, hidden: 4096, heads: 32, ffn: 16384, vocab: 32000, positions: rotary}
cluster: {use: dgx-a100, nodes: 1}
system: megatron-lm
workload: {sequence_length: 128, global_batch: 8, micro_batch: 1}
)";

// Only two operators of a layer are free, so that all combinations can be tried.
bool few(const model::Operator& op, const Splits& splits, const View& view) {
  for (std::size_t a = 0; a < 2; ++a) {
    const Split s = splits[a];
    const bool free = op.name == "fc1"   ? s == Split::batch || s == Split::column
                      : op.name == "fc2" ? s == Split::batch || s == Split::row
                                         : s == Split::batch;
    if (view.ranks[a] > 1 && !free) {
      return false;
    }
  }
  return true;
}

Frame small_frame() {
  Frame out;
  out.micro_batches = {1};
  out.redos = {Redo::none};
  out.shardings = {job::Sharding::none};
  return out;
}

// Smallest cost of all combinations that fit.
double smallest_cost(const ChoiceProblem& p) {
  std::vector<int> at(p.nodes.size(), 0);
  double best = kInfinity;
  for (;;) {
    const double cost = cost_of(p, at);
    if (cost < best && memory_of(p, at) <= p.memory_limit) {
      best = cost;
    }
    std::size_t i = 0;
    while (i < at.size() && ++at[i] == static_cast<int>(p.nodes[i].size())) {
      at[i++] = 0;
    }
    if (i == at.size()) {
      return best;
    }
  }
}

// Finds the best cut of each stage separately, once.
class Stages {
 public:
  explicit Stages(GraphModel& model)
      : model_(model), layers_(model::layer_count(model.job().model)) {}

  double time(const Setting& setting, int first, int last, const View& view, int later) {
    const StageAsk ask = stage_ask(setting, first, last - first, layers_, view, later);
    const auto key = std::make_tuple(content_of(model_.job().model, ask), view,
                                     setting.micro_batches, ask.in_flight);
    const auto [at, fresh] = known_.try_emplace(key, kInfinity);
    if (fresh) {
      const ChoiceProblem p = model_.stage(ask).problem;
      if (std::all_of(p.nodes.begin(), p.nodes.end(), [](const auto& n) { return n.size() > 0; })) {
        at->second = smallest_cost(p);
      }
    }
    return at->second;
  }

 private:
  GraphModel& model_;
  int layers_;
  std::map<std::tuple<std::string, View, int, int>, double> known_;
};

// Tries the stages from `first` on with all meshes whose share of the devices is within a factor of
// two of their share of the layers.
void all_plans(const GraphModel& model, Stages& stages, const Setting& setting,
               const StageProblem& law, int first, int devices, std::vector<PlannedStage>& plan,
               double& best) {
  const int layers = model::layer_count(model.job().model);
  const int ranks = model.job().cluster.ranks();
  if (first == layers) {
    if (devices == 0 && static_cast<int>(plan.size()) <= law.most_stages) {
      std::vector<PlannedStage> timed = plan;
      for (std::size_t i = 0; i < timed.size(); ++i) {
        const auto later = static_cast<int>(timed.size() - 1 - i);
        timed[i].time = kInfinity;
        for (const View& view : views_of(model.job(), plan[i].shape)) {
          timed[i].time = std::min(timed[i].time,
                                   stages.time(setting, plan[i].first, plan[i].last, view, later));
        }
      }
      best = std::min(best, latency_of(law, timed));
    }
    return;
  }
  for (int last = first + 1; last <= layers; ++last) {
    for (int n = 1; n <= devices; n *= 2) {
      const double share = static_cast<double>((last - first) * ranks) / (layers * n);
      if (share <= 2 && share >= 0.5) {
        plan.push_back({first, last, n, 0});
        all_plans(model, stages, setting, law, last, devices - n, plan, best);
        plan.pop_back();
      }
    }
  }
}

TEST_CASE("Alpa's and nnScaler's plans are the best of all plans, each by its own law") {
  if (!have_ilp_solver()) {
    WARN("no solver of integer programs in this build");
    return;
  }
  const job::Job job = config::parse(kWideJob, "job").job;
  GraphModel model(job, text::data_directory(), few);
  Stages stages(model);
  const Frame frame = small_frame();
  StageSearch alpa;
  StageSearch nnscaler;
  nnscaler.latency = StageProblem::Latency::slowest;
  nnscaler.most_bubble = 0.2;
  for (const StageSearch& search : {alpa, nnscaler}) {
    double best = kInfinity;
    for (const int micro_batches : counts_of_micro_batches(job, frame)) {
      const Setting setting = setting_of(frame, micro_batches, Redo::none);
      StageProblem law;
      law.latency = search.latency;
      law.micro_batches = micro_batches;
      law.most_stages = most_stages(search, micro_batches);
      std::vector<PlannedStage> none;
      all_plans(model, stages, setting, law, 0, job.cluster.ranks(), none, best);
    }
    const GraphPlan found = plan_by_ilp(model, frame, search);
    INFO("bubble " << search.most_bubble);
    REQUIRE(best < kInfinity);
    CHECK(found.latency == Approx(best).epsilon(1e-9));
    CHECK(found.proven);
    CHECK(static_cast<int>(found.stages.size()) <= most_stages(search, found.micro_batches));
  }
}

TEST_CASE("FlexFlow's walk comes to the best of all plans with as many layers in each stage") {
  const job::Job job = config::parse(kWideJob, "job").job;
  GraphModel model(job, text::data_directory(), few);
  Stages stages(model);
  const Frame frame = small_frame();
  const int layers = model::layer_count(job.model);
  double best = kInfinity, by_data = kInfinity;
  for (const int micro_batches : counts_of_micro_batches(job, frame)) {
    for (int n = 1; n <= layers; ++n) {
      if (layers % n != 0 || job.cluster.ranks() % n != 0) {
        continue;
      }
      Setting setting = setting_of(frame, micro_batches, Redo::none);
      setting.stages = n;
      for (const View& view : views_of(job, job.cluster.ranks() / n)) {
        StageProblem law;
        law.micro_batches = micro_batches;
        std::vector<PlannedStage> plan;
        for (int s = 0; s < n; ++s) {
          const int first = layers / n * s, last = layers / n * (s + 1);
          plan.push_back({first, last, 0, stages.time(setting, first, last, view, n - 1 - s)});
        }
        best = std::min(best, latency_of(law, plan));
      }
    }
  }
  // All operators are split by samples, where every walk starts.
  GraphModel data_model(job, text::data_directory(), [](const auto&, const auto& s, const auto& v) {
    return (v.ranks[0] == 1 || s[0] == Split::batch) && (v.ranks[1] == 1 || s[1] == Split::batch);
  });
  Walk still;
  still.moves = 0;
  by_data = plan_by_walk(data_model, frame, still).latency;
  REQUIRE(best < kInfinity);
  CHECK((by_data == kInfinity || best < by_data * 0.99));
  for (const std::uint64_t seed : {1U, 2U, 3U}) {
    Walk walk;
    walk.seed = seed;
    INFO("seed " << seed);
    CHECK(plan_by_walk(model, frame, walk).latency == Approx(best).epsilon(1e-9));
  }
}

}  // namespace
}  // namespace stepcast::automatic
