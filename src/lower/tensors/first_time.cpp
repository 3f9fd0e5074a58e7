#include "first_time.h"

#include <utility>

namespace stepcast::lower {

void add_first_time(const PassContext& context, model::LayerKind kind, const Redone& redone,
                    UnitMemory& memory) {
  if (!context.plan->style.casts_adapters_once) {
    return;
  }
  strategy::Plan plan = *context.plan;
  plan.style.casts_adapter_inputs = true;
  PassContext first = context;
  first.plan = &plan;
  const model::OperatorGraph graph = model::build_layer(plan.model, kind, plan.shard, plan.style);
  const UnitMemory other = build_passes(graph, first, redone).memory;
  for (TensorList UnitMemory::*const list :
       {&UnitMemory::saved, &UnitMemory::kept, &UnitMemory::weight_inputs,
        &UnitMemory::output_gradients, &UnitMemory::unkept, &UnitMemory::forward,
        &UnitMemory::backward, &UnitMemory::input_grad, &UnitMemory::weight_grad}) {
    (memory.*list).first_time = {other.*list};
  }
}

}  // namespace stepcast::lower
