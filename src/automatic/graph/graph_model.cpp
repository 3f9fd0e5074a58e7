#include "graph_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "operator_cost.h"
#include "stepcast/forecast/forecaster.h"
#include "stepcast/lower/lower.h"

namespace stepcast::automatic {
namespace {

strategy::DataComm comm_of(job::Sharding sharding) {
  switch (sharding) {
    case job::Sharding::none:
      return strategy::DataComm::all_reduce;
    case job::Sharding::zero1:
      return strategy::DataComm::shard_states;
    case job::Sharding::zero2:
      return strategy::DataComm::shard_grads;
    case job::Sharding::zero3:
      return strategy::DataComm::shard_all;
  }
  return strategy::DataComm::all_reduce;
}

bool has_roles(const std::array<RoleSet, 2>& roles, const StageAsk& ask) {
  for (std::size_t a = 0; a < 2; ++a) {
    if (ask.view.ranks[a] > 1 && !contains(roles[a], ask.roles[a])) {
      return false;
    }
  }
  return true;
}

// What an edge needs to know of an operator's options: the distinct cuts of the tensor that they
// produce or consume, and the cut of each option.
std::vector<Cuts> kinds_of(const Meaning& m, Cut (*of)(Split), std::vector<int>& kind) {
  std::vector<Cuts> out;
  std::array<int, kCuts * kCuts> known;
  known.fill(-1);
  kind.reserve(m.options.size());
  for (const Option& o : m.options) {
    const Cuts cuts = cuts_of(o.splits, of);
    int& at = known[static_cast<std::size_t>(cuts[0]) * kCuts + static_cast<std::size_t>(cuts[1])];
    if (at < 0) {
      at = static_cast<int>(out.size());
      out.push_back(cuts);
    }
    kind.push_back(at);
  }
  return out;
}

// A repeated part of a stage: all its layers of one kind, or one end of the network.
struct Unit {
  std::shared_ptr<const PricedGraph> graph;
  int times = 1;
  bool layer = false;
};

// The units of a stage, each in the place of its first layer.
struct StageUnits {
  std::vector<Unit> units;
  std::map<std::pair<int, int>, int> follows;  // how often one unit directly follows another
};

// Numbers of the two graphs that are not a kind of layer.
constexpr int kEmbedding = -1;
constexpr int kHead = -2;

}  // namespace

struct GraphModel::State {
  job::Job job;
  strategy::Plan plan;  // only its policies are used
  Allowed allowed;
  std::unique_ptr<OperatorCost> cost;
  std::map<std::tuple<int, View, int>, std::shared_ptr<const PricedGraph>> priced;
  std::vector<model::LayerKind> kinds;

  // `which` is kEmbedding, kHead, or a kind of layer.
  model::OperatorGraph graph_of(int which, std::int64_t samples) const {
    model::Shard shard;
    shard.sequences = samples;
    shard.sequence_length = job.workload.sequence_length;
    const model::Style style = model::style_of(job);
    if (which == kEmbedding || which == kHead) {
      return which == kHead ? model::build_head(job.model, shard, style)
                            : model::build_embedding(job.model, shard, style);
    }
    const model::LayerKind kind = kinds[static_cast<std::size_t>(which)];
    model::OperatorGraph layer = model::build_layer(job.model, kind, shard, style);
    for (model::Operator& op : layer.operators) {
      op.parameters = kind.repeats ? 0 : op.parameters;  // an earlier layer's
    }
    return layer;
  }

  std::shared_ptr<const PricedGraph> price(int which, const View& view, int micro_batches) {
    auto& found = priced[{which, view, micro_batches}];
    if (!found) {
      const std::int64_t samples = job.workload.global_batch / micro_batches;
      found = std::make_shared<PricedGraph>(
          cost->price(graph_of(which, samples), view, samples, allowed));
    }
    return found;
  }

