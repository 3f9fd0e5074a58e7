#include "graph_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "operator_cost.h"
#include "stepcast/forecast/forecaster.h"
#include "stepcast/lower/lower.h"

namespace stepcast::search {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

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

// What an edge sees of an operator's options: the cuts of the tensor that they make or take, each
// once, and which of them each option has.
std::vector<Cuts> kinds_of(const Meaning& m, Cut (*of)(Split), std::vector<int>& kind) {
  std::vector<Cuts> out;
  std::array<int, kCuts * kCuts> known;
  known.fill(-1);
  kind.reserve(m.options.size());
  for (const Option& o : m.options) {
    const Cuts cuts = {of(o.splits[0]), of(o.splits[1])};
    int& at = known[static_cast<std::size_t>(cuts[0]) * kCuts + static_cast<std::size_t>(cuts[1])];
    if (at < 0) {
      at = static_cast<int>(out.size());
      out.push_back(cuts);
    }
    kind.push_back(at);
  }
  return out;
}

// Part of a stage that repeats: so many layers of one kind, one after the other.
struct Unit {
  std::shared_ptr<const PricedGraph> graph;
  int times = 1;
  bool layer = false;
};

}  // namespace

struct GraphModel::State {
  job::Job job;
  strategy::Plan plan;  // its policies alone
  Allowed allowed;
  std::unique_ptr<OperatorCost> cost;
  std::map<std::tuple<int, View, int>, std::shared_ptr<const PricedGraph>> priced;
  std::vector<model::LayerKind> kinds;

