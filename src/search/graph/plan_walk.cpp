#include <algorithm>
#include <cmath>
#include <random>

#include "plans.h"
#include "stepcast/model/operators.h"

namespace stepcast::search {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

// One stage under a random walk: its cost and memory follow each change without a new sum.
class Chain {
 public:
  Chain(StageGraph graph, StageAsk ask) : graph_(std::move(graph)), ask_(ask) {
    edges_.resize(graph_.problem.nodes.size());
    for (std::size_t e = 0; e < graph_.problem.edges.size(); ++e) {
      const ChoiceEdge& edge = graph_.problem.edges[e];
      edges_[static_cast<std::size_t>(edge.from)].push_back(e);
      if (edge.to != edge.from) {
        edges_[static_cast<std::size_t>(edge.to)].push_back(e);
      }
    }
  }

  // All by samples: data parallelism, with which FlexFlow begins; false: an operator cannot.
  bool begin() {
    choice_.assign(graph_.problem.nodes.size(), 0);
    for (std::size_t i = 0; i < choice_.size(); ++i) {
      const auto& options = graph_.meanings[i].options;
      const auto at = std::find_if(options.begin(), options.end(), [&](const Option& o) {
        return (ask_.view.ranks[0] == 1 || o.splits[0] == Split::batch) &&
               (ask_.view.ranks[1] == 1 || o.splits[1] == Split::batch);
      });
      if (at == options.end()) {
        return false;
      }
      choice_[i] = static_cast<int>(at - options.begin());
    }
    return true;
  }

  double around(std::size_t node) const {
    const auto& p = graph_.problem;
    double sum = p.nodes[node].cost[static_cast<std::size_t>(choice_[node])];
    for (const std::size_t e : edges_[node]) {
      const ChoiceEdge& edge = p.edges[e];
      const auto r = static_cast<std::size_t>(choice_[static_cast<std::size_t>(edge.from)]);
      const auto c = static_cast<std::size_t>(choice_[static_cast<std::size_t>(edge.to)]);
      sum += edge.cost[r * p.nodes[static_cast<std::size_t>(edge.to)].size() + c];
    }
    return sum;
  }
  double memory(std::size_t node) const {
    return graph_.problem.nodes[node].memory[static_cast<std::size_t>(choice_[node])];
  }

  StageGraph graph_;
  StageAsk ask_;
  std::vector<int> choice_;
  std::vector<std::vector<std::size_t>> edges_;
};

// Stages that hold as many layers and devices, the first with the embedding, the last with the
// head.
class Walker {
 public:
  Walker(GraphModel& model, const Frame& frame, int stages, const View& view, int micro_batches,
         Redo redo)
      : micro_batches_(micro_batches), limit_(model.memory_limit()) {
    const int layers = model::layer_count(model.job().model);
    for (int s = 0; s < stages; ++s) {
      StageAsk ask;
      ask.first_layer = static_cast<int>(static_cast<std::int64_t>(layers) * s / stages);
      ask.layers =
          static_cast<int>(static_cast<std::int64_t>(layers) * (s + 1) / stages) - ask.first_layer;
      ask.embedding = s == 0;
      ask.head = s == stages - 1;
      ask.view = view;
      ask.micro_batches = micro_batches;
      ask.in_flight = std::min(stages - s, micro_batches);
      ask.redo = redo;
      ask.shardings = frame.shardings;
      stages_.push_back(ask);
    }
    // The fullest, and those at the ends; the ones between do as the second.
    for (int s = 0; s < stages; ++s) {
      if (s < 2 || s == stages - 1) {
        chains_.emplace_back(model.stage(stages_[static_cast<std::size_t>(s)]),
                             stages_[static_cast<std::size_t>(s)]);
        repeats_.push_back(1);
      } else {
        ++repeats_[1];
      }
    }
  }

  bool begin() {
    times_.assign(chains_.size(), 0);
    memories_.assign(chains_.size(), 0);
    for (std::size_t c = 0; c < chains_.size(); ++c) {
      if (!chains_[c].begin()) {
        return false;
      }
      times_[c] = cost_of(chains_[c].graph_.problem, chains_[c].choice_);
      memories_[c] = memory_of(chains_[c].graph_.problem, chains_[c].choice_);
    }
    return true;
  }

