// Step 6: chooses the number of layers of each stage and the order of its passes.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "ahp.h"
#include "ahp_order.h"
#include "stepcast/model/operators.h"
#include "stepcast/strategy/plan.h"
#include "uneven.h"

namespace stepcast::automatic {
namespace {

constexpr const char* kScheduleKey = "parallelism.schedule";
// At most this many moves of a layer from one stage to another are simulated.
constexpr int kMoves = 24;

// Seconds per step in which a stage's compute stream is busy.
double busy(const result::StageBreakdown& s) {
  return to_seconds(s.compute + s.recompute + s.slowdown + s.tensor + s.context + s.expert);
}

int micro_batches_of(const job::Job& job) {
  const job::Parallelism& p = job.parallelism;
  const int data = job.cluster.ranks() / (p.tensor * p.context * p.pipeline);
  return static_cast<int>(job.workload.global_batch / (job.workload.micro_batch * data));
}

std::vector<int> layers_of(const job::Job& job) {
  std::vector<int> out;
  const auto plan = strategy::resolve(job);
  if (const auto* p = std::get_if<strategy::Plan>(&plan)) {
    for (const auto& chunks : p->stages) {
      int n = 0;
      for (const auto& chunk : chunks) {
        n += chunk.layers;
      }
      out.push_back(n);
    }
  }
  return out;
}

// Seconds of one layer on the slowest device of each stage.
std::vector<double> layer_seconds(const job::Job& job, forecast::Forecaster& forecaster) {
  const job::Cluster& c = job.cluster;
  const auto time_on = [&](const job::Device& device) {
    job::Job alone = job;
    alone.cluster.device = device;
    alone.cluster.overrides.clear();
    const auto found = forecaster.layer_time(alone);
    const auto* t = std::get_if<forecast::Forecaster::LayerTime>(&found);
    return t == nullptr ? 0.0 : t->both.value;
  };
  std::vector<double> of_node(static_cast<std::size_t>(c.nodes), time_on(c.device));
  for (const auto& o : c.overrides) {
    const double t = time_on(o.device);
    for (int n = o.first; n < std::min(c.nodes, o.first + o.count); ++n) {
      of_node[static_cast<std::size_t>(n)] = t;
    }
  }
  const job::Parallelism& p = job.parallelism;
  const int data = c.ranks() / (p.tensor * p.context * p.pipeline);
  const cluster::Grid grid{p.tensor, p.context, data, p.pipeline, p.expert, c.order};
  std::vector<double> out(static_cast<std::size_t>(p.pipeline), 0);
  for (int r = 0; r < c.ranks(); ++r) {
    double& t = out[static_cast<std::size_t>(cluster::coordinates(grid, r).pipeline)];
    t = std::max(t, of_node[static_cast<std::size_t>(r / c.node.gpus)]);
  }
  return out;
}

std::string list_text(const std::vector<int>& layers) {
  return fmt::format("[{}]", fmt::join(layers, ", "));
}

}  // namespace

std::vector<int> Ahp::planned_layers(const Tried& even) {
  const job::Job& job = even.job;
  const int p = job.parallelism.pipeline;
  const std::vector<int> now = layers_of(job);
  const std::vector<double> layer = layer_seconds(job, forecaster_);
  const int all = std::accumulate(now.begin(), now.end(), 0);
  UnevenProblem problem;
  problem.micro_batches = micro_batches_of(job);
  problem.grain = std::max(1, job.parallelism.virtual_pipeline);
  const auto capacity = static_cast<double>(even.report.capacity.count());
  for (std::size_t s = 0; s < static_cast<std::size_t>(p); ++s) {
    problem.layer.emplace_back(static_cast<std::size_t>(all), layer[s]);
    // Time of the stage outside its layers, as simulated.
    const double whole = busy(even.report.breakdown[s]) / problem.micro_batches;
    const bool end = s == 0 || s + 1 == static_cast<std::size_t>(p);
    problem.ends.push_back(end ? std::max(0.0, whole - now[s] * layer[s]) : 0.0);
    // Bytes that grow with the number of layers. At the first and last stage some of them do not,
    // which the simulation then shows.
    const result::StageMemory& m = even.report.memory[s];
    const auto growing =
        static_cast<double>((m.parameters + m.gradients + m.optimizer + m.activations).count());
    const double each = growing / std::max(1, now[s]);
    const double room = capacity - static_cast<double>(m.process.count());
    problem.most.push_back(std::max(
        problem.grain, now[s] + static_cast<int>(std::floor(each > 0 ? room / each : all))));
  }
  return cut_layers(problem).layers;
}

// Moves layers one by one between stages while the engine finds the result better than `from`.
std::optional<Tried> Ahp::move_layers(Tried from) {
  const int grain = std::max(1, from.job.parallelism.virtual_pipeline);
  for (int moves = 0; moves < kMoves;) {
    const std::vector<int> now = layers_of(from.job);
    std::vector<std::size_t> order(now.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return busy(from.report.breakdown[a]) > busy(from.report.breakdown[b]);
    });
    bool better = false;
    const std::size_t slow = order.front();
    for (auto to = order.rbegin(); to != order.rend() && !better && moves < kMoves; ++to) {
      if (*to == slow || now[slow] <= grain) {
        continue;
      }
      std::vector<int> next = now;
      next[slow] -= grain;
      next[*to] += grain;
      std::vector<std::string> overrides = from.strategy.overrides;
      std::erase_if(overrides, [](const auto& text) { return text.starts_with(kLayersKey); });
      overrides.push_back(fmt::format("{}={}", kLayersKey, list_text(next)));
      std::string why;
      auto tried = simulate(overrides, why);
      ++moves;
      if (tried && tried->strategy.fits && tried->strategy.objective < from.strategy.objective) {
        from = std::move(*tried);
        better = true;
      }
    }
    if (!better) {
      break;
    }
  }
  return from;
}

