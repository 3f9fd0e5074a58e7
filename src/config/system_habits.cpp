#include "system_habits.h"

#include <utility>

namespace stepcast::config {
namespace {

// Megatron-LM is what job::Habits has by default; every other family is stated by its differences.

// PyTorch's DistributedDataParallel, against Megatron-LM.
constexpr job::Habits kDdp = {
    .packs_projections = false,
    .adds_linear_bias_apart = false,
    .adds_expert_bias_apart = false,
    .sends_probabilities = false,
    .widens_scores_first = false,
    .vocab_divisor = 1,
    .eager_loss = EagerLoss::as_built,
    .input_gradient_first = false,
    .layer_holds_normed_input = false,
    .gradients_stand = false,
    .hands_on_weight_gradients = false,
    .bucket_storage = BucketStorage::standing,
    .sends_behind_backward = false,
    .gradient_format = GradientFormat::own,
    .states_follow_parameters = true,
    .partition = StatePartition::by_array,
    .owns_whole_matrices = false,
    .fp32_gradients_stand = false,
    .orthogonalises_in_fp32 = false,
    .norm_has_its_group = false,
    .gradients_follow_optimizer = true,
    .waits_behind_batched_p2p = false,
    .keeps_last_received = false,
    .keeps_scores_buffer = false,
};

// PyTorch's fully_shard, against DistributedDataParallel.
constexpr job::Habits fsdp2() {
  job::Habits h = kDdp;
  h.casts_operands_twice = true;
  h.eager_loss = EagerLoss::shards_logits;
  h.saves_gathered_inputs = true;
  h.bucket_storage = BucketStorage::as_made;
  h.gradient_format = GradientFormat::reduced_as_accumulated;
  h.zero2_shards_parameters = true;
  h.keeps_whole_gradients = true;
  h.reshards_before_reduction = true;
  h.makes_sharded_gradients = true;
  h.partition = StatePartition::by_row;
  h.host_gradient_sum = HostGradientSum::on_host;
  h.norm_on_host = true;
  h.checkpoint_frees_input = true;
  return h;
}

// DeepSpeed, against DistributedDataParallel.
constexpr job::Habits deepspeed() {
  job::Habits h = kDdp;
  h.eager_loss = EagerLoss::narrow_under_fp16;
  h.gradients_stand = true;
  h.frees_narrow_gradients = true;
  h.bucket_storage = BucketStorage::flat;
  h.always_in_buckets = true;
  h.adds_wide_after_pass = true;
  h.gradient_format = GradientFormat::parameters;
  h.states_follow_parameters = false;
  h.ends_join_root = false;
  h.tiles_linears = true;
  h.partition = StatePartition::flat;
  h.host_gradient_sum = HostGradientSum::on_device;
  return h;
}

// InternEvo's HybridZeroOptimizer (0.5.2, solver/optimizer/hybrid_zero_optim.py), against
// DistributedDataParallel: a step sends in buckets what was not sent beside the backward pass
// (:666), flattens a rank's gradients (:754), gives them up (:755) and makes the flat ones fp32
// (:759).
constexpr job::Habits internevo() {
  job::Habits h = kDdp;
  h.bucket_storage = BucketStorage::as_made;
  h.always_in_buckets = true;
  h.sends_behind_backward = true;
  h.gradient_format = GradientFormat::parameters;
  h.states_follow_parameters = false;
  h.partition = StatePartition::flat;
  h.flattens_before_widening = true;
  h.waits_behind_batched_p2p = true;
  return h;
}

constexpr std::pair<const char*, job::Habits> kFamilies[] = {
    {"megatron", {}},           {"ddp", kDdp}, {"fsdp2", fsdp2()}, {"deepspeed", deepspeed()},
    {"internevo", internevo()},
};

}  // namespace

std::vector<std::string> family_names() {
  std::vector<std::string> out;
  for (const auto& [name, habits] : kFamilies) {
    out.emplace_back(name);
  }
  return out;
}

job::Habits habits_of(const std::string& family) {
  for (const auto& [name, habits] : kFamilies) {
    if (name == family) {
      return habits;
    }
  }
  return {};
}

}  // namespace stepcast::config