  // -1: embedding; -2: head; else a kind of layer.
  model::OperatorGraph graph_of(int which, std::int64_t samples) const {
    model::Shard shard;
    shard.sequences = samples;
    shard.sequence_length = job.workload.sequence_length;
    const model::Style style = model::style_of(job);
    return which == -1   ? model::build_embedding(job.model, shard, style)
           : which == -2 ? model::build_head(job.model, shard, style)
                         : model::build_layer(job.model, kinds[static_cast<std::size_t>(which)],
                                              shard, style);
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
};

GraphModel::GraphModel(const job::Job& job, const std::filesystem::path& data_directory,
                       Allowed allowed)
    : state_(std::make_unique<State>()) {
  state_->job = job;
  // Padded so that vocabulary is cut as widely as a node of eight.
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

StageGraph GraphModel::stage(const StageAsk& ask) {
  State& s = *state_;
  std::vector<Unit> units;
  if (ask.embedding) {
    units.push_back({s.price(-1, ask.view, ask.micro_batches), 1, false});
  }
  std::map<int, int> unit_of_kind;
  std::map<std::pair<int, int>, int> follows;  // how often one unit comes right behind another
  int before = ask.embedding ? 0 : -1;
  for (int l = ask.first_layer; l < ask.first_layer + ask.layers; ++l) {
    const model::LayerKind kind = model::layer_kind(s.job.model, l);
    const int which =
        static_cast<int>(std::find(s.kinds.begin(), s.kinds.end(), kind) - s.kinds.begin());
    const auto [at, fresh] = unit_of_kind.try_emplace(which, static_cast<int>(units.size()));
    if (fresh) {
      units.push_back({s.price(which, ask.view, ask.micro_batches), 0, true});
    }
    ++units[static_cast<std::size_t>(at->second)].times;
    if (before >= 0) {
      ++follows[{before, at->second}];
    }
    before = at->second;
  }
  if (ask.head) {
    units.push_back({s.price(-2, ask.view, ask.micro_batches), 1, false});
    if (before >= 0) {
      ++follows[{before, static_cast<int>(units.size()) - 1}];
    }
  }

  StageGraph out;
  std::vector<int> entry, exit;  // node of each unit's input; of its result
  double transient = 0;          // of what runs at one time
  const auto edge = [&](int from, int to, bool other_input, double bytes, int times) {
    const auto f = static_cast<std::size_t>(from);
    const auto t = static_cast<std::size_t>(to);
    ChoiceEdge e;
    e.from = from;
    e.to = to;
    const std::vector<Cuts> have = kinds_of(out.meanings[f], output_of, e.from_kind);
    const std::vector<Cuts> want =
        kinds_of(out.meanings[t], other_input ? other_input_of : input_of, e.to_kind);
    e.columns = static_cast<int>(want.size());
    e.cost.reserve(have.size() * want.size());
    for (const Cuts& x : have) {
      for (const Cuts& y : want) {
        e.cost.push_back(times * s.cost->mesh().reshard(ask.view, x, y, bytes));
      }
    }
    out.problem.edges.push_back(std::move(e));
  };

  for (const Unit& u : units) {
    const int base = static_cast<int>(out.meanings.size());
    // The stream that enters: a choice of its own, free but for what it keeps.
    Meaning stream{"input", model::OpKind::elementwise, 0, 0, {}};
    ChoiceNode kept;
    const bool full = u.layer && ask.redo == Redo::full;
    for (const auto& way : u.graph->streams) {
      if (!has_roles(way.roles, ask)) {
        continue;
      }
      stream.options.push_back({way.splits, job::Sharding::none, 0, 0});
      kept.cost.push_back(0);
      kept.memory.push_back(full ? u.graph->stream_bytes * way.share * u.times * ask.in_flight : 0);
    }
    out.meanings.push_back(std::move(stream));
    out.problem.nodes.push_back(std::move(kept));
    for (const PricedOperator& op : u.graph->operators) {
      Meaning m{op.name, op.kind, op.flops * u.times, op.parameters * u.times, {}};
      ChoiceNode n;
      const bool again = u.layer && (full || (ask.redo == Redo::selective && op.core));
      transient = std::max(transient, op.transient);
      for (const PricedOption& o : op.options) {
        if (!has_roles(o.roles, ask)) {
          continue;
        }
        const bool several = o.sync_ranks > 1 && o.parameters > 0;
        for (const job::Sharding sharding :
             several ? ask.shardings : std::vector<job::Sharding>{job::Sharding::none}) {
          double cost = o.forward + o.backward + (again ? o.forward : 0);
          int ranks = 1;
          if (several) {
            ranks = o.sync_ranks;
            cost += s.cost->gradient_sum(ask.view, o, sharding, ask.micro_batches);
          }
          const auto state =
              lower::state_bytes(s.plan, several ? comm_of(sharding) : strategy::DataComm::none,
                                 ranks, static_cast<std::int64_t>(o.parameters));
          // A layer that is recomputed whole keeps its activations for the moment of its backward.
          const double sets = full || again ? 1.0 : static_cast<double>(u.times) * ask.in_flight;
          // Parameters that are gathered: of the layer at work, and of the next one.
          const double gathered = several && sharding == job::Sharding::zero3
                                      ? std::min(2, u.times) * o.parameters *
                                            job::bytes_per_element(s.job.memory.dtypes.parameters)
                                      : 0;
          m.options.push_back({o.splits, sharding,
                               u.times * (o.kernels_forward + o.kernels_backward),
                               again ? u.times * o.kernels_forward : 0.0});
          n.cost.push_back(cost * u.times);
          n.memory.push_back(
              static_cast<double>(state.parameters + state.gradients + state.optimizer) * u.times +
              o.saved * sets + gathered);
        }
      }
      out.meanings.push_back(std::move(m));
      out.problem.nodes.push_back(std::move(n));
    }
    for (const PricedEdge& e : u.graph->edges) {
      edge(base + 1 + e.from, base + 1 + e.to, e.other_input, e.bytes, u.times);
    }
    entry.push_back(base);
    exit.push_back(static_cast<int>(out.meanings.size()) - 1);
  }
  for (const auto& [pair, times] : follows) {
    edge(exit[static_cast<std::size_t>(pair.first)], entry[static_cast<std::size_t>(pair.second)],
         false, units[static_cast<std::size_t>(pair.second)].graph->stream_bytes, times);
  }
  out.problem.memory_limit = memory_limit(ask.reserve) - transient / ask.view.devices();
  return out;
}

std::vector<Analysed> GraphModel::analyse() const {
  std::vector<Analysed> out;
  const auto add = [&](const std::string& unit, int times, const model::OperatorGraph& graph) {
    for (const model::Operator& op : graph.operators) {
      out.push_back({unit, times, op});
    }
  };
  add("embedding", 1, state_->graph_of(-1, 1));
  const int layers = model::layer_count(state_->job.model);
  for (std::size_t k = 0; k < state_->kinds.size(); ++k) {
    int times = 0;
    for (int l = 0; l < layers; ++l) {
      times += model::layer_kind(state_->job.model, l) == state_->kinds[k] ? 1 : 0;
    }
    add(k == 0 ? "layer" : fmt::format("layer {}", k + 1), times,
        state_->graph_of(static_cast<int>(k), 1));
  }
  add("head", 1, state_->graph_of(-2, 1));
  return out;
}

}  // namespace stepcast::search