result::AlgorithmStep Ahp::layers() {
  result::AlgorithmStep step{"schedule", "", {}};
  const double before = best_->strategy.objective;
  const bool open = algorithms_.fixed.end() ==
                        std::find_if(algorithms_.fixed.begin(), algorithms_.fixed.end(),
                                     [](const auto& t) { return t.starts_with(kLayersKey); }) &&
                    request_.space.find(kLayersKey) == nullptr && base_.parallelism.layout.empty();
  std::vector<std::vector<std::string>> starts = {best_->strategy.overrides};
  starts.insert(starts.end(), alternatives_.begin(), alternatives_.end());
  for (const auto& overrides : starts) {
    std::string why;
    auto even = simulate(overrides, why);
    if (!open || !even || even->job.parallelism.pipeline == 1) {
      continue;
    }
    const int pipeline = even->job.parallelism.pipeline;
    const std::vector<int> planned = planned_layers(*even);
    if (planned.empty()) {
      step.details.push_back(fmt::format("pipeline {}: no cut keeps to memory", pipeline));
      continue;
    }
    step.details.push_back(fmt::format("{} stages as they are {}: {}", pipeline,
                                       list_text(layers_of(even->job)),
                                       outcome_text(even->strategy, before)));
    std::optional<Tried> start = std::move(even);
    if (planned != layers_of(start->job)) {
      auto more = overrides;
      more.push_back(fmt::format("{}={}", kLayersKey, list_text(planned)));
      auto tried = simulate(more, why);
      step.details.push_back(fmt::format("by dynamic programming {}: {}", list_text(planned),
                                         tried ? outcome_text(tried->strategy, before) : why));
      if (!tried) {
        continue;  // the system or the schedule requires even stages
      }
      if (tried->strategy.fits &&
          (!start->strategy.fits || tried->strategy.objective < start->strategy.objective)) {
        start = std::move(tried);
      }
    }
    const double began = start->strategy.objective;
    start = move_layers(std::move(*start));
    if (start->strategy.objective < began) {
      step.details.push_back(fmt::format("moved by the engine {}: {}",
                                         list_text(layers_of(start->job)),
                                         outcome_text(start->strategy, before)));
    }
    take(std::move(start));
  }
  const std::vector<int> now = layers_of(best_->job);
  const bool even = std::adjacent_find(now.begin(), now.end(), std::not_equal_to<>()) == now.end();
  step.decision = best_->job.parallelism.pipeline == 1 ? "one stage"
                  : even ? fmt::format("{} layers a stage", now.front())
                         : "layers " + list_text(now);
  return step;
}

result::AlgorithmStep Ahp::schedule(result::AlgorithmAnswer& out) {
  result::AlgorithmStep step{"schedule", "", {}};
  const double before = best_->strategy.objective;
  const auto name_of = [](const job::Job& job) -> std::string {
    const job::Parallelism& p = job.parallelism;
    return p.schedule ? p.schedule->name : std::string(schedule::implied(p.virtual_pipeline));
  };
  const std::string_view usual = schedule::implied(1);  // 1F1B
  const job::Job found = best_->job;
  const int pipeline = found.parallelism.pipeline;
  if (pipeline == 1) {
    step.decision = "forward and backward of each micro-batch in turn";
    return step;
  }
  // The job with 1F1B; it gives the pass times from which an order is made.
  std::optional<Tried> one_chunk;
  const std::vector<int> layers = layers_of(found);
  for (const schedule::Entry& entry : schedule::table()) {
    const std::string name(entry.name);
    const bool plain = name == usual;
    if ((!plain && !free(kScheduleKey, name)) || name == name_of(found)) {
      continue;
    }
    const auto& runs = found.system.schedules;
    if (!runs.empty() && std::find(runs.begin(), runs.end(), name) == runs.end()) {
      continue;
    }
    const int chunks = entry.chunks > 0 ? entry.chunks : found.parallelism.virtual_pipeline;
    std::vector<std::string> changes = {fmt::format("{}={}", kScheduleKey, name),
                                        fmt::format("parallelism.virtual_pipeline={}", chunks)};
    std::string why;
    auto tried = simulate(with(changes), why);
    step.details.push_back(
        fmt::format("{}: {}", name, tried ? outcome_text(tried->strategy, before) : why));
    if (tried && plain) {
      one_chunk = tried;
    }
    if (free(kScheduleKey, name)) {
      take(std::move(tried));
    }
  }
  if (name_of(found) == usual) {
    one_chunk = best_;
  }
  if (one_chunk) {
    made_order(*one_chunk, before, step, out);
  }
  step.decision = name_of(best_->job);
  return step;
}

