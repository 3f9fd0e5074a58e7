#include "order.h"

#include "stepcast/model/operators.h"

namespace stepcast::forecast {

void order_by_forecast_times(strategy::Plan& plan, const cluster::Topology& topology,
                             const lower::Prices& prices) {
  if (!strategy::orders_by_times(plan)) {
    return;
  }
  const auto units = lower::unit_times(plan, topology, prices, topology.device(0));
  Time forward = units.embedding.forward + units.head.forward;
  Time backward = units.embedding.backward + units.head.backward;
  Time weight = units.embedding.weight_grad + units.head.weight_grad;
  for (int layer = 0; layer < model::layer_count(plan.model); ++layer) {
    const lower::UnitTime& unit = units.layer(model::layer_kind(plan.model, layer));
    forward += unit.forward;
    backward += unit.backward;
    backward += plan.recompute.kind == RecomputeKind::full ? unit.again : Time(0);
    weight += unit.weight_grad;
  }
  const double ranks = plan.grid.pipeline;
  const auto& shard = plan.shard;
  const double message = static_cast<double>(shard.sequences * shard.sequence_length *
                                             plan.model.hidden / shard.context) *
                         bytes_per_element(plan.style.dtype) /
                         (shard.sequence_parallel ? shard.tensor : 1);
  cluster::Coordinates next;
  next.pipeline = 1;
  const auto hop = prices.collectives->point_to_point(
      Bytes(static_cast<std::int64_t>(message)),
      topology.path(cluster::rank_at(plan.grid, {}), cluster::rank_at(plan.grid, next)));
  schedule::Times times;
  times.forward = to_seconds(forward) / ranks;
  times.input_grad = to_seconds(backward - weight) / ranks;
  times.weight_grad = to_seconds(weight) / ranks;
  times.comm = to_seconds(hop.latency + hop.fluid);
  // Where no order exists for these times, the plan keeps the one for equal times.
  static_cast<void>(strategy::order_by_times(plan, times));
}

}  // namespace stepcast::forecast
