// FLOPs of one optimizer step by the conventions under which measurements were published.
#include "stepcast/model/count.h"
#include "stepcast/model/operators.h"

namespace stepcast::model {
namespace {

// 72 B L s h^2 (1 + s/6h + V/12hL): Narayanan et al. (SC21, arXiv 2104.04473, appendix) without the
// recomputation, and Korthikanti et al. (arXiv 2205.05198, appendix A). Written for a GPT with ffn
// = 4 h, whatever the model.
double gpt_model_flops(const job::Model& m, double s, double sequences) {
  const double h = static_cast<double>(m.hidden);
  const double layers = m.layers;
  const double vocab = static_cast<double>(m.vocab);
  return 72.0 * sequences * layers * s * h * h *
         (1.0 + s / (6.0 * h) + vocab / (12.0 * h * layers));
}

// With full recomputation: 96 B L s h^2 (1 + s/6h + V/16hL).
double gpt_hardware_flops(const job::Model& m, double s, double sequences) {
  const double h = static_cast<double>(m.hidden);
  const double layers = m.layers;
  const double vocab = static_cast<double>(m.vocab);
  return 96.0 * sequences * layers * s * h * h *
         (1.0 + s / (6.0 * h) + vocab / (16.0 * h * layers));
}

// (6 N + 12 L a d s) per token (Chowdhery et al., arXiv 2204.02311, appendix B). N counts the
// vocabulary matrix once, as torchtitan (without its input table) and llm-foundry (tied) do, or
// twice, and only the active experts.
double palm_flops(const job::Model& m, double s, double sequences, int vocabulary_matrices) {
  const double active = static_cast<double>(count_parameters(m).active);
  const double matrix = static_cast<double>(m.vocab) * static_cast<double>(m.hidden);
  const int counted = m.tied_embeddings ? 1 : 2;
  const double n = active + (vocabulary_matrices - counted) * matrix;
  const double attention = 12.0 * m.layers * m.heads * m.head_dim * s;
  return sequences * s * (6.0 * n + attention);
}

// Parameters of all layers' low-rank adapters.
double adapter_parameters(const job::Job& job) {
  Shard whole;
  whole.sequence_length = job.workload.sequence_length;
  double sum = 0;
  for (int layer = 0; layer < layer_count(job.model); ++layer) {
    for (const Operator& op :
         build_layer(job.model, layer_kind(job.model, layer), whole, style_of(job)).operators) {
      sum += op.adapter ? static_cast<double>(op.parameters) : 0;
    }
  }
  return sum;
}

}  // namespace

Flops step_flops(const job::Job& job, FlopConvention convention) {
  const Flops whole = step_flops(job.model, job.workload.sequence_length,
                                 static_cast<double>(job.workload.global_batch), convention);
  if (convention != FlopConvention::megatron_causal_frozen ||
      job.workload.finetune.kind == FinetuneKind::none) {
    return whole;
  }
  // nemo-automodel 0.7.0 recipes/llm/benchmark.py:236
  const double frozen = static_cast<double>(count_parameters(job.model).total);
  return (2 + adapter_parameters(job) / frozen) / 3 * whole;
}

Flops step_flops(const job::Model& model, std::int64_t sequence_length, double sequences,
                 FlopConvention convention) {
  const auto s = static_cast<double>(sequence_length);
  switch (convention) {
    case FlopConvention::megatron_causal:
    case FlopConvention::megatron_causal_frozen:  // where nothing is frozen
      return 3.0 * sequences * forward_flops(model, sequence_length, true) -
             2.0 * sequences * forward_only_flops(model, sequence_length);
    case FlopConvention::megatron_full:
      return 3.0 * sequences * forward_flops(model, sequence_length, false) -
             2.0 * sequences * forward_only_flops(model, sequence_length);
    case FlopConvention::sc21_hardware:
      return Flops(gpt_hardware_flops(model, s, sequences));
    case FlopConvention::sc21_model:
    case FlopConvention::korthikanti_model:
      return Flops(gpt_model_flops(model, s, sequences));
    case FlopConvention::palm:
      return Flops(palm_flops(model, s, sequences, 1));
    case FlopConvention::palm_both_embeddings:
      return Flops(palm_flops(model, s, sequences, 2));
  }
  return {};
}

Flops training_flops(const job::Job& job, double sequences) {
  const bool whole = job.workload.finetune.kind == FinetuneKind::none;
  return training_flops(job.model, whole ? Style() : style_of(job), job.workload.sequence_length,
                        sequences);
}

Flops training_flops(const job::Model& model, Style style, std::int64_t sequence_length,
                     double sequences) {
  if (style.finetune.kind == FinetuneKind::none) {
    return step_flops(model, sequence_length, sequences, FlopConvention::megatron_causal);
  }
  // Counts half of causal scores, whichever kernel runs.
  style.attention = AttentionKernel::flash2;
  style.masks = job::AttentionMasks::none;
  Shard whole;
  whole.sequence_length = sequence_length;
  double sum = 0;
  const auto add = [&](const OperatorGraph& graph) {
    for (const Operator& op : graph.operators) {
      // By convention attention's backward is twice its forward: recomputed scores do not count.
      sum += op.attention && !op.forward_only
                 ? 3 * op.forward.count()
                 : op.forward.count() + op.input_grad.count() + op.weight_grad.count();
    }
  };
  add(build_head(model, whole, style));
  for (int layer = 0; layer < layer_count(model); ++layer) {
    add(build_layer(model, layer_kind(model, layer), whole, style));
  }
  return sequences * Flops(sum);
}

}  // namespace stepcast::model
