#include "stage_planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "../infinity.h"
#include "stepcast/model/operators.h"

namespace stepcast::automatic {
namespace {

// Number of blocks of layers from which stages are formed (Alpa's layer clustering).
constexpr int kBlocks = 16;
// Limit on the ratio of a stage's share of the layers to its share of the devices, and on the
// inverse: nnScaler's imbalance of one half; Alpa's auto_stage_imbalance_tolerance prunes likewise.
constexpr double kImbalance = 2;

// First layers of the blocks. Blocks are equal if the number of layers allows it, and begin where
// the user's stages may begin.
std::vector<int> block_starts(int layers, const Setting& s) {
  int blocks = std::max(kBlocks, s.stages);
  if (s.form && s.virtual_stages > 1) {
    blocks = s.stages;  // virtual stages are equal
  } else if (s.stages > 0 && layers % s.stages == 0) {
    const int of_stage = layers / s.stages;
    int cuts = std::min(of_stage, std::max(1, kBlocks / s.stages));
    while (of_stage % cuts != 0) {
      ++cuts;
    }
    blocks = cuts * s.stages;
  }
  blocks = std::min(blocks, layers);
  std::set<int> starts;
  for (int b = 0; b <= blocks; ++b) {
    starts.insert(static_cast<int>(static_cast<std::int64_t>(layers) * b / blocks));
  }
  for (const LayersAt& at : s.layers_at) {
    starts.insert({at.first, at.last + 1});
  }
  return {starts.begin(), starts.end()};
}

// A key of everything but layers and mesh on which a stage's fastest cut depends.
std::string key_of(const Setting& s) {
  std::string out = fmt::format("{} {}", s.micro_batches, static_cast<int>(s.redo));
  for (const job::Sharding z : s.shardings) {
    out += fmt::format(" {}", static_cast<int>(z));
  }
  for (const Role& r : s.roles) {
    out += fmt::format(" {},{}", static_cast<int>(r.use), static_cast<int>(r.experts));
  }
  return out;
}

}  // namespace

StagePlanner::StagePlanner(GraphModel& model, const Setting& setting, const StageSearch& search,
                           StageMemo& memo)
    : model_(model),
      setting_(setting),
      search_(search),
      memo_(memo),
      common_(key_of(setting)),
      limit_(kInfinity) {
  const job::Job& job = model.job();
  starts_ = block_starts(model::layer_count(job.model), setting);
  const int ranks = job.cluster.ranks();
  if (setting.form) {
    shapes_ = {setting.view.devices()};
    return;
  }
  const int node = job.cluster.node.gpus;
  for (int n = 1; n < node; n *= 2) {
    shapes_.push_back(n);
  }
  for (int n = 1; n <= job.cluster.nodes; ++n) {
    if (job.cluster.nodes % n == 0) {
      shapes_.push_back(n * node);
    }
  }
  // Leaves out shapes that are too small for any block.
  const int blocks = static_cast<int>(starts_.size()) - 1;
  std::erase_if(shapes_, [&](int n) { return kImbalance * n * blocks < ranks; });
}

StageProblem StagePlanner::problem() {
  StageProblem p;
  p.blocks = static_cast<int>(starts_.size()) - 1;
  p.devices = model_.job().cluster.ranks();
  p.shapes = shapes_;
  p.stages = setting_.stages;
  p.virtual_stages = setting_.virtual_stages;
  p.micro_batches = setting_.micro_batches;
  p.latency = search_.latency;
  p.most_stages = most_stages(search_, setting_.micro_batches);
  p.limit = limit_;
  p.alike = [&](int first, int last, int shape, int later) {
    return kind_of(first, last, shape, later);
  };
  p.least = [&](int first, int last, int shape, int later) {
    const int kind = kind_of(first, last, shape, later);
    return kind < 0 ? kInfinity : kinds_[static_cast<std::size_t>(kind)].least;
  };
  p.time = [&](int first, int last, int shape, int later) {
    return best(kinds_[static_cast<std::size_t>(kind_of(first, last, shape, later))]).time;
  };
  return p;
}

double StagePlanner::least() { return shapes_.empty() ? kInfinity : least_latency(problem()); }

GraphPlan StagePlanner::plan(double limit) {
  GraphPlan out;
  out.micro_batches = setting_.micro_batches;
  out.redo = setting_.redo;
  limit_ = limit;
  const StagePlan found = plan_stages(problem());
  out.latency = found.latency;
  for (std::size_t i = 0; i < found.stages.size(); ++i) {
    const PlannedStage& s = found.stages[i];
    const int later = static_cast<int>(found.stages.size() - 1 - i);
    const int kind = kind_of(s.first, s.last, s.shape, later);
    const CutStage& solved = best(kinds_[static_cast<std::size_t>(kind)]);
    const StageAsk ask = ask_of(s.first, s.last, solved.view, later);
    out.stages.push_back(stage_of(model_, ask, solved.choice));
  }
  out.solved = solved_;
  return out;
}

StageAsk StagePlanner::ask_of(int first, int last, const View& view, int later) const {
  const int begin = starts_[static_cast<std::size_t>(first)];
  const int end = starts_[static_cast<std::size_t>(last)];
  return stage_ask(setting_, begin, end - begin, starts_.back(), view, later);
}

// Memory grows linearly with the number of micro-batches in flight.
const StageMemo::Free& StagePlanner::unlimited(const StageAsk& ask, const std::string& content) {
  const auto [at, fresh] = memo_.stages.try_emplace(
      fmt::format("{} {}x{} {}", content, ask.view.ranks[0], ask.view.ranks[1], common_));
  StageMemo::Free& out = at->second;
  if (!fresh) {
    return out;
  }
  out.cut.view = ask.view;
  StageAsk one = ask;
  one.in_flight = 1;
  ChoiceProblem problem = model_.stage(one).problem;
  out.transient = model_.memory_limit(ask.reserve) - problem.memory_limit;
  for (const ChoiceNode& n : problem.nodes) {
    if (n.size() == 0) {
      return out;
    }
    out.least_memory += *std::min_element(n.memory.begin(), n.memory.end());
  }
  if (out.least_memory > model_.capacity()) {
    return out;
  }
  problem.memory_limit = kInfinity;
  auto free = choose_by_elimination(problem);
  const Chosen c = free ? std::move(*free) : choose_by_ilp(problem);
  ++solved_;
  if (c.feasible) {
    out.cut.time = c.cost;
    out.cut.memory = c.memory;
    out.cut.choice = c.choice;
    one.in_flight = 2;
    out.cut.memory_of_each = memory_of(model_.stage(one).problem, c.choice) - c.memory;
  }
  return out;
}

double StagePlanner::least(const StageAsk& ask, const std::string& content) {
  const StageMemo::Free& free = unlimited(ask, content);
  const double limit = model_.memory_limit(ask.reserve) - free.transient;
  return free.least_memory > limit ? kInfinity : free.cut.time;
}

// A plan with a time of `limit` or more is of no use.
CutStage StagePlanner::limited(const StageAsk& ask, double limit) {
  CutStage out;
  out.view = ask.view;
  const ChoiceProblem problem = model_.stage(ask).problem;
  double least_memory = 0;
  for (const ChoiceNode& n : problem.nodes) {
    least_memory += *std::min_element(n.memory.begin(), n.memory.end());
  }
  if (least_memory > problem.memory_limit) {
    return out;
  }
  auto relaxed = choose_by_relaxation(problem, limit);
  Chosen c = relaxed ? std::move(relaxed->chosen) : choose_by_ilp(problem);
  ++solved_;
  if (c.feasible) {
    out.time = c.cost;
    out.memory = c.memory;
    out.choice = std::move(c.choice);
  }
  return out;
}

std::vector<View> StagePlanner::views(int devices) const {
  return setting_.form ? std::vector<View>{setting_.view} : views_of(model_.job(), devices);
}

int StagePlanner::kind_of(int first, int last, int shape, int later) {
  const int devices = shapes_[static_cast<std::size_t>(shape)];
  const job::Job& job = model_.job();
  const int layers =
      starts_[static_cast<std::size_t>(last)] - starts_[static_cast<std::size_t>(first)];
  const double share = static_cast<double>(layers) / starts_.back() * job.cluster.ranks() / devices;
  if (setting_.layers_at.empty() && (share > kImbalance || share < 1 / kImbalance)) {
    return -1;
  }
  const StageAsk any = ask_of(first, last, setting_.view, later);
  if (!holds(setting_, any, later)) {
    return -1;
  }
  std::string content = content_of(job.model, any);
  const auto [at, fresh] = kind_.try_emplace(std::make_tuple(content, devices, any.in_flight),
                                             static_cast<int>(kinds_.size()));
  if (fresh) {
    Kind kind{std::move(content), any, kInfinity, {}};
    kind.ask.view = {{devices, 1}};
    for (const View& view : views(devices)) {
      StageAsk ask = any;
      ask.view = view;
      kind.least = std::min(kind.least, least(ask, kind.content));
    }
    kinds_.push_back(std::move(kind));
  }
  return at->second;
}

const CutStage& StagePlanner::best(Kind& kind) {
  if (kind.best) {
    return *kind.best;
  }
  const double useful = limit_ / setting_.micro_batches;
  CutStage best;
  std::vector<std::pair<double, View>> order;
  for (const View& view : views(kind.ask.view.devices())) {
    StageAsk ask = kind.ask;
    ask.view = view;
    order.emplace_back(least(ask, kind.content), view);
  }
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const auto& [least, view] : order) {
    if (least >= std::min(best.time, useful)) {
      break;  // it does not fit even without a memory limit on the cuts
    }
    StageAsk ask = kind.ask;
    ask.view = view;
    const StageMemo::Free& free = unlimited(ask, kind.content);
    CutStage cut = free.cut;
    cut.memory += (ask.in_flight - 1) * cut.memory_of_each;
    if (cut.memory > model_.memory_limit(ask.reserve) - free.transient) {
      cut = limited(ask, std::min(best.time, useful));
    }
    if (cut.time < best.time) {
      best = std::move(cut);
    }
  }
  kind.best = std::move(best);
  return *kind.best;
}

}  // namespace stepcast::automatic