  StageUnits units_of(const StageAsk& ask);
};

GraphModel::GraphModel(const job::Job& job, const std::filesystem::path& data_directory,
                       Allowed allowed)
    : state_(std::make_unique<State>()) {
  state_->job = job;
  // The vocabulary is padded for tensor parallelism over a node of eight devices.
  constexpr int kNode = 8;
  state_->job.model.vocab = strategy::padded_vocab(job, kNode);
  state_->allowed = std::move(allowed);
  state_->plan.style = model::style_of(job);
  strategy::set_policies(job, state_->plan);
  state_->cost = std::make_unique<OperatorCost>(state_->job, data_directory);
  state_->kinds = model::layer_kinds(job.model);
}
GraphModel::~GraphModel() = default;

const job::Job& GraphModel::job() const { return state_->job; }

double GraphModel::capacity() const {
  return static_cast<double>(state_->cost->capacity().count());
}

double GraphModel::memory_limit(double reserve) const {
  return reserve < 0 ? kUsable * capacity() : std::max(0.0, capacity() - reserve);
}

namespace {

// Builds the choice problem of a stage from its units.
class StageGraphBuilder {
 public:
  StageGraphBuilder(const strategy::Plan& plan, OperatorCost& cost, const StageAsk& ask)
      : plan_(plan), cost_(cost), ask_(ask) {}

  // Builds the problem without its memory limit.
  StageGraph build(const StageUnits& stage) {
    for (const Unit& u : stage.units) {
      add_unit(u);
    }
    for (const auto& [pair, times] : stage.follows) {
      const auto [before, after] = pair;
      add_edge(exit_[static_cast<std::size_t>(before)], entry_[static_cast<std::size_t>(after)],
               false, stage.units[static_cast<std::size_t>(after)].graph->stream_bytes, times);
    }
    return std::move(out_);
  }

  // Largest number of bytes, over all ranks, that live only while one operator runs.
  double transient() const { return transient_; }

 private:
  void add_unit(const Unit& u) {
    const int base = static_cast<int>(out_.meanings.size());
    add_stream(u);
    for (const PricedOperator& op : u.graph->operators) {
      add_operator(u, op);
    }
    for (const PricedEdge& e : u.graph->edges) {
      add_edge(base + 1 + e.from, base + 1 + e.to, e.other_input, e.bytes, u.times);
    }
    entry_.push_back(base);
    exit_.push_back(static_cast<int>(out_.meanings.size()) - 1);
  }

  bool recomputed_whole(const Unit& u) const { return u.layer && ask_.redo == Redo::full; }

  // The stream that enters a unit is a node with choices of its own. Its only cost is the memory of
  // what is kept of it.
  void add_stream(const Unit& u) {
    Meaning stream{"input", model::OpKind::elementwise, 0, 0, {}};
    ChoiceNode kept;
    const bool full = recomputed_whole(u);
    for (const auto& way : u.graph->streams) {
      if (!has_roles(way.roles, ask_)) {
        continue;
      }
      stream.options.push_back({way.splits, job::Sharding::none, 0, 0});
      kept.cost.push_back(0);
      kept.memory.push_back(full ? u.graph->stream_bytes * way.share * u.times * ask_.in_flight
                                 : 0);
    }
    out_.meanings.push_back(std::move(stream));
    out_.problem.nodes.push_back(std::move(kept));
  }

  void add_operator(const Unit& u, const PricedOperator& op) {
    Meaning meaning{op.name, op.kind, op.flops * u.times, op.parameters * u.times, {}};
    ChoiceNode node;
    transient_ = std::max(transient_, op.transient);
    const std::vector<job::Sharding> unsharded = {job::Sharding::none};
    for (const PricedOption& o : op.options) {
      if (!has_roles(o.roles, ask_)) {
        continue;
      }
      for (const job::Sharding sharding : sums_over_ranks(o) ? ask_.shardings : unsharded) {
        add_option(u, op, o, sharding, meaning, node);
      }
    }
    out_.meanings.push_back(std::move(meaning));
    out_.problem.nodes.push_back(std::move(node));
  }

  // True if several ranks hold the same parameters and sum their gradients.
  static bool sums_over_ranks(const PricedOption& o) {
    return o.sync_ranks > 1 && o.parameters > 0;
  }

  void add_option(const Unit& u, const PricedOperator& op, const PricedOption& o,
                  job::Sharding sharding, Meaning& meaning, ChoiceNode& node) {
    const bool full = recomputed_whole(u);
    const bool again = u.layer && (full || (ask_.redo == Redo::selective && op.core));
    const bool several = sums_over_ranks(o);
    double cost = o.forward + o.backward + (again ? o.forward : 0);
    int ranks = 1;
    if (several) {
      ranks = o.sync_ranks;
      cost += cost_.gradient_sum(ask_.view, o, sharding, ask_.micro_batches);
    }
    const auto state =
        lower::state_bytes(plan_, several ? comm_of(sharding) : strategy::DataComm::none, ranks,
                           static_cast<std::int64_t>(o.parameters));
    // A fully recomputed layer keeps its activations only during its backward pass.
    const double sets = full || again ? 1.0 : static_cast<double>(u.times) * ask_.in_flight;
    // Gathered parameters are those of the current layer and of the next one.
    const double gathered =
        several && sharding == job::Sharding::zero3
            ? std::min(2, u.times) * o.parameters * bytes_per_element(plan_.precision.parameters)
            : 0;
    meaning.options.push_back({o.splits, sharding,
                               u.times * (o.kernels_forward + o.kernels_backward),
                               again ? u.times * o.kernels_forward : 0.0});
    node.cost.push_back(cost * u.times);
    node.memory.push_back(
        static_cast<double>(state.parameters + state.gradients + state.optimizer) * u.times +
        o.saved * sets + gathered);
  }

