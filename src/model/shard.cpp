// The Style of a job's framework, and the padding of the vocabulary.
#include "builder.h"
#include "stepcast/job/facts.h"
#include "stepcast/model/experts.h"

namespace stepcast::model {

std::int64_t padded_vocab(std::int64_t vocab, std::int64_t divisor, int tensor) {
  if (divisor <= 1) {
    return vocab;
  }
  const std::int64_t multiple = divisor * tensor;
  return ceil_div(vocab, multiple) * multiple;
}

namespace {

// PEFT casts what an adapter reads to the format in which its weight is found (0.21.2,
// tuners/lora/layer.py:1100), but under autocast not beside 4-bit weights (tuners/lora/bnb.py:537).
// An adapter that is a unit of FSDP1 is gathered behind that: its weight is a piece of the sharded
// fp32 parameter where that stands in the module's place (torch 2.15,
// distributed/fsdp/_flat_param.py: _use_sharded_views, use_orig_params), else the view that was
// gathered last, in 16 bits, and ahead of the first gather in the format that it was made in
// (_use_unsharded_views). Other shards are gathered, in 16 bits, ahead of the whole layer.
void set_adapter_casts(const job::Job& job, Style& s) {
  const job::System& system = job.system;
  const bool whole = job.parallelism.sharding == job::Sharding::none;
  const bool flat = !whole && system.flat_parameters && system.wraps_adapters &&
                    job.workload.finetune.kind != job::Finetune::Kind::qlora;
  s.casts_adapter_inputs =
      system.casts_adapter_inputs && (whole || (flat && system.original_parameters));
  s.casts_adapters_once = system.casts_adapter_inputs && flat && !system.original_parameters;
}

}  // namespace

namespace {

// Packed documents need a mask in every layer.
job::AttentionMasks masks_of(const job::Job& job) {
  const job::AttentionMasks stated = job.system.attention_masks;
  if (!job.system.scaled_dot_product) {
    return job::AttentionMasks::none;
  }
  return stated == job::AttentionMasks::needed && !job.workload.documents.empty()
             ? job::AttentionMasks::all
             : stated;
}

// Liger-Kernel 0.8.5: its norms of residual streams that nothing else reads write their gradient
// over that of the result (ops/rms_norm.py:555; transformers/rms_norm.py: not Gemma 2's, nor OLMo
// 2's), rotation over queries and keys (ops/rope.py:135), a gated activation's gradients over both
// halves (ops/swiglu.py:201).
void set_operators(const job::Job& job, Style& s) {
  const bool norm = job::runs_liger(job, "rms_norm");
  const bool rotary = job::runs_liger(job, "rope");
  const bool gate = job.model.gated_mlp && job::runs_liger(job, "glu");
  s.fused_norm = job.system.fused_norm || norm;
  s.eager_qk_norm = norm && !job.system.fused_norm && !job.model.modules.liger.qk_norm;
  s.norm_in_place = norm && !job.model.sandwich_norms && !job.model.output_norms;
  s.fused_rotary = job.system.fused_rotary || rotary;
  s.rotary_in_place = rotary;
  s.fused_bias_activation = job.system.fused_bias_activation || gate;
  s.gate_in_place = gate;
}

}  // namespace

Style style_of(const job::Job& job) {
  Style s;
  s.routing = routing_of(job);
  switch (job.workload.precision) {
    case job::DType::fp32:
    case job::DType::tf32:
      s.dtype = job::DType::fp32;
      break;
    case job::DType::fp16:
      s.dtype = job::DType::fp16;
      break;
    default:  // 8-bit and 4-bit recipes keep activations in bf16 between their GEMMs
      s.dtype = job::DType::bf16;
      break;
  }
  s.attention = job.kernels.attention;
  s.widest_fused_head = job::widest_fused_head(job.cluster);
  s.splash = job.kernels.splash;
  s.finetune = job.workload.finetune;
  s.loss = job.kernels.loss;
  set_operators(job, s);
  s.fused_softmax = job.system.fused_softmax;
  s.fused_softmax_keys = job.system.fused_softmax_keys;
  s.widens_scores_first = job.system.habits.widens_scores_first;
  s.fused_bias_dropout_add = job.system.fused_bias_dropout_add;
  s.rotary_tables_anew = job.system.rotary_tables_anew;
  // torchtitan rotates pairs of reals where queries and keys are normed (models/qwen3: CosSinRoPE).
  s.complex_rotary = job.system.complex_rotary && !job.model.qk_norm;
  s.paired_rotary = job.system.paired_rotary;
  s.joined_rotary = job.system.joined_rotary;
  // Asynchronous products keep the view of attention's result as it is, and copy it in the backward
  // pass (nanotron 0.4, parallel/tensor_parallel/functional.py:397, :442).
  s.reorders_attention = job.system.reorders_attention &&
                         !(job.system.async_tensor_backward && job.parallelism.sequence_parallel);
  s.copies_keys_values = job.system.copies_keys_values;
  s.views_values = job.system.views_latent_values;
  s.compiled = job.kernels.compile;
  s.compiled_ends = s.compiled && job.system.compile_scope != CompileScope::layers;
  // The loss of a model whose result is returned in fp32 reads that copy.
  s.compiled_loss = s.compiled && job.system.compiles_loss && !job.system.wide_output;
  s.loss_metrics = job.system.loss_metrics;
  s.metrics_before_backward = job.system.metrics_before_backward;
  s.whole_latents = job.system.whole_latents;
  s.embedding_by_width = job.system.embedding_by_width;
  s.composed_gelu = job.system.composed_gelu;
  s.gate_first = job.system.gate_first;
  s.wide_norm = job.system.wide_norm;
  s.fused_streams = job.system.fused_streams;
  s.repeats_kv = job.system.repeats_kv;
  s.repeats_single_head = job.system.repeats_single_head;
  s.copies_packed_kv = s.repeats_kv && job.system.transformers_modules;
  s.logsumexp_sinks = job.system.transformers_modules && job.model.modules.logsumexp_sinks;
  s.masks = masks_of(job);
  s.holds_masks = job.memory.recompute.kind == job::Recompute::Kind::full;
  s.keeps_logits = job.system.stage_keeps_output && job.parallelism.pipeline > 1;
  // Sharded units cast their parameters themselves.
  s.autocast = job.system.autocast && job.parallelism.sharding == job::Sharding::none &&
               job.memory.dtypes.parameters == job::DType::fp32 && !job.memory.dtypes.master &&
               job::bytes_per_element(s.dtype) < 4;
  // accelerate 1.15.0, accelerator.py:1824: whole parameters too, in whatever format.
  const bool whole = job.parallelism.sharding == job::Sharding::none;
  s.autocasts_units = whole ? job.system.autocast && job.system.transformers_modules && !s.autocast
                            : job.system.autocasts_units;
  set_adapter_casts(job, s);
  // Kernels of 8-bit attention are cuDNN's (Transformer Engine 2.8,
  // dot_product_attention/utils.py).
  s.fp8_attention = job.kernels.fp8_attention &&
                    job.kernels.attention == job::AttentionKernel::cudnn &&
                    job::bytes_per_element(job.workload.precision) < 2;
  s.fused_casts = job.kernels.fused_casts && (job.workload.precision == job::DType::fp8 ||
                                              job.workload.precision == job::DType::mxfp8);
  s.casts_apart = job.kernels.casts_apart && job.workload.precision == job::DType::fp8_block;
  s.fp8_activation_input = job.memory.fp8_activation_input;
  // A gate between attention and the product behind it reads the wide result.
  s.fp12_attention_output = job.memory.fp12_attention_output && !s.fp8_attention &&
                            !job.model.attention_gate &&
                            job::bytes_per_element(job.workload.precision) < 2;
  // DeepSpeed's own linear saves what it reads (0.19.8, runtime/zero/linear.py:97).
  const bool own_linear = job.system.zero3_buckets && job.system.memory_efficient_linear &&
                          job.parallelism.sharding == job::Sharding::zero3;
  s.frozen_inputs =
      job::quantizes_base(job.workload.finetune) ? job.system.quantized_inputs : own_linear;
  s.quantizer = job.system.quantizer;
  s.parted_adapters = job.system.parted_adapters;
  s.fused_qkv = job.system.habits.packs_projections || job.system.packed_qkv;
  s.interleaved_qkv = job.system.habits.packs_projections && !s.compiled;
  s.sequence_first = job.system.habits.packs_projections && !s.compiled;
  s.divides_prediction = job.system.habits.packs_projections;
  s.holds_prediction_logits = job.system.holds_prediction_logits;
  s.fused_gate = job.system.packed_gated_mlp;
  s.unpads_attention = job.system.unpads_attention;
  s.copied_qkv = job.system.copied_qkv && !s.fused_qkv;
  // torch.nn.Linear adds its bias in the GEMM's epilogue (addmm by cuBLASLt, torch 1.10 and
  // later); Megatron-LM's layers add it after the GEMM, or pass it to the next kernel.
  s.fused_linear_bias = s.compiled || !job.system.habits.adds_linear_bias_apart;
  return s;
}

}  // namespace stepcast::model
