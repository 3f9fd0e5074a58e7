// AHP with data parallelism across different devices: each data-parallel rank gets a share of the
// batch according to the speed of its devices. The bounds of the kinds of devices propose shares,
// and the engine decides.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "ahp.h"
#include "batch_shares.h"
#include "stepcast/strategy/plan.h"

namespace stepcast::automatic {
namespace {

constexpr const char* kBatchesKey = "workload.micro_batches";
constexpr const char* kOrderKey = "cluster.order";
constexpr const char* kShardingKey = "parallelism.sharding";
// The stages of one data-parallel rank are neighbours, so that the rank uses one kind of device.
constexpr const char* kStagesNear = "tp-cp-ep-pp-dp";
// At most this many shifts between kinds of devices are simulated.
constexpr int kShifts = 12;

// Data-parallel ranks grouped by the devices that they use.
struct RankKinds {
  std::vector<std::vector<job::Device>> devices;  // devices of each kind
  std::vector<int> kind;                          // kind of each rank
};

RankKinds kinds_of(const job::Job& job, int data) {
  const job::Cluster& c = job.cluster;
  // 0: the default device of the cluster
  std::vector<int> of_node(static_cast<std::size_t>(c.nodes), 0);
  for (std::size_t i = 0; i < c.overrides.size(); ++i) {
    const auto& o = c.overrides[i];
    for (int n = o.first; n < std::min(c.nodes, o.first + o.count); ++n) {
      of_node[static_cast<std::size_t>(n)] = static_cast<int>(i) + 1;
    }
  }
  const job::Parallelism& p = job.parallelism;
  const cluster::Grid grid{p.tensor, p.context, data, p.pipeline, p.expert, c.order};
  std::vector<std::set<int>> found(static_cast<std::size_t>(data));
  for (int r = 0; r < c.ranks(); ++r) {
    found[static_cast<std::size_t>(cluster::coordinates(grid, r).data)].insert(
        of_node[static_cast<std::size_t>(r / c.node.gpus)]);
  }
  RankKinds out;
  std::map<std::set<int>, int> numbers;
  for (const std::set<int>& devices : found) {
    const auto [at, fresh] = numbers.emplace(devices, static_cast<int>(out.devices.size()));
    if (fresh) {
      out.devices.emplace_back();
      for (const int d : devices) {
        out.devices.back().push_back(d == 0 ? c.device
                                            : c.overrides[static_cast<std::size_t>(d) - 1].device);
      }
    }
    out.kind.push_back(at->second);
  }
  return out;
}

// Writes the shares as a job states them: by device if every device has one share and a unique
// name, otherwise rank by rank.
std::string value_text(const std::vector<int>& micro_batches, const RankKinds& kinds) {
  std::map<std::string, std::set<int>> numbers;
  bool named = true;
  for (std::size_t d = 0; d < micro_batches.size(); ++d) {
    const auto& devices = kinds.devices[static_cast<std::size_t>(kinds.kind[d])];
    named = named && devices.size() == 1;
    numbers[devices.front().name].insert(micro_batches[d]);
  }
  std::vector<std::string> words;
  for (const auto& [name, found] : numbers) {
    named = named && found.size() == 1;
    words.push_back(fmt::format("{}: {}", name, *found.begin()));
  }
  return named ? fmt::format("{{{}}}", fmt::join(words, ", "))
               : fmt::format("[{}]", fmt::join(micro_batches, ", "));
}

bool is_even(const std::vector<int>& numbers) {
  return std::adjacent_find(numbers.begin(), numbers.end(), std::not_equal_to<>()) == numbers.end();
}

}  // namespace

// Plans the shares from the bounds of clusters that have one kind of device throughout, at one and
// at two times the batch. Empty where a bound cannot be computed or the devices cannot take unequal
// shares.
std::vector<int> Ahp::planned_batches(const job::Job& job, const std::vector<int>& kind,
                                      const std::vector<std::vector<job::Device>>& devices) {
  const auto data = static_cast<int>(kind.size());
  const job::Parallelism& p = job.parallelism;
  BatchProblem problem;
  problem.micro_batches = static_cast<int>(job.workload.global_batch / job.workload.micro_batch);
  problem.grain = p.virtual_pipeline > 1 ? p.pipeline : 1;
  const int even = problem.micro_batches / data;
  if (even == 0) {
    return {};
  }
  std::vector<std::pair<double, double>> law;  // fixed time and time of each micro-batch, by kind
  for (const auto& of_kind : devices) {
    law.emplace_back(0, 0);
    for (const job::Device& device : of_kind) {
      job::Job alone = job;
      alone.cluster.device = device;
      alone.cluster.overrides.clear();
      alone.workload.global_batch = alone.workload.micro_batch * data * even;
      const auto once = bound_of(alone);
      alone.workload.global_batch *= 2;
      const auto twice = bound_of(alone);
      if (!once || !twice || twice->step <= once->step) {
        return {};
      }
      const double each = to_seconds(twice->step - once->step) / even;
      law.back().second = std::max(law.back().second, each);
      law.back().first = std::max(law.back().first, to_seconds(once->step) - even * each);
    }
  }
  for (const int k : kind) {
    problem.fixed.push_back(law[static_cast<std::size_t>(k)].first);
    problem.each.push_back(law[static_cast<std::size_t>(k)].second);
  }
  return share_batches(problem);
}

result::AlgorithmStep Ahp::batches() {
  result::AlgorithmStep step{"schedule", "", {}};
  const bool open = !base_.cluster.overrides.empty() &&
                    base_.workload.micro_batches.kind == job::MicroBatches::Kind::even &&
                    free(kBatchesKey, "") && request_.space.find(kBatchesKey) == nullptr;
  if (!open) {
    return step;
  }
  const double before = best_->strategy.objective;
  std::vector<std::vector<std::string>> starts = {best_->strategy.overrides};
  starts.insert(starts.end(), alternatives_.begin(), alternatives_.end());
  for (const auto& start : starts) {
    for (const bool near : {false, true}) {
      if (near && !free(kOrderKey, kStagesNear)) {
        continue;
      }
      std::vector<std::string> overrides = start;
      if (near) {
        // All stages of one rank have the same device, so there is no reason to distribute layers
        // unevenly.
        std::erase_if(overrides, [](const auto& text) { return text.starts_with(kLayersKey); });
        overrides = changed(overrides, {fmt::format("{}={}", kOrderKey, kStagesNear)});
      }
      share_out(std::move(overrides), near, before, step);
    }
  }
  const job::MicroBatches& found = best_->job.workload.micro_batches;
  if (found.kind != job::MicroBatches::Kind::even) {
    const auto key = fmt::format("{}=", kBatchesKey);
    for (const std::string& text : best_->strategy.overrides) {
      if (text.starts_with(key)) {
        step.decision = "micro-batches " + text.substr(key.size());
      }
    }
  }
  return step;
}

void Ahp::share_out(std::vector<std::string> overrides, bool moved, double before,
                    result::AlgorithmStep& step) {
  auto loaded = loader_(overrides);
  const auto* first = std::get_if<job::Job>(&loaded);
  if (first == nullptr) {
    return;
  }
  const auto sharding = first->parallelism.sharding;
  if (sharding == job::Sharding::zero2 || sharding == job::Sharding::zero3) {
    // With other shardings the data-parallel ranks communicate in every micro-batch.
    if (!free(kShardingKey, "zero1")) {
      return;
    }
    overrides = changed(overrides, {fmt::format("{}=zero1", kShardingKey)});
    loaded = loader_(overrides);
  }
  const auto* job = std::get_if<job::Job>(&loaded);
  if (job == nullptr || (moved && job->parallelism.pipeline == 1)) {
    return;
  }
  const job::Parallelism& p = job->parallelism;
  const int data = job->cluster.ranks() / (p.tensor * p.context * p.pipeline);
  const RankKinds kinds = kinds_of(*job, data);
  if (kinds.devices.size() < 2) {
    return;  // all data-parallel ranks use the same devices
  }
  std::vector<int> now = planned_batches(*job, kinds.kind, kinds.devices);
  if (now.empty() || is_even(now)) {
    return;
  }
  const std::string what = fmt::format("data {} x pipeline {}{}", data, p.pipeline,
                                       moved ? ", stages side by side" : "");
  std::string why;
  auto even = simulate(overrides, why);
  step.details.push_back(fmt::format("{}: as many micro-batches on every rank: {}", what,
                                     even ? outcome_text(even->strategy, before) : why));
  const auto with_shares = [&](const std::vector<int>& shares) {
    return changed(overrides, {fmt::format("{}={}", kBatchesKey, value_text(shares, kinds))});
  };
  auto best = simulate(with_shares(now), why);
  step.details.push_back(fmt::format("{}: by the devices' bounds {}: {}", what,
                                     value_text(now, kinds),
                                     best ? outcome_text(best->strategy, before) : why));
  take(std::move(even));
  if (!best) {
    return;
  }
  const int grain = p.virtual_pipeline > 1 ? p.pipeline : 1;
  const auto of_kinds = static_cast<int>(kinds.devices.size());
  bool shifted = false;
  int tries = 0;
  for (bool better = true; better && tries < kShifts;) {
    better = false;
    for (int pair = 0; pair < of_kinds * of_kinds && !better && tries < kShifts; ++pair) {
      const auto next =
          pair / of_kinds == pair % of_kinds
              ? std::vector<int>()
              : shift_batches(now, kinds.kind, pair / of_kinds, pair % of_kinds, grain);
      if (next.empty()) {
        continue;
      }
      auto tried = simulate(with_shares(next), why);
      ++tries;
      const bool improves =
          tried && tried->strategy.fits &&
          (!best->strategy.fits || tried->strategy.objective < best->strategy.objective);
      if (improves) {
        best = std::move(tried);
        now = next;
        better = shifted = true;
      }
    }
  }
  if (shifted) {
    step.details.push_back(fmt::format("{}: shifted by the engine {}: {}", what,
                                       value_text(now, kinds),
                                       outcome_text(best->strategy, before)));
  }
  take(std::move(best));
}

}  // namespace stepcast::automatic
