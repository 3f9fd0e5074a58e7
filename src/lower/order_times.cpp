#include "order_times.h"

#include <algorithm>

#include "stepcast/base/diagnostics.h"

namespace stepcast::lower {
namespace {

struct Work {
  double forward = 0;
  double input_grad = 0;
  double weight_grad = 0;
};

Work work_of(const model::OperatorGraph& graph) {
  Work w;
  for (const model::Operator& op : graph.operators) {
    w.forward += op.forward.count();
    w.input_grad += op.input_grad.count();
    w.weight_grad += op.weight_grad.count();
  }
  return w;
}

}  // namespace

OrderTimes order_times(const strategy::Plan& plan,
                       const std::map<model::LayerKind, model::OperatorGraph>& layers,
                       const model::OperatorGraph& head) {
  const int p = plan.grid.pipeline;
  Work all;
  const int count = model::layer_count(plan.job.model);
  for (int layer = 0; layer < count; ++layer) {
    const Work w = work_of(layers.at(model::layer_kind(plan.job.model, layer)));
    all.forward += w.forward;
    all.input_grad += w.input_grad;
    all.weight_grad += w.weight_grad;
  }
  schedule::Times times;
  const double unit = std::max(1.0, all.forward);
  times.forward = all.forward / unit;
  times.input_grad = all.input_grad / unit;
  times.weight_grad = all.weight_grad / unit;
  const Work ends = work_of(head);
  const bool early = plan.order.barriers == 1;  // the input gradient belongs to S
  times.vocabulary = (ends.forward + (early ? ends.input_grad : 0)) / unit;
  times.vocabulary_grad = (ends.weight_grad + (early ? 0 : ends.input_grad)) / unit;
  const schedule::Request request = schedule::request_of(plan.order);
  auto result = schedule::play(plan.order, request, times);
  const auto* played = std::get_if<schedule::Played>(&result);
  STEPCAST_CHECK(played != nullptr, "a plan's order deadlocks");
  OrderTimes out;
  out.start.resize(p);
  out.end.resize(p);
  for (const schedule::Played::Task& task : played->tasks) {  // of a rank: in its own order
    out.start[task.rank].push_back(task.start);
    out.end[task.rank].push_back(task.end);
  }
  out.period = (times.forward + times.input_grad + times.weight_grad) +
               (plan.order.barriers > 0 ? times.vocabulary + times.vocabulary_grad : 0);
  return out;
}

}  // namespace stepcast::lower
