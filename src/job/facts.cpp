#include "stepcast/job/facts.h"

#include <algorithm>

namespace stepcast::job {

const char* lacking(const Model& model, const std::string& module) {
  if (module == "mla_up_proj" && !model.mla) {
    return "multi-head latent attention";
  }
  if ((module == "moe" || module == "moe_act") && !model.moe) {
    return "experts";
  }
  if (module == "mhc" && !model.hyper_connections) {
    return "hyper-connections";
  }
  if (module == "shared_experts" && (!model.moe || model.moe->shared_experts == 0)) {
    return "shared experts";
  }
  return nullptr;
}

// FlashAttention-2 and -3 and cuDNN stop at 256 (Transformer Engine 2.20.2, pytorch/attention/
// dot_product_attention/utils.py:1032 and :1055; :1121 disables FlashAttention-4 at 512). None is
// known of Splash attention.
int widest_fused_head(const Cluster& cluster) {
  constexpr int kGpus = 256;
  return hardware::vendor_of(cluster.device) == hardware::Vendor::google ? 0 : kGpus;
}

int too_wide_head(const Model& model, const Cluster& cluster) {
  if (model.compressed) {
    return 0;  // its kernels are its own (src/model/compressed.cpp)
  }
  int widest = std::max(model.head_dim, model.v_dim);
  if (model.mla) {
    widest = std::max(model.mla->qk_nope_dim + model.mla->qk_rope_dim, model.mla->v_dim);
  } else if (model.window_heads) {
    widest = std::max({widest, model.window_heads->head_dim, model.window_heads->v_dim});
  }
  const int most = widest_fused_head(cluster);
  return most > 0 && widest > most ? widest : 0;
}

bool cuts_along_sequence(TensorOverlap overlap) {
  return overlap == TensorOverlap::ring || overlap == TensorOverlap::async;
}

bool graphs_step(const Kernels& kernels) {
  return kernels.cuda_graph && kernels.cuda_graph_modules.empty();
}

bool runs_liger(const Job& job, std::string_view option) {
  const auto& options = job.kernels.liger;
  if (std::find(options.begin(), options.end(), option) == options.end()) {
    return false;
  }
  const LigerOperators& has = job.model.modules.liger;
  return option == "rope"       ? has.rope
         : option == "rms_norm" ? has.rms_norm
         : option == "glu"      ? has.glu
                                : has.loss;
}

bool graphs_experts(const Kernels& kernels) {
  const auto& modules = kernels.cuda_graph_modules;
  return kernels.cuda_graph &&
         (modules.empty() || std::find(modules.begin(), modules.end(), "moe") != modules.end());
}

bool divides_experts(const Job& job) {
  return job.model.moe && (job.system.cuts_experts || job.parallelism.expert == 1);
}

bool trains_adapters(const Job& job) {
  const auto tuned = job.workload.finetune.kind;
  return tuned == Finetune::Kind::lora || tuned == Finetune::Kind::qlora;
}

bool quantizes_base(const Finetune& finetune) {
  const bool prompts = finetune.kind == Finetune::Kind::llama_adapter ||
                       finetune.kind == Finetune::Kind::llama_adapter_v2;
  return finetune.kind == Finetune::Kind::qlora || (prompts && finetune.quantized);
}

Tuned tuned_layers(const Job& job) {
  const Finetune& fine = job.workload.finetune;
  if (fine.kind == Finetune::Kind::none) {
    return {};
  }
  const bool prompts =
      fine.kind == Finetune::Kind::llama_adapter || fine.kind == Finetune::Kind::llama_adapter_v2;
  const bool embeds = std::find(fine.modules_to_save.begin(), fine.modules_to_save.end(),
                                "embedding") != fine.modules_to_save.end() ||
                      (quantizes_base(fine) && job.system.quantizer == Quantizer::stable_embedding);
  Tuned out;
  out.stops_gradient = !job.system.input_gradients && !embeds;
  if (prompts) {
    out.prompts_from = fine.start_layer;
  }
  if (out.stops_gradient && fine.kind == Finetune::Kind::llama_adapter) {
    out.untrained = std::min(fine.start_layer, job.model.layers);
  }
  return out;
}

DType trained_format(const Job& job) {
  return trains_adapters(job) && job.system.casts_adapter_inputs ? DType::fp32
                                                                 : job.memory.dtypes.parameters;
}

}  // namespace stepcast::job