void Ahp::made_order(const Tried& from, double before, result::AlgorithmStep& step,
                     result::AlgorithmAnswer& out) {
  const job::Job& job = from.job;
  if (job.workload.micro_batches.kind != job::MicroBatches::Kind::even) {
    return;  // a table of passes is valid for one number of micro-batches only
  }
  const auto pipeline = static_cast<std::size_t>(job.parallelism.pipeline);
  OrderProblem problem;
  problem.micro_batches = micro_batches_of(job);
  // Splits a stage's time: the forward part by the engine's layer time, weight gradients by their
  // FLOPs of the backward pass.
  double again = 0, input = 0, weight = 0;
  model::Shard shard;
  shard.sequences = job.workload.micro_batch;
  shard.sequence_length = job.workload.sequence_length;
  const auto kind = model::layer_kind(job.model, job.model.layers / 2);
  for (const auto& op :
       model::build_layer(job.model, kind, shard, model::style_of(job)).operators) {
    again += job.memory.recompute.kind == job::Recompute::Kind::full ? op.forward.count() : 0;
    input += op.input_grad.count();
    weight += op.weight_grad.count();
  }
  const auto timed = forecaster_.layer_time(job);
  const auto* layer = std::get_if<forecast::Forecaster::LayerTime>(&timed);
  if (layer == nullptr || layer->both.value <= 0) {
    return;
  }
  const double forward = layer->forward.value / layer->both.value;
  const double weights = (1 - forward) * weight / (again + input + weight);
  for (std::size_t s = 0; s < pipeline; ++s) {
    const double t = busy(from.report.breakdown[s]) / problem.micro_batches;
    problem.stages.push_back({t * forward, t * (1 - forward - weights), t * weights});
    // 1F1B holds p - s of them.
    const result::StageMemory& m = from.report.memory[s];
    const auto kept = static_cast<double>(
        std::min<std::size_t>(pipeline - s, static_cast<std::size_t>(problem.micro_batches)));
    const double each = static_cast<double>(m.activations.count()) / kept;
    const auto room = static_cast<double>((from.report.capacity - m.process).count());
    problem.live.push_back(std::max(1.0, kept + std::floor(each > 0 ? room / each : 0.0)));
  }
  for (const result::Traffic& t : from.report.traffic) {
    if (parse<program::Category>(t.group) == program::Category::pipeline && t.count > 0) {
      problem.comm = std::max(problem.comm, to_seconds(t.time) / static_cast<double>(t.count));
    }
  }

  const auto& runs = job.system.schedules;
  const bool allowed = runs.empty() || std::find(runs.begin(), runs.end(), "csv") != runs.end();
  std::optional<Tried> fastest;
  std::string csv;
  for (const bool splits : {true, false}) {
    problem.splits_backward = splits;
    const MadeOrder made = make_order(problem);
    job::Job other = job;
    other.parallelism.schedule.emplace();
    other.parallelism.schedule->name =
        algorithms_.schedule_file.empty() ? "ahp.csv" : algorithms_.schedule_file;
    other.parallelism.schedule->table = schedule::to_csv(made.order, static_cast<int>(pipeline));
    if (!allowed) {
      other.system.schedules.clear();
    }
    std::vector<std::string> overrides = from.strategy.overrides;
    std::erase_if(overrides, [](const auto& text) { return text.starts_with(kScheduleKey); });
    overrides.push_back(fmt::format("{}={}", kScheduleKey, other.parallelism.schedule->name));
    std::string why;
    const std::string table = other.parallelism.schedule->table;
    auto tried = simulate(std::move(other), overrides, why);
    step.details.push_back(
        fmt::format("list-scheduled graph of {} tasks, backward {}: {} by its own times; {}",
                    pipeline * static_cast<std::size_t>(problem.micro_batches) * (splits ? 3 : 2),
                    splits ? "split" : "whole", seconds_text(made.makespan),
                    tried ? outcome_text(tried->strategy, before) : why));
    if (tried && tried->strategy.fits &&
        (!fastest || tried->strategy.objective < fastest->strategy.objective)) {
      fastest = std::move(tried);
      csv = table;
    }
  }
  if (!fastest) {
    return;
  }
  out.schedule = csv;
  const bool better = fastest->strategy.objective < best_->strategy.objective;
  if (!allowed) {
    step.details.push_back(
        fmt::format("{} runs no order of its own making: {}", job.system.name,
                    better ? "a runtime that does would be faster" : "none lost"));
  } else if (algorithms_.schedule_file.empty()) {
    step.details.push_back("name a file with --schedule-file to take and keep that order");
  } else if (free(kScheduleKey, algorithms_.schedule_file)) {
    take(std::move(fastest));
  }
}

}  // namespace stepcast::automatic
