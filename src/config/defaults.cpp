#include "defaults.h"

#include "hidden_sizes.h"
#include "named.h"
#include "stepcast/job/facts.h"
#include "stepcast/text/document.h"

namespace stepcast::config {

bool by_user(const Loaded& loaded, const std::string& key) {
  const auto found = loaded.origins.find(key);
  return found != loaded.origins.end() && !is_preset(found->second.file);
}

bool by_job(const Loaded& loaded, const std::string& key) {
  const std::string systems = (text::data_directory() / "configs" / "systems").string() + "/";
  for (auto at = loaded.origins.lower_bound(key);
       at != loaded.origins.end() && at->first.starts_with(key); ++at) {
    const bool below = at->first.size() == key.size() || at->first[key.size()] == '.';
    if (below && !at->second.file.starts_with(systems)) {
      return true;
    }
  }
  return false;
}

namespace {

// A system with sharded units states the format in which their gradients are reduced. Without such
// units it is DDP, which reduces gradients in the format in which they are accumulated, in buckets
// of its own.
void reduce_whole_gradients(job::Job& j) {
  const auto sharding = j.parallelism.sharding;
  const bool units = sharding == job::Sharding::zero3 ||
                     (sharding == job::Sharding::zero2 && !j.system.reduce_to_owner);
  if (j.system.habits.gradient_format == GradientFormat::reduced_as_accumulated && !units) {
    j.memory.dtypes.reduce = j.memory.dtypes.gradients;
    j.system.habits.bucket_storage = BucketStorage::standing;
  }
}

// A list of recomputed modules is meant for those that a model has.
void leave_out_missing_modules(job::Job& j) {
  std::erase_if(j.memory.recompute.modules, [&](const std::string& module) {
    return job::lacking(j.model, module) != nullptr;
  });
}

// Recipes switch tensor overlap on beside sequence parallelism (nemo-toolkit 2.4.0
// recipes/llama3_70b.py:232).
void overlap_along_sequence_alone(job::Parallelism& p) {
  if (job::cuts_along_sequence(p.overlap.tensor) && !p.sequence_parallel) {
    p.overlap.tensor = job::TensorOverlap::none;
  }
}

// A compute capability.
constexpr double kHopper = 9.0;

// Transformer Engine prefers cuDNN's attention to FlashAttention from Hopper on; before, it takes
// FlashAttention-2 for what that runs: heads of one width, an ordinary softmax, no bias on scores,
// 16 bits (2.8.0 pytorch/attention/dot_product_attention/utils.py:1053, :535, :630, :853, :458).
bool prefers_flash(const job::Job& j) {
  const job::Model& m = j.model;
  const double have = j.cluster.device.compute_capability;
  return j.system.transformer_engine && have > 0 && have < kHopper && !m.mla && !m.sinks &&
         (m.v_dim == 0 || m.v_dim == m.head_dim) && m.positions != job::Positions::relative &&
         !j.kernels.fp8_attention;
}

// Frameworks take the best kernel that a device has.
void attention_of_device(job::Job& j) {
  using job::AttentionKernel;
  const double have = j.cluster.device.compute_capability;
  const auto vendor = hardware::vendor_of(j.cluster.device);
  const bool foreign = vendor == hardware::Vendor::amd || vendor == hardware::Vendor::google;
  AttentionKernel& kernel = j.kernels.attention;
  const auto lacks = [&] { return have > 0 && have < hardware::least_compute_capability(kernel); };
  const bool left_out = j.model.attention_softcap && j.system.ignores_softcap;
  if (j.model.modules.eager_attention && j.system.transformers_modules &&
      j.system.scaled_dot_product && !left_out) {
    kernel = AttentionKernel::unfused;
    return;
  }
  if (kernel == AttentionKernel::cudnn && prefers_flash(j)) {
    kernel = AttentionKernel::flash2;
  }
  if (kernel == AttentionKernel::flash3 && (foreign || lacks())) {
    kernel = AttentionKernel::flash2;
  }
  if (kernel == AttentionKernel::flash2 && j.system.scaled_dot_product &&
      j.system.prefers_cudnn_attention && hardware::prefers_cudnn_attention(j.cluster.device) &&
      j.model.dropout == 0) {
    kernel = AttentionKernel::cudnn;
  }
  if (lacks() && j.system.scaled_dot_product) {
    kernel = AttentionKernel::efficient;
  }
  if (lacks()) {
    kernel = AttentionKernel::unfused;
  }
}

// What transformers' modules of the model do, where the job does not state it.
void habits_of_modules(Loaded& loaded) {
  const job::Modules& has = loaded.job.model.modules;
  job::System& system = loaded.job.system;
  const auto take = [&](const char* key, bool habit, bool& field) {
    field = field || (habit && !by_job(loaded, key));
  };
  take("system.packed_qkv", has.packed_qkv, system.packed_qkv);
  take("system.copied_qkv", has.copied_qkv, system.copied_qkv);
  take("system.packed_gated_mlp", has.packed_gated_mlp, system.packed_gated_mlp);
  take("system.joined_rotary", has.joined_rotary, system.joined_rotary);
  take("system.wide_norm", has.wide_norm, system.wide_norm);
  take("moe.every_token", has.every_token, loaded.job.moe.every_token);
  if (has.masked_attention && !by_job(loaded, "system.attention_masks")) {
    system.attention_masks = AttentionMasks::all;
  }
}

// TRL's fused head keeps its place beside Liger's operators (1.16.0, trainer/sft_trainer.py:1127).
void loss_of_liger(job::Job& j) {
  if (j.kernels.loss == LossKernel::tiled_linear) {
    return;
  }
  const bool linear = job::runs_liger(j, "fused_linear_cross_entropy");
  if (linear && j.model.modules.liger.linear_loss) {
    j.kernels.loss = LossKernel::fused_linear;
  } else if (linear || job::runs_liger(j, "cross_entropy")) {
    j.kernels.loss = LossKernel::fused;
  }
}

// What a job that leaves these keys out may well do otherwise than its training system's default.
void assume_defaults(Loaded& loaded) {
  job::Job& j = loaded.job;
  const auto open = [&](const char* key) {
    if (!by_job(loaded, key)) {
      j.assumed.emplace_back(key);
    }
  };
  open("system");
  open("kernels.attention");
  open("memory.recompute");
  if (j.model.moe && j.parallelism.expert > 1) {
    open("moe.dispatcher");
  }
}

}  // namespace

void fit_defaults(Loaded& loaded) {
  job::Job& j = loaded.job;
  if (!by_user(loaded, "memory.dtypes.reduce")) {
    reduce_whole_gradients(j);
  }
  if (!by_job(loaded, "memory.recompute")) {
    leave_out_missing_modules(j);
  }
  if (!by_job(loaded, "parallelism.overlap")) {
    overlap_along_sequence_alone(j.parallelism);
  }
  if (j.system.transformers_modules) {
    habits_of_modules(loaded);
  }
  if (!by_job(loaded, "kernels.attention")) {
    attention_of_device(j);
  }
  if (!by_job(loaded, "kernels.loss")) {
    loss_of_liger(j);
  }
  fill_auto_sizes(j);
  j.model.tuned = job::tuned_layers(j);
  if (j.system.unties_embeddings) {
    j.model.tied_embeddings = false;
    loaded.origins.erase("model.tied_embeddings");  // of the model, which does not decide it
  }
  if (loaded.origins.count("assumed") == 0) {
    assume_defaults(loaded);
  }
}

}  // namespace stepcast::config
