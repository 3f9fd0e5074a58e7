// MaxText's YAML and its arguments KEY=VALUE.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "../options/launchers.h"
#include "../options/models.h"
#include "../options/offload.h"
#include "../options/parallelism.h"
#include "../options/rule.h"
#include "../options/sizes.h"
#include "../options/why.h"
#include "readers.h"

namespace stepcast::interop::launch {
namespace {

// The size of an axis: ici_X_parallelism inside a slice times dcn_X_parallelism between slices; -1:
// the remaining devices.
std::int64_t axis(Draft& d, std::string_view name, const Setting** at) {
  std::int64_t size = 1;
  for (const char* level : {"ici", "dcn"}) {
    const std::string option = fmt::format("{}-{}-parallelism", level, name);
    const auto n = d.integer(option);
    if (!n) {
      continue;
    }
    *at = d.find(option);
    if (*n == -1) {
      return -1;
    }
    if (*n < 1) {
      d.refuse(**at, fmt::format("{} is {}; expected a size, or -1 for the remaining devices",
                                 (*at)->shown, *n));
      return 1;
    }
    size = product(size, *n);
  }
  return size;
}

// Slices of a TPU pod, joined by the data-centre network. base.yml of maxtext 0.2.5, lines 769 and
// 783: dcn_data_parallelism and ici_fsdp_parallelism are -1, so unless axes over the network are
// stated, parameters are sharded inside a slice and slices are replicas.
void maxtext_slices(Draft& d) {
  for (const char* name : {"num-slices", "compile-topology-num-slices"}) {
    const auto slices = d.integer(name);
    if (!slices || *slices < 2) {
      continue;
    }
    const Setting& at = *d.find(name);
    d.set(at, "cluster.fabric.slices", *slices);
    bool stated = false;
    for (const char* axis :
         {"data", "fsdp", "tensor", "tensor-sequence", "pipeline", "context", "expert"}) {
      const auto size = d.integer(fmt::format("dcn-{}-parallelism", axis));
      stated = stated || (size && *size > 1);
    }
    const std::int64_t ranks = d.data_ranks();
    if (!stated && d.text("parallelism.sharding").empty() && ranks > 0 && ranks % *slices == 0) {
      d.set(at, "parallelism.shard_size", ranks / *slices);
    }
    return;
  }
}

void maxtext_axes(Draft& d) {
  const Setting* at = nullptr;
  const auto put = [&](std::string_view name, const char* key) {
    at = nullptr;
    const std::int64_t n = axis(d, name, &at);
    if (at != nullptr && n >= 1) {
      d.set(*at, key, n);
    }
  };
  put("tensor", "parallelism.tensor");
  put("pipeline", "parallelism.pipeline");
  put("context", "parallelism.context.size");
  put("expert", "parallelism.expert");
  at = nullptr;
  const std::int64_t sequence = axis(d, "tensor-sequence", &at);
  if (at != nullptr && sequence > 1) {
    d.set(*at, "parallelism.tensor", sequence);
    d.set(*at, "parallelism.sequence_parallel", true);
  }
  tidy_context(d);
  const Setting* fsdp_at = nullptr;
  const Setting* data_at = nullptr;
  const std::int64_t fsdp = axis(d, "fsdp", &fsdp_at);
  const std::int64_t data = axis(d, "data", &data_at);
  if (fsdp_at != nullptr && fsdp == 1) {
    const bool states = d.on("shard-optimizer-over-data");
    d.set(*fsdp_at, "parallelism.sharding", states ? "zero1" : "none");
  } else if (fsdp > 1 && (data > 1 || (data == -1 && data_at != nullptr))) {
    d.set(*fsdp_at, "parallelism.shard_size", fsdp);
  } else if (data > 1 && data_at != nullptr) {
    const std::int64_t ranks = d.data_ranks();
    if (ranks > 0 && ranks % data == 0) {
      d.set(*data_at, "parallelism.shard_size", ranks / data);
    }
  }
}

void maxtext_policy(Draft& d, const Setting& s, std::string_view key) {
  const std::string name = plain_text(s.value);
  if (name == "full") {
    d.set(s, key, "full");
  } else if (name == "none") {
    d.set(s, key, "none");
  } else if (name == "minimal_offloaded") {
    d.set(s, "memory.offload.activations", "cpu");
  } else if (name.starts_with("minimal")) {
    // The products are kept, the attention core is recomputed.
    d.set(s, key, "selective");
  } else {
    d.set(s, key, "full");
    d.launch().remarks.push_back(
        {s.origin,
         fmt::format("{} '{}' keeps some products; every layer is recomputed whole instead",
                     s.shown, name)});
  }
}

// Of remat_policy custom: where each layer's input, which cannot be computed again, is kept (0.2.5,
// configs/base.yml:453). What other names keep is not read: those tensors are computed again.
void maxtext_layer_input(Draft& d, const Setting& s, std::string_view key) {
  const std::string place = plain_text(s.value);
  if (place == "offload") {
    d.set(s, key, "cpu");
  } else if (place == "device") {
    d.set(s, key, "none");
  } else {
    d.refuse(s, fmt::format("{} is '{}'; expected device | offload", s.shown, place));
  }
}

void maxtext_attention(Draft& d, const Setting& s, std::string_view key) {
  const std::string name = plain_text(s.value);
  if (name.starts_with("cudnn")) {
    d.set(s, key, "cudnn");
  } else if (name == "flash") {
    d.set(s, key, "flash2");
  } else if (name == "dot_product") {
    d.set(s, key, "unfused");
  } else if (name != "autoselected") {
    d.refuse(s,
             fmt::format("{} is '{}'; expected autoselected | cudnn_flash_te | flash | dot_product",
                         s.shown, name));
  }
}

void maxtext_context_kind(Draft& d, const Setting& s, std::string_view) {
  const Setting* at = nullptr;
  if (axis(d, "context", &at) > 1) {
    const std::string name = plain_text(s.value);
    d.set(s, "parallelism.context.kind",
          name == "ring"      ? "p2p"
          : name == "ulysses" ? "a2a"
          : name == "usp"     ? "hierarchical"
                              : "all_gather");
  }
}

void quantisation(Draft& d, const Setting& s, std::string_view key) {
  const std::string name = plain_text(s.value);
  if (name.find("fp8") != std::string::npos) {
    d.set(s, key, "fp8");
  } else if (!name.empty()) {
    d.set(s, key, std::string_view(name));
  }
}

void data_ranks_batch(Draft& d) {
  const Setting* s = d.find("per-device-batch-size");
  const auto per_device = d.number("per-device-batch-size");
  const auto steps = d.integer("gradient-accumulation-steps").value_or(1);
  const std::int64_t ranks = d.ranks();
  if (s == nullptr || !per_device || ranks == 0) {
    return;
  }
  // The batch is stated per device, also of model-parallel devices; the mesh's data axes divide the
  // batch of all devices together.
  const double global = *per_device * static_cast<double>(ranks) * static_cast<double>(steps);
  const std::int64_t data = d.data_ranks();
  if (data == 0 || global < 1 || global != static_cast<double>(static_cast<std::int64_t>(global))) {
    d.refuse(*s, fmt::format("{} {} on {} devices is {} sequences; expected a whole number",
                             s->shown, *per_device, ranks, global));
    return;
  }
  d.set(*s, "workload.global_batch", static_cast<std::int64_t>(global));
  std::int64_t micro = static_cast<std::int64_t>(global) / data / steps;
  if (const auto parts = d.integer("num-pipeline-microbatches"); parts && *parts > 0) {
    micro /= *parts;
    d.set(*d.find("num-pipeline-microbatches"), "workload.micro_batch",
          std::max<std::int64_t>(micro, 1));
  } else {
    const std::int64_t stages = d.size("parallelism.pipeline", 1);
    d.set(*s, "workload.micro_batch", std::max<std::int64_t>(micro / stages, 1));
  }
}

const std::vector<Rule>& maxtext_rules() {
  static const std::vector<Rule> list = {
      {"model-name", "model",
       [](Draft& d, const Setting& s, std::string_view key) {
         if (plain_text(s.value) != "default") {
           named_model(d, s, key);
         }
       }},
      {"base-emb-dim", "model.hidden"},
      {"base-num-query-heads", "model.heads"},
      {"base-num-kv-heads", "model.kv_heads"},
      {"base-mlp-dim", "model.ffn"},
      {"base-moe-mlp-dim", "model.moe.ffn"},
      {"base-num-decoder-layers", "model.layers"},
      {"head-dim", "model.head_dim"},
      {"vocab-size", "model.vocab"},
      {"num-experts", "model.moe.experts"},
      {"num-experts-per-tok", "model.moe.topk"},
      {"max-target-length", "workload.sequence_length"},
      {"per-device-batch-size", "workload.global_batch", later},
      {"gradient-accumulation-steps", "workload.global_batch", later},
      {"num-pipeline-microbatches", "workload.micro_batch", later},
      {"num-pipeline-repeats", "parallelism.virtual_pipeline"},
      {"dtype", "workload.precision", number_format},
      {"weight-dtype", "memory.dtypes.parameters", number_format},
      {"grad-dtype", "memory.dtypes.gradients", number_format},
      {"mu-dtype", "memory.dtypes.moments", number_format},
      {"quantization", "workload.precision", quantisation},
      {"remat-policy", "memory.recompute", maxtext_policy},
      {"decoder-layer-input", "memory.offload.activations", maxtext_layer_input},
      {"optimizer-memory-host-offload", "memory.offload.optimizer", offloaded_if_true},
      {"parameter-memory-host-offload", "memory.offload.parameters", offloaded_if_true},
      {"attention", "kernels.attention", maxtext_attention},
      {"sa-block-q", "kernels.splash.block", later},
      {"sa-block-kv", "kernels.splash.block", later},
      {"sa-block-q-dkv", "kernels.splash.backward_block", later},
      {"sa-block-kv-dkv", "kernels.splash.backward_block", later},
      {"sa-use-fused-bwd-kernel", "kernels.splash.fused_backward"},
      {"sparse-matmul", "moe.one_hot", later},
      {"capacity-factor", "moe.capacity_factor", later},
      {"context-parallel-strategy", "", maxtext_context_kind},
      {"shard-optimizer-over-data"},
      {"num-slices", "cluster.fabric.slices", later},
      {"compile-topology-num-slices", "cluster.fabric.slices", later},
      {"ici-tensor-parallelism", "parallelism.tensor", later},
      {"ici-tensor-sequence-parallelism", "parallelism.tensor", later},
      {"ici-fsdp-parallelism", "parallelism.shard_size", later},
      {"ici-data-parallelism", "parallelism.data", later},
      {"ici-pipeline-parallelism", "parallelism.pipeline", later},
      {"ici-context-parallelism", "parallelism.context.size", later},
      {"ici-expert-parallelism", "parallelism.expert", later},
      {"dcn-tensor-parallelism", "parallelism.tensor", later},
      {"dcn-tensor-sequence-parallelism", "parallelism.tensor", later},
      {"dcn-fsdp-parallelism", "parallelism.shard_size", later},
      {"dcn-data-parallelism", "parallelism.data", later},
      {"dcn-pipeline-parallelism", "parallelism.pipeline", later},
      {"dcn-context-parallelism", "parallelism.context.size", later},
      {"dcn-expert-parallelism", "parallelism.expert", later},
  };
  return list;
}

const std::vector<Unread>& maxtext_meaningless() {
  static const std::vector<Unread> list = {
      {"base-config", "MaxText's own defaults, which the preset holds"},
      {"run-name", why::kLogging},
      {"hardware", "the cluster states the device"},
      {"compile-topology*", "the cluster states the device"},
      {"steps", why::kLength},
      {"enable-checkpointing", why::kCheckpoints},
      {"async-checkpointing", why::kCheckpoints},
      {"checkpoint*", why::kCheckpoints},
      {"load-*", why::kCheckpoints},
      {"save-*", why::kCheckpoints},
      {"enable-emergency-checkpoint", why::kCheckpoints},
      {"base-output-directory", why::kResults},
      {"dataset-*", why::kData},
      {"tokenizer-*", why::kData},
      {"packing", why::kData},
      {"max-segments-per-seq", why::kData},
      {"grain-*", why::kData},
      {"hf-*", why::kData},
      {"reuse-example-batch", why::kData},
      {"learning-rate*", why::kLearning},
      {"warmup-*", why::kLearning},
      {"adam-*", why::kLearning},
      {"gradient-clipping-threshold", why::kNorm},
      {"init-weights-seed", why::kLearning},
      {"enable-dropout", why::kLearning},
      {"scan-layers", "the same operators, compiled once"},
      {"use-iota-embed", "the same look-up as a product with a one-hot matrix"},
      {"logits-dot-in-fp32", "numerics of the head"},
      {"cast-logits-to-fp32", "numerics of the head"},
      {"log-*", why::kLogging},
      {"gcs-metrics", why::kLogging},
      {"enable-goodput-recording", why::kLogging},
      {"monitor-goodput", why::kLogging},
      {"profiler*", why::kProfiling},
      {"skip-first-n-steps-for-profiler", why::kProfiling},
      {"upload-all-profiler-results", why::kProfiling},
      {"eval-*", why::kEvaluation},
      {"xla*", "XLA's compiler options"},
  };
  return list;
}

const std::vector<Unread>& maxtext_unmodelled() {
  static const std::vector<Unread> list = {
      {"ici-fsdp-transpose-parallelism", "parameters are sharded along one dimension"},
      {"dcn-fsdp-transpose-parallelism", "parameters are sharded along one dimension"},
      {"ici-autoregressive-parallelism", "of inference"},
      {"dcn-autoregressive-parallelism", "of inference"},
      {"ici-context-autoregressive-parallelism", "of inference"},
      {"ici-sequence-parallelism", "tensor_sequence and context split sequences"},
      {"dcn-sequence-parallelism", "tensor_sequence and context split sequences"},
      {"allow-split-physical-axes", "placement by cluster.order"},
      {"pipeline-*", "weights are gathered for each micro-batch"},
      {"num-layers-per-pipeline-stage", "layers are divided evenly among stages"},
      {"megablox", "experts run as one grouped product"},
      {"opt-type", "AdamW runs"},
      {"sa-*", "blocks inside those that the mask skips or keeps, and layouts"},
  };
  return list;
}

// The mask skips blocks of queries by keys, so the longer side counts.
void maxtext_blocks(Draft& d, std::string_view queries, std::string_view keys,
                    std::string_view key) {
  const std::int64_t q = d.integer(queries).value_or(0);
  const std::int64_t kv = d.integer(keys).value_or(0);
  if (q > 0 || kv > 0) {
    d.set(*d.find(q >= kv ? queries : keys), key, std::max(q, kv));
  }
}

// maxtext 0.2.5, layers/moe.py: dense_matmul runs where sparse_matmul is false; it alone reads the
// capacity, without which every expert computes on every token.
void maxtext_buffers(Draft& d) {
  const Setting* sparse = d.find("sparse-matmul");
  const Setting* at = d.find("capacity-factor");
  const auto capacity = d.number("capacity-factor");
  const bool dense = sparse != nullptr && !d.on("sparse-matmul");
  if (dense && capacity && *capacity > 0) {
    d.set(*sparse, "moe.one_hot", true);
    d.set(*at, "moe.capacity_factor", *capacity);
    return;
  }
  if (dense) {
    d.unmodelled(*sparse, "without a capacity every expert computes on every token");
  } else if (sparse != nullptr) {
    d.meaningless(*sparse, "experts run as one grouped product");
  }
  if (at != nullptr) {
    d.meaningless(*at, "experts have no capacity limit");
  }
}

void finish_maxtext(Draft& d) {
  maxtext_buffers(d);
  maxtext_blocks(d, "sa-block-q", "sa-block-kv", "kernels.splash.block");
  maxtext_blocks(d, "sa-block-q-dkv", "sa-block-kv-dkv", "kernels.splash.backward_block");
  maxtext_axes(d);
  maxtext_slices(d);
  data_ranks_batch(d);
}

}  // namespace

const Reader& maxtext() {
  static const Reader reader = {
      "maxtext",
      "maxtext",
      {&maxtext_rules(), &common_rules(), &launcher_rules()},
      {&maxtext_meaningless(), &launcher_options()},
      {&maxtext_unmodelled()},
      finish_maxtext,
      true,
  };
  return reader;
}

}  // namespace stepcast::interop::launch
