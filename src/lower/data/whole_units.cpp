#include "stepcast/lower/whole_units.h"

#include "data_parallel.h"
#include "parameter_formats.h"

namespace stepcast::lower {
namespace {

// Units are gathered and reduced one by one, each weight a tensor of its own that comes and goes
// with its unit.
bool covered(const strategy::Plan& plan) {
  const strategy::ParameterGather& gather = plan.parameter_gather;
  const strategy::GradientSync& sync = plan.gradient_sync;
  return plan.data_comm == strategy::DataComm::shard_all && gather.by_units &&
         plan.shard_ranks > 1 && (!plan.model.moe || strategy::expert_shards(plan) > 1) &&
         !gather.flat && !gather.by_arrays && !gather.unit_buffers && !gather.experts_outside &&
         !gather.quantised && gather.float8 == Float8Gather::none && gather.partition <= 1 &&
         !gather.partition_stands && gather.persistent_elements == 0 &&
         gather.reuse_elements == 0 && !sync.units_in_buckets && !sync.quantised &&
         !plan.state_layout.gradients_in_parameters && !plan.offload.any() &&
         plan.style.finetune.kind == FinetuneKind::none &&
         plan.order.placement != schedule::Placement::bidirectional;
}

}  // namespace

WholeUnits whole_units(const strategy::Plan& plan) {
  WholeUnits out;
  out.applies = covered(plan);
  const bool each_pass = reduces_each_pass(plan);
  out.drops_after_forward = plan.parameter_gather.reshard_after_forward;
  out.drops_after_backward = each_pass || plan.grid.pipeline == 1;
  out.gradients_wait = !each_pass;
  out.parameter = gathered_width(plan, true);
  out.gradient = width(plan.precision.reduce);
  return out;
}

}  // namespace stepcast::lower