  // Adds the cost of resharding a tensor between two operators, multiplied by `times`.
  void add_edge(int from, int to, bool other_input, double bytes, int times) {
    ChoiceEdge e;
    e.from = from;
    e.to = to;
    const std::vector<Cuts> have =
        kinds_of(out_.meanings[static_cast<std::size_t>(from)], output_of, e.from_kind);
    const std::vector<Cuts> want = kinds_of(out_.meanings[static_cast<std::size_t>(to)],
                                            other_input ? other_input_of : input_of, e.to_kind);
    e.columns = static_cast<int>(want.size());
    e.cost.reserve(have.size() * want.size());
    for (const Cuts& x : have) {
      for (const Cuts& y : want) {
        e.cost.push_back(times * cost_.mesh().reshard(ask_.view, x, y, bytes));
      }
    }
    out_.problem.edges.push_back(std::move(e));
  }

  const strategy::Plan& plan_;
  OperatorCost& cost_;
  const StageAsk& ask_;
  StageGraph out_;
  std::vector<int> entry_, exit_;  // node of each unit's input, and of its result
  double transient_ = 0;
};

}  // namespace

// The units of the embedding, of each kind of layer, and of the head that the stage contains.
StageUnits GraphModel::State::units_of(const StageAsk& ask) {
  StageUnits out;
  const auto add = [&](int which, bool layer) {
    out.units.push_back({price(which, ask.view, ask.micro_batches), layer ? 0 : 1, layer});
    return static_cast<int>(out.units.size()) - 1;
  };
  int before = ask.embedding ? add(kEmbedding, false) : -1;
  std::map<int, int> unit_of_kind;
  for (int l = ask.first_layer; l < ask.first_layer + ask.layers; ++l) {
    const model::LayerKind kind = model::layer_kind(job.model, l);
    const int which = static_cast<int>(std::find(kinds.begin(), kinds.end(), kind) - kinds.begin());
    const auto at = unit_of_kind.find(which);
    const int unit = at != unit_of_kind.end() ? at->second : add(which, true);
    unit_of_kind[which] = unit;
    ++out.units[static_cast<std::size_t>(unit)].times;
    if (before >= 0) {
      ++out.follows[{before, unit}];
    }
    before = unit;
  }
  if (ask.head) {
    const int unit = add(kHead, false);
    if (before >= 0) {
      ++out.follows[{before, unit}];
    }
  }
  return out;
}

StageGraph GraphModel::stage(const StageAsk& ask) {
  const StageUnits units = state_->units_of(ask);
  StageGraphBuilder builder(state_->plan, *state_->cost, ask);
  StageGraph out = builder.build(units);
  out.problem.memory_limit = memory_limit(ask.reserve) - builder.transient() / ask.view.devices();
  return out;
}

std::vector<Analysed> GraphModel::analyse() const {
  std::vector<Analysed> out;
  const auto add = [&](const std::string& unit, int times, const model::OperatorGraph& graph) {
    for (const model::Operator& op : graph.operators) {
      out.push_back({unit, times, op});
    }
  };
  add("embedding", 1, state_->graph_of(kEmbedding, 1));
  const int layers = model::layer_count(state_->job.model);
  for (std::size_t k = 0; k < state_->kinds.size(); ++k) {
    int times = 0;
    for (int l = 0; l < layers; ++l) {
      times += model::layer_kind(state_->job.model, l) == state_->kinds[k] ? 1 : 0;
    }
    add(k == 0 ? "layer" : fmt::format("layer {}", k + 1), times,
        state_->graph_of(static_cast<int>(k), 1));
  }
  add("head", 1, state_->graph_of(kHead, 1));
  return out;
}

}  // namespace stepcast::automatic
