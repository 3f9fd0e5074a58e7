#include <algorithm>
#include <cmath>
#include <map>
#include <random>

#include "../infinity.h"
#include "plans.h"
#include "stepcast/model/operators.h"

namespace stepcast::automatic {
namespace {

// One stage during a random walk. Its cost and memory are updated with each change instead of
// summed again.
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

  // Starts with all operators split by samples (data parallelism), as FlexFlow does. If some
  // operator cannot be, starts with any compatible splits. Returns false if there are none.
  bool begin() {
    choice_.assign(graph_.problem.nodes.size(), 0);
    bool all = true;
    for (std::size_t i = 0; i < choice_.size() && all; ++i) {
      const auto& options = graph_.meanings[i].options;
      const auto at = std::find_if(options.begin(), options.end(), [&](const Option& o) {
        return (ask_.view.ranks[0] == 1 || o.splits[0] == Split::batch) &&
               (ask_.view.ranks[1] == 1 || o.splits[1] == Split::batch);
      });
      all = at != options.end();
      choice_[i] = static_cast<int>(at - options.begin());
    }
    if (all) {
      return true;
    }
    ChoiceProblem any = graph_.problem;
    any.memory_limit = kInfinity;
    for (ChoiceNode& n : any.nodes) {
      if (n.size() == 0) {
        return false;
      }
      n.cost.assign(n.size(), 0);
    }
    for (ChoiceEdge& e : any.edges) {
      for (double& c : e.cost) {
        c = std::isinf(c) ? c : 0;
      }
    }
    auto start = choose_by_elimination(any);
    if (!start || !start->feasible) {
      return false;
    }
    choice_ = std::move(start->choice);
    return true;
  }