  double latency() const {
    double sum = 0, slowest = 0;
    for (std::size_t c = 0; c < chains_.size(); ++c) {
      sum += times_[c] * repeats_[c];
      slowest = std::max(slowest, times_[c]);
    }
    return sum + (micro_batches_ - 1) * slowest;
  }
  // What does not fit costs more the less it fits.
  double penalised() const {
    double over = 0;
    for (const double m : memories_) {
      over = std::max(over, m / limit_ - 1);
    }
    return latency() * (1 + kPenalty * over);
  }
  bool fits() const {
    return std::all_of(memories_.begin(), memories_.end(), [&](double m) { return m <= limit_; });
  }

  void run(const Walk& walk, std::mt19937_64& random, GraphPlan& best) {
    double now = penalised();
    const auto uniform = [&] { return static_cast<double>(random() >> 11) * 0x1p-53; };
    best_ = best.latency;
    keep();
    for (int m = 0; m < walk.moves; ++m) {
      const std::size_t c = random() % chains_.size();
      Chain& chain = chains_[c];
      const std::size_t node = random() % chain.choice_.size();
      const std::size_t options = chain.graph_.problem.nodes[node].size();
      const int before = chain.choice_[node];
      const double time = times_[c], memory = memories_[c];
      const double old_around = chain.around(node), old_memory = chain.memory(node);
      chain.choice_[node] = static_cast<int>(random() % options);
      const double dice = uniform();
      const double around = chain.around(node);
      double next = kNever;
      if (!std::isinf(around)) {
        times_[c] = time - old_around + around;
        memories_[c] = memory - old_memory + chain.memory(node);
        next = penalised();
      }
      if (std::isinf(next) ||
          (next > now && dice >= std::exp((now - next) / (walk.temperature * now)))) {
        chain.choice_[node] = before;
        times_[c] = time;
        memories_[c] = memory;
        continue;
      }
      now = next;
      keep();
    }
    if (!kept_.empty()) {
      give(best);
    }
  }

 private:
  static constexpr double kPenalty = 10;

  void keep() {
    if (!fits() || latency() >= best_ * (1 - 1e-12)) {
      return;
    }
    best_ = latency();
    kept_.clear();
    for (const Chain& c : chains_) {
      kept_.push_back(c.choice_);
    }
  }

  void give(GraphPlan& best) const {
    best.latency = best_;
    best.micro_batches = micro_batches_;
    best.redo = chains_.front().ask_.redo;
    best.stages.clear();
    for (std::size_t s = 0; s < stages_.size(); ++s) {
      const std::size_t c = s == 0 ? 0 : s + 1 == stages_.size() ? chains_.size() - 1 : 1;
      const ChoiceProblem& p = chains_[c].graph_.problem;
      best.stages.push_back({stages_[s].first_layer, stages_[s].layers, stages_[s].view,
                             cost_of(p, kept_[c]), memory_of(p, kept_[c]),
                             chains_[c].graph_.meanings, kept_[c]});
    }
  }

  int micro_batches_ = 1;
  double limit_ = 0;
  std::vector<StageAsk> stages_;
  std::vector<Chain> chains_;
  std::vector<int> repeats_;
  std::vector<double> times_, memories_;
  double best_ = kNever;
  std::vector<std::vector<int>> kept_;  // choices of the best so far
};

}  // namespace

GraphPlan plan_by_walk(GraphModel& model, const Frame& frame, const Walk& walk) {
  const job::Job& job = model.job();
  std::mt19937_64 random(walk.seed);
  GraphPlan best;
  std::int64_t tried = 0;
  const int layers = model::layer_count(job.model);
  for (const int micro_batches : counts_of_micro_batches(job, frame)) {
    for (int stages = 1; stages <= std::min(layers, job.cluster.ranks()); ++stages) {
      if (job.cluster.ranks() % stages != 0 || layers % stages != 0 ||
          (frame.most_pipeline > 0 && stages > frame.most_pipeline)) {
        continue;
      }
      for (const View& view : views_of(job, job.cluster.ranks() / stages)) {
        for (const Redo redo : frame.redos) {
          Walker walker(model, frame, stages, view, micro_batches, redo);
          if (!walker.begin()) {
            continue;
          }
          walker.run(walk, random, best);
          tried += walk.moves;
        }
      }
    }
  }
  best.solved = tried;
  best.proven = false;
  return best;
}

}  // namespace stepcast::search
