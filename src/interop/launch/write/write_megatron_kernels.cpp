// Number formats, kernels, recomputation and optimizer as Megatron-LM's arguments.
#include <fmt/ranges.h>

#include "write_megatron.h"

namespace stepcast::interop::launch {
namespace {

void precision(const Request& r, Arguments& out) {
  using job::DType;
  const DType in = r.job.workload.precision;
  if (in == DType::fp16) {
    out.flag("fp16");
  } else if (in != DType::fp32 && in != DType::tf32) {
    out.flag("bf16");
  }
  if (in == DType::fp8 || in == DType::fp8_block || in == DType::mxfp8) {
    out.value("fp8-format", in == DType::fp8 ? "hybrid" : "e4m3");
    if (in != DType::fp8) {
      out.value("fp8-recipe", in == DType::mxfp8 ? "mxfp8" : "blockwise");
    }
  } else if (in == DType::nvfp4) {
    out.value("fp4-format", "e2m1");
  }
  const job::Model& m = r.job.model;
  if (job::bytes_per_element(in) < 2 && m.bf16_start_layers + m.bf16_end_layers > 0) {
    if (in == DType::fp8) {
      out.value("fp8-recipe", "tensorwise");  // delayed scaling has no such layers
    }
    out.flag("first-last-layers-bf16");
    out.value("num-layers-at-start-in-bf16", m.bf16_start_layers);
    out.value("num-layers-at-end-in-bf16", m.bf16_end_layers);
  }
}

void fsdp_formats(const Request& r, Arguments& out) {
  const job::StateDTypes& d = r.job.memory.dtypes;
  const bool gradients = r.differs("memory.dtypes.gradients");
  if (gradients) {
    out.value("megatron-fsdp-main-grads-dtype", job::to_string(d.gradients));
  }
  if (gradients ? d.reduce != d.gradients : r.differs("memory.dtypes.reduce")) {
    out.value("megatron-fsdp-grad-comm-dtype", job::to_string(d.reduce));
  }
  if (r.differs("memory.dtypes.master")) {
    out.value("megatron-fsdp-main-params-dtype", d.master ? job::to_string(*d.master) : "auto");
  }
}

void states(const Request& r, Arguments& out) {
  const job::StateDTypes& d = r.job.memory.dtypes;
  out.flag_if(d.parameters == job::DType::fp8, "fp8-param-gather");
  out.flag_if(d.parameters == job::DType::nvfp4, "fp4-param-gather");
  const bool both = r.differs("memory.dtypes.gradients") || r.differs("memory.dtypes.reduce");
  if (r.job.system.unit_buffers) {
    fsdp_formats(r, out);
  } else if (both && d.gradients == d.reduce) {
    if (d.gradients == job::DType::bf16) {
      out.flag("grad-reduce-in-bf16");
    } else if (d.gradients == job::DType::fp32) {
      out.flag("accumulate-allreduce-grads-in-fp32");
    }
  } else if (r.differs("memory.dtypes.gradients")) {
    out.value("main-grads-dtype", job::to_string(d.gradients));
  }
  const bool master =
      r.differs("memory.dtypes.master") && d.master.has_value() && !r.job.system.unit_buffers;
  if (r.differs("memory.dtypes.moments") || master) {
    out.flag("use-precision-aware-optimizer");
    out.value("exp-avg-dtype", job::to_string(d.moments));
    out.value("exp-avg-sq-dtype", job::to_string(d.moments));
    if (master) {
      out.value("main-params-dtype", job::to_string(*d.master));
    }
  } else {
    out.flag_if(r.job.system.precision_aware_optimizer.value_or(false),
                "use-precision-aware-optimizer");
  }
  using job::Optimizer;
  if (r.job.memory.optimizer == Optimizer::sgd) {
    out.value("optimizer", "sgd");
    out.value("sgd-momentum", r.job.memory.momentum);
  } else if (r.job.memory.optimizer == Optimizer::muon) {
    const bool sharded = r.job.parallelism.sharding == job::Sharding::zero1;
    out.value("optimizer", sharded ? "dist_muon" : "muon");
  }
}

void attention(const Request& r, Arguments& out) {
  using Kernel = job::AttentionKernel;
  const Kernel kernel = r.job.kernels.attention;
  if (!r.differs("kernels.attention")) {
    return;
  }
  if (kernel == Kernel::unfused) {
    out.value("attention-backend", "unfused");
  } else if (kernel == Kernel::cudnn) {
    out.value("attention-backend", "fused");
  } else {
    out.value("attention-backend", "flash");
  }
}

void kernels(const Request& r, Arguments& out) {
  attention(r, out);
  const job::System& s = r.job.system;
  const job::LossKernel loss = r.job.kernels.loss;
  out.flag_if(loss == job::LossKernel::fused || loss == job::LossKernel::vocab_parallel_fused,
              "cross-entropy-loss-fusion");
  if (loss == job::LossKernel::fused) {
    out.value("cross-entropy-fusion-impl", "te");
  }
  if (r.job.kernels.cuda_graph) {
    // As megatron-core 0.16.1 reads them; from 0.19 on the second one is cuda-graph-modules, and
    // the first reads full_iteration.
    const auto& modules = r.job.kernels.cuda_graph_modules;
    out.value("cuda-graph-impl", modules.empty() ? "local" : "transformer_engine");
    out.value("cuda-graph-scope",
              modules.empty() ? "full_iteration" : fmt::format("{}", fmt::join(modules, " ")));
  }
  if (r.differs("system.transformer_engine")) {
    out.value("transformer-impl", s.transformer_engine ? "transformer_engine" : "local");
  }
  // Flags that disable a fusion, needed only where the preset has it.
  const auto without = [&](bool fused, const char* key, const char* flag) {
    out.flag_if(!fused && r.differs(key), flag);
  };
  without(s.fused_softmax, "system.fused_softmax", "no-masked-softmax-fusion");
  without(s.fused_bias_activation, "system.fused_bias_activation",
          r.job.model.gated_mlp ? "no-bias-swiglu-fusion" : "no-bias-gelu-fusion");
  without(s.fused_bias_dropout_add, "system.fused_bias_dropout_add", "no-bias-dropout-fusion");
  without(s.fused_rotary, "system.fused_rotary", "no-rope-fusion");
  without(s.gradient_accumulation_fusion, "system.gradient_accumulation_fusion",
          "no-gradient-accumulation-fusion");
}

void recompute(const Request& r, Arguments& out) {
  const job::Memory& m = r.job.memory;
  using Kind = job::Recompute::Kind;
  const Kind kind = m.recompute.kind;
  if (kind == Kind::selective || kind == Kind::modules) {
    out.value("recompute-granularity", "selective");
    if (kind == Kind::modules) {
      out.value("recompute-modules", fmt::format("{}", fmt::join(m.recompute.modules, " ")));
    }
  } else if (kind == Kind::full || kind == Kind::uniform || kind == Kind::block) {
    out.value("recompute-granularity", "full");
    out.value("recompute-method", kind == Kind::block ? "block" : "uniform");
    out.value("recompute-num-layers", kind == Kind::full ? 1 : m.recompute.layers);
  }
  if (m.whole_micro_batches > 0) {
    out.value("num-microbatches-with-partial-activation-checkpoints", m.whole_micro_batches);
  }
}

void offload(const Request& r, Arguments& out) {
  const job::Offload& o = r.job.memory.offload;
  if (o.optimizer.to == job::OffloadTarget::cpu) {
    out.flag("optimizer-cpu-offload");
    if (o.optimizer.ratio != 1) {
      out.value("optimizer-offload-fraction", o.optimizer.ratio);
    }
  }
  if (o.activations.to == job::OffloadTarget::cpu) {
    if (o.activation_layers > 0) {
      out.value("cpu-offloading-num-layers", o.activation_layers);
    } else {
      out.flag("fine-grained-activation-offloading");
      if (o.activations.ratio != 1) {
        out.value("activation-offload-fraction", o.activations.ratio);
      }
      if (!o.activation_modules.empty()) {
        out.value("offload-modules", fmt::format("{}", fmt::join(o.activation_modules, " ")));
      }
    }
  }
}

}  // namespace

void write_megatron_kernels(const Request& r, Arguments& out) {
  out.group();
  precision(r, out);
  states(r, out);
  out.group();
  kernels(r, out);
  out.group();
  recompute(r, out);
  offload(r, out);
}

}  // namespace stepcast::interop::launch
