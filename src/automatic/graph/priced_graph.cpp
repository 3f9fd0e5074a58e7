// OperatorCost::price: lists every way to split the operators of a graph, with its price.
#include <algorithm>
#include <cstdint>
#include <set>

#include "operator_cost.h"

namespace stepcast::automatic {
namespace {

using model::Operator;
using model::OpKind;

// Bytes that live only while an operator runs: its result or the gradient of its input, and its
// workspace.
double transient_of(const Operator& op) {
  const auto result = static_cast<double>(op.forward_output.count());
  const double forward = result + static_cast<double>(op.forward_temporary.count());
  const double input = op.input_gradient ? static_cast<double>(op.input_gradient->count()) : result;
  const double own = op.gradient == Operator::Gradient::own ? input : 0;
  return std::max(forward, result + own + static_cast<double>(op.backward_temporary.count()));
}

}  // namespace

PricedGraph OperatorCost::price(const model::OperatorGraph& graph, const View& view,
                                std::int64_t samples, const Allowed& allowed) {
  PricedGraph out;
  const std::int64_t tokens = job_.workload.sequence_length;
  out.stream_bytes = job::bytes_per_element(style_.dtype) * static_cast<double>(samples * tokens) *
                     static_cast<double>(job_.model.hidden);
  Operator stream;
  stream.kind = OpKind::norm;  // stands for any operator that cuts only tokens
  const auto each = [&](const Operator& op, auto&& visit) {
    const std::vector<Split> ways = splits_of(op);
    for (const Split a : ways) {
      for (const Split b : ways) {
        const Splits splits = {a, b};
        if (can_split(op, splits, view.ranks, samples, tokens)) {
          visit(splits);
        }
      }
    }
  };
  each(stream, [&](const Splits& s) {
    out.streams.push_back(
        {s, share_of(view, cuts_of(s, input_of)), {roles_of_stream(s[0]), roles_of_stream(s[1])}});
  });
  std::set<std::uint32_t> stored;
  for (const Operator& op : graph.operators) {
    PricedOperator p{op.name,
                     op.kind,
                     op.module == model::Module::core_attention,
                     op.forward.count(),
                     static_cast<double>(op.parameters),
                     transient_of(op),
                     {}};
    double saved = 0;  // bytes of tensors that no operator before it saves
    for (const auto& t : op.saved) {
      saved += stored.insert(t.storage).second ? static_cast<double>(t.bytes.count()) : 0;
    }
    each(op, [&](const Splits& splits) {
      if (allowed && !allowed(op, splits, view)) {
        return;
      }
      PricedOption o;
      o.splits = splits;
      const Timed k = kernels(op, view, splits);
      const Timed c = inside(op, view, splits);
      o.forward = k.forward + c.forward;
      o.backward = k.backward + c.backward;
      o.kernels_forward = k.forward;
      o.kernels_backward = k.backward;
      o.roles = {roles_of(op, splits[0]), roles_of(op, splits[1])};
      o.parameters = p.parameters;
      for (std::size_t a = 0; a < 2; ++a) {
        o.parameters /= divides_parameters(splits[a]) ||
                                (op.kind != OpKind::gemm && splits[a] == Split::feature)
                            ? view.ranks[a]
                            : 1;
        if (sums_gradients(splits[a]) && view.ranks[a] > 1) {
          o.sync_axes |= 1 << a;
          o.sync_ranks *= view.ranks[a];
        }
      }
      o.saved = saved * share_of(view, cuts_of(splits, input_of));
      p.options.push_back(o);
    });
    out.operators.push_back(std::move(p));
  }
  std::vector<int> inputs(graph.operators.size(), 0);
  for (const auto& [from, to] : graph.edges) {
    const auto bytes =
        static_cast<double>(graph.operators[static_cast<std::size_t>(from)].forward_output.count());
    out.edges.push_back({from, to, inputs[static_cast<std::size_t>(to)]++ > 0, bytes});
  }
  for (std::size_t i = 0; i < graph.operators.size(); ++i) {
    // An operator without another input reads the stream, and so does a sum with one other input.
    const int expected = graph.operators[i].kind == OpKind::residual ? 2 : 1;
    if (inputs[i] < expected) {
      out.edges.push_back({-1, static_cast<int>(i), inputs[i] > 0, out.stream_bytes});
    }
  }
  return out;
}

}  // namespace stepcast::automatic
