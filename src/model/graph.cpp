#include <algorithm>
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/topological_sort.hpp>
#include <iterator>

#include "builder.h"
#include "stepcast/model/experts.h"

namespace stepcast::model {
namespace {

using Dag = boost::adjacency_list<boost::vecS, boost::vecS, boost::bidirectionalS>;

Dag dag_of(const OperatorGraph& graph) {
  return Dag(graph.edges.begin(), graph.edges.end(), graph.operators.size());
}

}  // namespace

std::optional<std::string> graph_fault(const OperatorGraph& graph) {
  const auto count = static_cast<int>(graph.operators.size());
  for (const auto& [from, to] : graph.edges) {
    if (from < 0 || to < 0 || from >= count || to >= count) {
      return "an edge leaves the graph";
    }
  }
  const Dag dag = dag_of(graph);
  std::vector<Dag::vertex_descriptor> order;
  order.reserve(graph.operators.size());
  try {
    boost::topological_sort(dag, std::back_inserter(order));
  } catch (const boost::not_a_dag&) {
    return "the operators form a cycle";
  }
  for (const auto& [from, to] : graph.edges) {
    if (from >= to) {
      return "operators are not in topological order";
    }
  }
  // Execution starts at the first operator and ends at the last; all others must be on a path
  // between them.
  for (Dag::vertex_descriptor v = 0; v < boost::num_vertices(dag); ++v) {
    if (v + 1 < boost::num_vertices(dag) && boost::out_degree(v, dag) == 0) {
      return "no operator reads '" + graph.operators[v].name + "'";
    }
  }
  std::vector<std::int64_t> bytes;  // by storage, whose size must be the same everywhere
  for (const Operator& op : graph.operators) {
    for (const Saved& saved : op.saved) {
      if (saved.storage >= bytes.size()) {
        bytes.resize(saved.storage + 1, 0);
      }
      std::int64_t& known = bytes[saved.storage];
      if (known != 0 && known != saved.bytes.count()) {
        return "'" + op.name + "' keeps another size of '" + saved.name +
               "' than an operator before it";
      }
      known = saved.bytes.count();
    }
  }
  return std::nullopt;
}

Builder::Builder(const job::Model& model_, const Shard& shard_, const Style& style_,
                 LayerKind kind_)
    : model(model_),
      shard(shard_),
      style(style_),
      kind(kind_),
      hidden(model_.hidden),
      routed(routed_width(model_)) {
  sequence = kind.encoder ? encoder_sequence(model, shard.sequence_length) : shard.sequence_length;
  tokens = shard.sequences * sequence / shard.context;
  local_tokens = shard.sequence_parallel ? tokens / shard.tensor : tokens;
  element = static_cast<std::int64_t>(job::bytes_per_element(style.dtype));
  graph.operators.reserve(24);
  graph.edges.reserve(32);
}

Node Builder::add(Operator op, std::initializer_list<Node> from) {
  const auto node = static_cast<Node>(graph.operators.size());
  graph.operators.push_back(std::move(op));
  for (const Node producer : from) {
    if (producer != outside) {
      graph.edges.emplace_back(producer, node);
    }
  }
  return node;
}

OperatorGraph Builder::finish() {
  adapt(*this);
  run_under_autocast(*this);
  const auto fault = graph_fault(graph);
  STEPCAST_CHECK(!fault, *fault);
  return std::move(graph);
}

}  // namespace stepcast::model
