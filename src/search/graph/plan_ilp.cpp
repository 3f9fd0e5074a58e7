#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "plans.h"
#include "stepcast/model/operators.h"

namespace stepcast::search {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
// Blocks of layers that stages are made of (Alpa's layer clustering).
constexpr int kBlocks = 16;
// A stage's share of the layers over its share of the devices, and the inverse, at most: nnScaler's
// unbalance of one half; Alpa's auto_stage_imbalance_tolerance cuts the same.
constexpr double kImbalance = 2;
// A stage as fast as without a memory limit, to rounding, needs no proof.
constexpr double kSettled = 1e-9;
// Of one stage's program, after which its best is taken unproven (Alpa's own limit is 600 s).
constexpr double kSeconds = 600;

class StagePlanner {
 public:
  StagePlanner(GraphModel& model, const Frame& frame, int micro_batches, Redo redo)
      : model_(model), frame_(frame), micro_batches_(micro_batches), redo_(redo) {
    const job::Job& job = model.job();
    layers_ = model::layer_count(job.model);
    const int blocks = std::min(kBlocks, layers_);
    for (int b = 0; b <= blocks; ++b) {
      starts_.push_back(static_cast<int>(static_cast<std::int64_t>(layers_) * b / blocks));
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
    // A shape that is too small for any block is none.
    std::erase_if(shapes_, [&](int n) { return kImbalance * n * blocks < job.cluster.ranks(); });
  }

  // `limit`: nothing above it is of use.
  GraphPlan plan(const StageSearch& search, double limit) {
    limit_ = limit;
    StageProblem p;
    p.blocks = static_cast<int>(starts_.size()) - 1;
    p.devices = model_.job().cluster.ranks();
    p.shapes = shapes_;
    p.micro_batches = micro_batches_;
    p.latency = search.latency;
    if (search.most_bubble < 1) {
      p.most_stages =
          1 + static_cast<int>(search.most_bubble / (1 - search.most_bubble) * micro_batches_);
    }
    if (frame_.most_pipeline > 0) {
      p.most_stages = std::min(p.most_stages, frame_.most_pipeline);
    }
    p.time = [&](int first, int last, int shape, int later) {
      const Solved* s = best_view(first, last, shape, later);
      return s == nullptr ? kNever : s->time;
    };
    const StagePlan found = plan_stages(p);
    GraphPlan out;
    out.latency = found.latency;
    out.micro_batches = micro_batches_;
    out.redo = redo_;
    for (std::size_t i = 0; i < found.stages.size(); ++i) {
      const PlannedStage& s = found.stages[i];
      const int later = static_cast<int>(found.stages.size() - 1 - i);
      const Solved* solved = best_view(s.first, s.last, s.shape, later);
      const StageAsk ask = ask_of(s.first, s.last, solved->view, later);
      StageGraph g = model_.stage(ask);
      out.stages.push_back({ask.first_layer, ask.layers, solved->view, solved->time, solved->memory,
                            std::move(g.meanings), solved->choice});
    }
    out.solved = solved_;
    return out;
  }

 private:
  struct Solved {
    View view;
    double time = kNever;
    double memory = 0;          // with one micro-batch in flight
    double memory_of_each = 0;  // and of each more
    std::vector<int> choice;
  };

  StageAsk ask_of(int first, int last, const View& view, int later) const {
    StageAsk ask;
    ask.first_layer = starts_[static_cast<std::size_t>(first)];
    ask.layers = starts_[static_cast<std::size_t>(last)] - ask.first_layer;
    ask.embedding = first == 0;
    ask.head = last + 1 == static_cast<int>(starts_.size());
    ask.view = view;
    ask.micro_batches = micro_batches_;
    ask.in_flight = std::min(later + 1, micro_batches_);
    ask.redo = redo_;
    ask.shardings = frame_.shardings;
    return ask;
  }

  // Layers of like kinds in like order make like stages.
  std::string content(const StageAsk& ask) const {
    std::string out = ask.embedding ? "e" : "";
    const auto kinds = model::layer_kinds(model_.job().model);
    for (int l = 0; l < ask.layers; ++l) {
      const auto kind = model::layer_kind(model_.job().model, ask.first_layer + l);
      out += static_cast<char>('0' + (std::find(kinds.begin(), kinds.end(), kind) - kinds.begin()));
    }
    return out + (ask.head ? "h" : "");
  }

  Solved solve(const StageAsk& ask, bool limited) {
    Solved out{ask.view, kNever, 0, 0, {}};
    StageGraph g = model_.stage(ask);
    const double limit = g.problem.memory_limit;
    double least_memory = 0, least_time = 0;
    for (const ChoiceNode& n : g.problem.nodes) {
      if (n.size() == 0) {
        return out;
      }
      least_memory += *std::min_element(n.memory.begin(), n.memory.end());
      least_time += *std::min_element(n.cost.begin(), n.cost.end());
    }
    if (least_memory > limit || least_time * micro_batches_ >= limit_) {
      return out;
    }
    Chosen c;
    if (!limited) {
      g.problem.memory_limit = kNever;
      if (auto free = choose_by_elimination(g.problem)) {
        c = std::move(*free);
      } else {
        c = choose_by_ilp(g.problem);
      }
    } else if (auto relaxed = choose_by_relaxation(g.problem)) {
      c = std::move(relaxed->chosen);
    } else {
      c = choose_by_ilp(g.problem);
    }
    ++solved_;
    if (!c.feasible) {
      return out;
    }
    out.time = c.cost;
    out.memory = c.memory;
    out.choice = std::move(c.choice);
    return out;
  }

  // The fastest choice whatever its memory; that it needs with more in flight grows by as much for
  // each.
  const Solved& unlimited(const StageAsk& ask, const std::string& key) {
    const auto [at, fresh] = free_.try_emplace({key, ask.view});
    if (fresh) {
      StageAsk one = ask;
      one.in_flight = 1;
      at->second = solve(one, false);
      if (!at->second.choice.empty()) {
        one.in_flight = 2;
        at->second.memory_of_each =
            memory_of(model_.stage(one).problem, at->second.choice) - at->second.memory;
      }
    }
    return at->second;
  }

  const Solved* best_view(int first, int last, int shape, int later) {
    const int devices = shapes_[static_cast<std::size_t>(shape)];
    const job::Job& job = model_.job();
    const double blocks = static_cast<double>(starts_.size()) - 1;
    const double share = (last - first) / blocks * job.cluster.ranks() / devices;
    if (share > kImbalance || share < 1 / kImbalance) {
      return nullptr;
    }
    const StageAsk any = ask_of(first, last, {}, later);
    const auto key = std::make_tuple(content(any), devices, any.in_flight);
    const auto [at, fresh] = best_.try_emplace(key);
    if (fresh) {
      for (const View& view : views_of(job, devices)) {
        const StageAsk ask = ask_of(first, last, view, later);
        Solved s = unlimited(ask, std::get<0>(key));
        if (s.time >= at->second.time) {
          continue;  // not even without a limit
        }
        s.memory += (ask.in_flight - 1) * s.memory_of_each;
        if (s.memory > model_.memory_limit()) {
          if (s.time * micro_batches_ >= limit_) {
            continue;  // too slow even without a limit
          }
          s = solve(ask, true);
        }
        if (s.time < at->second.time) {
          at->second = std::move(s);
        }
      }
    }
    return std::isinf(at->second.time) ? nullptr : &at->second;
  }

  GraphModel& model_;
  const Frame& frame_;
  int micro_batches_ = 1;
  Redo redo_ = Redo::none;
  int layers_ = 0;
  double limit_ = kNever;
  std::vector<int> starts_;  // first layer of each block, and the end
  std::vector<int> shapes_;
  std::map<std::pair<std::string, View>, Solved> free_;
  std::map<std::tuple<std::string, int, int>, Solved> best_;
  std::int64_t solved_ = 0;
};

}  // namespace

std::vector<View> views_of(const job::Job& job, int devices) {
  std::vector<View> out;
  const int node = std::min(job.cluster.node.gpus, devices);
  for (int columns = 1; columns <= node; columns *= 2) {
    if (devices % columns == 0) {
      out.push_back({{devices / columns, columns}});
    }
  }
  return out;
}

std::vector<int> counts_of_micro_batches(const job::Job& job, const Frame& frame) {
  std::vector<int> out;
  for (const std::int64_t each : frame.micro_batches) {
    for (int data = 1; data <= job.cluster.ranks(); ++data) {
      const std::int64_t at_once = each * data;
      if (job.cluster.ranks() % data == 0 && job.workload.global_batch % at_once == 0) {
        out.push_back(static_cast<int>(job.workload.global_batch / at_once));
      }
    }
  }
  std::sort(out.begin(), out.end(), std::greater<>());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

namespace {

// The stages of the plan itself by integer program: what relaxation left open is closed.
void settle(GraphModel& model, const Frame& frame, const StageSearch& search, GraphPlan& plan) {
  std::vector<PlannedStage> timed;
  const int layers = model::layer_count(model.job().model);
  for (std::size_t i = 0; i < plan.stages.size(); ++i) {
    GraphStage& s = plan.stages[i];
    StageAsk ask;
    ask.first_layer = s.first_layer;
    ask.layers = s.layers;
    ask.embedding = i == 0;
    ask.head = s.first_layer + s.layers == layers;
    ask.view = s.view;
    ask.micro_batches = plan.micro_batches;
    ask.in_flight = std::min(static_cast<int>(plan.stages.size() - i), plan.micro_batches);
    ask.redo = plan.redo;
    ask.shardings = frame.shardings;
    const ChoiceProblem problem = model.stage(ask).problem;
    ChoiceProblem free = problem;
    free.memory_limit = kNever;
    const auto least = choose_by_elimination(free);
    if (!least || least->cost < s.time * (1 - kSettled)) {
      const Chosen c = choose_by_ilp(problem, kSeconds);
      plan.proven = plan.proven && c.proven;
      ++plan.solved;
      if (c.feasible && c.cost < s.time) {
        s.time = c.cost;
        s.memory = c.memory;
        s.choice = c.choice;
      }
    }
    timed.push_back({0, 0, 0, s.time});
  }
  if (!timed.empty()) {
    StageProblem law;
    law.latency = search.latency;
    law.micro_batches = plan.micro_batches;
    plan.latency = latency_of(law, timed);
  }
}

}  // namespace

GraphPlan plan_by_ilp(GraphModel& model, const Frame& frame, const StageSearch& search) {
  GraphPlan best;
  std::int64_t solved = 0;
  for (const int micro_batches : counts_of_micro_batches(model.job(), frame)) {
    for (const Redo redo : frame.redos) {
      StagePlanner planner(model, frame, micro_batches, redo);
      GraphPlan found = planner.plan(search, best.latency);
      solved += found.solved;
      if (found.latency < best.latency) {
        best = std::move(found);
      }
    }
  }
  best.solved = solved;
  best.proven = true;
  settle(model, frame, search, best);
  return best;
}

}  // namespace stepcast::search
