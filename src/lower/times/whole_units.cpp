#include "stepcast/lower/whole_units.h"

#include "../data/data_parallel.h"
#include "../data/parameter_formats.h"
#include "stepcast/lower/data_times.h"

namespace stepcast::lower {
namespace {

// Units are gathered and reduced one by one, each weight a tensor of its own that comes and goes
// with its unit.
bool covered(const strategy::Plan& plan) {
  const strategy::ParameterGather& gather = plan.parameter_gather;
  return plan.data_comm == strategy::DataComm::shard_all && gather.by_units &&
         plan.shard_ranks > 1 && (!plan.model.moe || strategy::expert_shards(plan) > 1) &&
         !gather.flat && !gather.by_arrays && !gather.experts_outside &&
         !plan.gradient_sync.units_in_buckets && !plan.state_layout.gradients_in_parameters &&
         travels_plainly(plan);
}

}  // namespace

WholeUnits whole_units(const strategy::Plan& plan) {
  WholeUnits out;
  out.applies = covered(plan);
  const bool each_pass = reduces_each_pass(plan);
  out.drops_after_forward = plan.parameter_gather.reshard_after_forward;
  out.drops_after_backward = each_pass || plan.grid.pipeline == 1;
  out.gradients_wait = !each_pass;
  out.gathers_next = plan.parameter_gather.overlaps && plan.parameter_gather.unit_layers <= 1 &&
                     plan.parameter_gather.backward_prefetch == Prefetch::explicit_;
  out.parameter = gathered_width(plan, true);
  out.gradient = width(plan.precision.reduce);
  // Those that have waited count as waiting.
  out.reducing = width(plan.precision.reduce) + (each_pass ? width(plan.style.dtype) : 0);
  return out;
}

}  // namespace stepcast::lower