  double around(std::size_t node) const {
    const auto& p = graph_.problem;
    double sum = p.nodes[node].cost[static_cast<std::size_t>(choice_[node])];
    for (const std::size_t e : edges_[node]) {
      const ChoiceEdge& edge = p.edges[e];
      sum += edge_cost(p, edge, choice_[static_cast<std::size_t>(edge.from)],
                       choice_[static_cast<std::size_t>(edge.to)]);
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

// First layers of the stages: an equal number in each, adjusted to the user's rules.
std::vector<int> stage_starts(int layers, const Setting& s) {
  std::vector<int> out;
  for (int stage = 0; stage <= s.stages; ++stage) {
    auto start = static_cast<int>(static_cast<std::int64_t>(layers) * stage / s.stages);
    for (const LayersAt& at : s.layers_at) {
      start = at.stage < stage ? std::max(start, at.last + 1) : std::min(start, at.first);
    }
    out.push_back(start);
  }
  out.back() = layers;
  return out;
}

// Walks over stages with equal numbers of devices; the first has the embedding and the last the
// head.
class Walker {
 public:
  Walker(GraphModel& model, const Setting& setting, const View& view)
      : model_(model), setting_(setting) {
    const int layers = model::layer_count(model.job().model);
    const std::vector<int> starts = stage_starts(layers, setting);
    // Stages with the same content share the chain of the first of them, which needs most memory.
    std::map<std::string, std::size_t> chain_of;
    for (int s = 0; s < setting.stages; ++s) {
      const int first = starts[static_cast<std::size_t>(s)];
      const int count = starts[static_cast<std::size_t>(s) + 1] - first;
      const int later = setting.stages - 1 - s;
      if (count < 1) {
        possible_ = false;
        return;
      }
      stages_.push_back(stage_ask(setting, first, count, layers, view, later));
      if (!holds(setting, stages_.back(), later)) {
        possible_ = false;
        return;
      }
      const auto [at, fresh] =
          chain_of.try_emplace(content_of(model.job().model, stages_.back()), chains_.size());
      if (fresh) {
        chains_.emplace_back(model.stage(stages_.back()), stages_.back());
        repeats_.push_back(0);
      }
      ++repeats_[at->second];
      chain_.push_back(at->second);
    }
  }

  // A plan whose latency is not below `limit` is of no use.
  bool begin(double limit) {
    if (!possible_) {
      return false;
    }
    double least = 0;  // lower bound of the slowest stage
    for (const Chain& c : chains_) {
      double sum = 0;
      for (const ChoiceNode& n : c.graph_.problem.nodes) {
        sum += n.size() == 0 ? kInfinity : *std::min_element(n.cost.begin(), n.cost.end());
      }
      least = std::max(least, sum);
    }
    if (least * setting_.micro_batches >= limit) {
      return false;
    }
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
    return setting_.micro_batches * slowest + (sum - slowest) / setting_.virtual_stages;
  }
  double limit(std::size_t chain) const { return chains_[chain].graph_.problem.memory_limit; }
  // The cost with a penalty that grows with the excess of memory.
  double penalised() const {
    double over = 0;
    for (std::size_t c = 0; c < chains_.size(); ++c) {
      over = std::max(over, limit(c) > 0 ? memories_[c] / limit(c) - 1 : kInfinity);
    }
    return latency() * (1 + kPenalty * over);
  }
  bool fits() const {
    for (std::size_t c = 0; c < chains_.size(); ++c) {
      if (memories_[c] > limit(c)) {
        return false;
      }
    }
    return true;
  }

  // Returns whether it found a plan better than `best`.
  bool run(const Walk& walk, std::mt19937_64& random, GraphPlan& best) {
    double now = penalised();
    const auto uniform = [&] { return static_cast<double>(random() >> 11) * 0x1p-53; };
    best_ = best.latency;
    keep();
    for (int m = 0; m < walk.moves; ++m) {
      const double temperature = walk.temperature * (1 - static_cast<double>(m) / walk.moves);
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
      double next = kInfinity;
      if (!std::isinf(around)) {
        times_[c] = time - old_around + around;
        memories_[c] = memory - old_memory + chain.memory(node);
        next = penalised();
      }
      if (std::isinf(next) ||
          (next > now && dice >= std::exp((now - next) / (temperature * now)))) {
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
      return true;
    }
    return false;
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
    best.micro_batches = setting_.micro_batches;
    best.redo = setting_.redo;
    best.setting = setting_;
    best.stages.clear();
    for (std::size_t s = 0; s < stages_.size(); ++s) {
      const std::size_t c = chain_[s];
      GraphStage stage = stage_of(model_, chains_[c].ask_, kept_[c]);
      stage.first_layer = stages_[s].first_layer;
      stage.layers = stages_[s].layers;
      best.stages.push_back(std::move(stage));
    }
  }

  GraphModel& model_;
  const Setting& setting_;
  bool possible_ = true;
  std::vector<StageAsk> stages_;
  std::vector<Chain> chains_;
  std::vector<int> repeats_;
  std::vector<std::size_t> chain_;  // index for each stage
  std::vector<double> times_, memories_;
  double best_ = kInfinity;
  std::vector<std::vector<int>> kept_;  // the best choices so far
};

}  // namespace

GraphPlan plan_by_walk(GraphModel& model, const Frame& frame, const Walk& walk,
                       const std::vector<Form>* forms) {
  const job::Job& job = model.job();
  std::mt19937_64 random(walk.seed);
  GraphPlan best;
  std::int64_t tried = 0;
  const int layers = model::layer_count(job.model);
  const auto take = [&](const Setting& setting, const View& view, const Form* form) {
    Walker walker(model, setting, view);
    if (!walker.begin(best.latency)) {
      return;
    }
    tried += walk.moves;
    if (walker.run(walk, random, best)) {
      best.form = form != nullptr ? std::optional<Form>(*form) : std::nullopt;
    }
  };
  if (forms != nullptr) {
    for (const Form& form : *forms) {
      if (layers % form.stages == 0 || !frame.layers_at.empty()) {
        take(setting_of(frame, form), form.view, &form);
      }
    }
    best.solved = tried;
    return best;
  }
  for (const int micro_batches : counts_of_micro_batches(job, frame)) {
    for (int stages = 1; stages <= std::min(layers, job.cluster.ranks()); ++stages) {
      if (job.cluster.ranks() % stages != 0 || layers % stages != 0) {
        continue;
      }
      for (const View& view : views_of(job, job.cluster.ranks() / stages)) {
        for (const Redo redo : frame.redos) {
          Setting setting = setting_of(frame, micro_batches, redo);
          setting.stages = stages;
          setting.layers_at = frame.layers_at;
          take(setting, view, nullptr);
        }
      }
    }
  }
  best.solved = tried;
  return best;
}

}  // namespace stepcast::automatic
