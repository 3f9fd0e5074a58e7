// Gradients of parameters that ranks of other groups hold as well, summed once a step.
#include "../stage/feature_list.h"
#include "../state/states.h"

namespace stepcast::lower {

using program::Category;
using strategy::DataComm;

namespace {

class SharedGradients final : public Feature {
 public:
  void end_of_step(Stage& stage, StepEnd part) override;
};

// Norm weights see only their shard of the sequence: summed over tensor ranks
// (finalize_model_grads.py).
void share_norm_gradients(Stage& stage) {
  const double gradient_width = width(stage.plan.precision.gradients);
  if (stage.plan.shard.sequence_parallel && stage.parameters.replicated > 0 &&
      !stage.plan.tensor_parallel.norm_gradients_apart) {
    tensor_collective(stage, cost::Collective::all_reduce,
                      static_cast<std::int64_t>(static_cast<double>(stage.parameters.replicated) *
                                                gradient_width),
                      Category::other, "norm gradients");
  }
}

// Gradients of parameters that several stages hold.
void share_stage_gradients(Stage& stage) {
  const double wide = width(stage.plan.precision.gradients);
  const int last = stage.plan.grid.pipeline - 1;
  const bool two_ends =
      stage.plan.stages.front().front().embedding && stage.plan.stages.back().back().head;
  if (last > 0 && stage.plan.model.tied_embeddings && two_ends && !stage.plan.vocabulary_split &&
      stage.plan.style.finetune.kind == FinetuneKind::none &&
      (stage.number == 0 || stage.number == last)) {
    const std::int64_t table = stage.plan.vocab / stage.plan.shard.tensor * stage.plan.model.hidden;
    const double bytes = static_cast<double>(table) * wide;
    stage.builder.collective(
        stage.streams.compute, kEmbedding,
        stage.context.passes.book->key(kEmbedding, cost::Collective::all_reduce,
                                       static_cast<std::int64_t>(bytes)),
        Category::other, Category::bubble, label_of(stage, "tied embedding gradients"),
        stage.host.launch);
  } else if (last > 0 && shares_table(stage) &&
             stage.plan.style.finetune.kind ==
                 FinetuneKind::none) {  // both ends are here: one adds into the other
    const double table =
        static_cast<double>(stage.plan.vocab / stage.plan.shard.tensor * stage.plan.model.hidden);
    memory_kernel(stage, 3 * table * wide, cost::MemoryOp::elementwise, Category::other,
                  "tied embedding gradients");
  }
}

// Two replicas of the model run towards each other on the same ranks, each stage on two of them.
void share_replica_gradients(Stage& stage) {
  const bool alone =
      2 * stage.number + 1 == stage.plan.grid.pipeline;  // both replicas' chunks are here
  if (stage.plan.order.placement != schedule::Placement::bidirectional || alone) {
    return;
  }
  // Sharded gradients meet as shards.
  const double elements = stage.plan.data_comm == DataComm::all_reduce
                              ? static_cast<double>(stage.parameters.trained.total())
                              : stepped_elements(stage);
  stage.builder.collective(
      stage.streams.compute, kPair,
      stage.context.passes.book->key(
          kPair, cost::Collective::all_reduce,
          static_cast<std::int64_t>(elements * width(stage.plan.precision.reduce))),
      Category::data, Category::bubble, label_of(stage, "gradients of two replicas"),
      stage.host.launch);
}

void SharedGradients::end_of_step(Stage& stage, StepEnd part) {
  if (part == StepEnd::share) {
    share_norm_gradients(stage);
    share_stage_gradients(stage);
    share_replica_gradients(stage);
  }
}

}  // namespace

std::unique_ptr<Feature> make_shared_gradients() { return std::make_unique<SharedGradients>(); }

}  // namespace stepcast::lower
