// ds_config.json, with Megatron-DeepSpeed's command line where there is one.
#include "deepspeed.h"

#include <fmt/format.h>

#include "../megatron/megatron.h"
#include "../options/batch.h"
#include "../options/launchers.h"
#include "../options/models.h"
#include "../options/offload.h"
#include "../options/optimizers.h"
#include "../options/parallelism.h"
#include "../options/rule.h"
#include "../options/sizes.h"
#include "../options/why.h"
#include "readers.h"

namespace stepcast::interop::launch {
namespace {

bool is_auto(const Setting& s) { return plain_text(s.value) == "auto"; }

// "auto" is filled in by the trainer that calls DeepSpeed: these by transformers and accelerate
// from the model's hidden size (hidden_sizes.h), as the job's own auto.
void by_hidden_size(Draft& d, const Setting& s, std::string_view key) { d.set(s, key, s.value); }

// Elsewhere the preset's value is kept.
void unless_auto(Draft& d, const Setting& s, std::string_view key) {
  if (!is_auto(s)) {
    d.set(s, key, s.value);
  }
}

// Off, stage 3 gathers and reduces on the stream of the passes as well (deepspeed 0.17.5
// runtime/zero/stage3.py:285), where it is on if nothing is said.
void overlap(Draft& d, const Setting& s, std::string_view key) {
  if (is_auto(s)) {
    return;
  }
  d.set(s, key, is_true(s));
  if (!is_true(s) && d.number("zero-optimization.stage") == 3) {
    d.set(s, "system.zero3_overlaps", false);
  }
}

// With none allowed nothing is gathered ahead; a job's 0 means any number.
void live_parameters(Draft& d, const Setting& s, std::string_view key) {
  if (plain_text(s.value) == "0") {
    d.set(s, key, 1);
  } else {
    unless_auto(d, s, key);
  }
}

void scattered(Draft& d, const Setting& s, std::string_view) {
  if (is_true(s)) {
    d.meaningless(s, "the reduce-scatter that is modelled");
  } else {
    d.unmodelled(s, "gradients are reduce-scattered where states are sharded");
  }
}

// The share of Twin-Flow stays on the device.
void offloaded(Draft& d, const Setting& s, std::string_view key) {
  const auto ratio = d.number("zero-optimization.offload-optimizer.ratio");
  if (!ratio || *ratio == 1) {
    offloaded_to(d, s, key);
    return;
  }
  offloaded_to(d, s, std::string(key) + ".to");
  if (d.stated(std::string(key) + ".to")) {
    d.set(s, std::string(key) + ".ratio", *ratio);
  }
}

void pinned(Draft& d, const Setting& s, std::string_view key) {
  if (is_true(s)) {
    d.meaningless(s, "page-locked memory is the default");
  } else {
    d.set(s, key, false);
  }
}

// The option counts elements, of 16 bits each.
void sub_group(Draft& d, const Setting& s, std::string_view key) {
  const auto elements = d.number(s.name);
  if (elements && d.find("zero-optimization.offload-optimizer.device") != nullptr) {
    d.set(s, key, whole_part(2 * *elements));
  } else {
    d.meaningless(s, "the optimizer steps all states at once");
  }
}

// Without pipeline_read and pipeline_write, reading, stepping and writing optimizer states do not
// overlap.
void swapped_in_turns(Draft& d) {
  const Setting* device = d.find("zero-optimization.offload-optimizer.device");
  const Setting* reads = d.find("zero-optimization.offload-optimizer.pipeline-read");
  const bool pipelined = reads != nullptr && is_true(*reads);
  const Setting* parameters = d.find("zero-optimization.offload-param.device");
  const bool parameters_too = parameters != nullptr && plain_text(parameters->value) == "nvme";
  if (device != nullptr && plain_text(device->value) == "nvme" && !pipelined && !parameters_too &&
      !d.stated("memory.offload.prefetch")) {
    d.assume(device->origin, "memory.offload.prefetch", scalar("0", device->origin));
  }
}

void quantised(Draft& d, const Setting& s, std::string_view key) {
  if (is_true(s)) {
    d.set(s, key, key.ends_with("weights") ? "int8" : "int4");
  }
}

void above_one(Draft& d, const Setting& s, std::string_view key) {
  const std::string n = plain_text(s.value);
  if (n != "1" && n != "0" && n != "-1") {
    d.set(s, key, s.value);
  }
}

void deep_compile(Draft& d, const Setting& s, std::string_view) {
  unmodelled_if_true(d, s, "DeepCompile's passes over the graph");
}
void partitioned(Draft& d, const Setting& s, std::string_view) {
  unmodelled_if_true(d, s, "checkpoints are kept whole on each rank");
}
void deepspeed_tensor_overlap(Draft& d, const Setting& s, std::string_view) {
  unmodelled_if_true(d, s, "AutoTP's collectives are blocking");
}

void deepspeed_precision(Draft& d) {
  const Setting* bf16 = d.find("bf16.enabled");
  const Setting* fp16 = d.find("fp16.enabled");
  if (bf16 != nullptr && is_true(*bf16)) {
    d.set(*bf16, "workload.precision", "bf16");
  } else if (fp16 != nullptr && is_true(*fp16)) {
    d.set(*fp16, "workload.precision", "fp16");
  } else if (!d.stated("workload.precision") && d.find("bf16") == nullptr &&
             d.find("fp16") == nullptr) {
    const Setting* off = bf16 != nullptr ? bf16 : fp16;
    if (off == nullptr || !is_auto(*off)) {
      d.assume(off != nullptr ? off->origin : d.defaults(), "workload.precision",
               scalar("fp32", d.defaults()));
    }
  }
}

}  // namespace

const std::vector<Rule>& deepspeed_rules() {
  static const std::vector<Rule> rules = {
      {"train-batch-size", "workload.global_batch", later},
      {"train-micro-batch-size-per-gpu", "workload.micro_batch", later},
      {"gradient-accumulation-steps", "workload.global_batch", later},
      {"zero-optimization.stage", "parallelism.sharding", zero_stage},
      {"zero-optimization.overlap-comm", "parallelism.overlap.grad_reduce", overlap},
      {"zero-optimization.reduce-bucket-size", "system.bucket_elements", by_hidden_size},
      {"zero-optimization.stage3-prefetch-bucket-size", "system.prefetch_elements", by_hidden_size},
      {"zero-optimization.stage3-max-live-parameters", "system.live_elements", live_parameters},
      {"zero-optimization.stage3-max-reuse-distance", "system.reuse_elements", unless_auto},
      {"zero-optimization.stage3-param-persistence-threshold", "system.persistent_elements",
       by_hidden_size},
      {"zero-optimization.memory-efficient-linear", "system.memory_efficient_linear", unless_auto},
      {"zero-optimization.reduce-scatter", "", scattered},
      {"zero-optimization.zero-hpz-partition-size", "parallelism.zeropp.partition", above_one},
      {"zero-optimization.zero-quantized-weights", "parallelism.zeropp.weights", quantised},
      {"zero-optimization.zero-quantized-gradients", "parallelism.zeropp.gradients", quantised},
      {"zero-optimization.mics-shard-size", "parallelism.shard_size", above_one},
      {"zero-optimization.offload-optimizer.device", "memory.offload.optimizer", offloaded},
      {"zero-optimization.offload-optimizer.ratio", "memory.offload.optimizer", later},
      {"zero-optimization.offload-optimizer.pin-memory", "memory.offload.pinned", pinned},
      {"zero-optimization.offload-optimizer.pipeline-read", "memory.offload.prefetch", later},
      {"zero-optimization.offload-optimizer.pipeline-write", "memory.offload.prefetch", later},
      {"zero-optimization.offload-param.device", "memory.offload.parameters", offloaded_to},
      {"zero-optimization.offload-param.pin-memory", "memory.offload.pinned", pinned},
      {"zero-optimization.cpu-offload", "memory.offload.optimizer", offloaded_if_true},
      {"zero-optimization.sub-group-size", "memory.offload.chunk", sub_group},
      {"bf16.enabled", "workload.precision", later},
      {"fp16.enabled", "workload.precision", later},
      {"communication-data-type", "memory.dtypes.reduce", number_format},
      {"data-types.grad-accum-dtype", "memory.dtypes.gradients", number_format},
      {"tensor-parallel.autotp-size", "parallelism.tensor"},
      {"tensor-parallel.tp-overlap-comm", "", deepspeed_tensor_overlap},
      {"sequence-parallel-size", "parallelism.context.size", ulysses},
      {"expert-parallel.autoep-size", "parallelism.expert"},
      {"pipeline.stages", "parallelism.pipeline", unless_auto},
      {"optimizer.type", "memory.optimizer", optimizer_name},
      {"compile.deepcompile", "", deep_compile},
      {"activation-checkpointing.partition-activations", "", partitioned},
      {"activation-checkpointing.cpu-checkpointing", "memory.offload.activations",
       offloaded_if_true},
  };
  return rules;
}

const std::vector<Unread>& deepspeed_meaningless() {
  static const std::vector<Unread> list = {
      {"steps-per-print", why::kLogging},
      {"wall-clock-breakdown", why::kLogging},
      {"dump-state", why::kLogging},
      {"tensorboard.*", why::kLogging},
      {"wandb.*", why::kLogging},
      {"csv-monitor.*", why::kLogging},
      {"comms-logger.*", why::kLogging},
      {"flops-profiler.*", why::kProfiling},
      {"autotuning.*", "the search for a configuration"},
      {"optimizer.params*", why::kLearning},
      {"optimizer.legacy-fusion", why::kNumerics},
      {"scheduler.*", why::kLearning},
      {"gradient-clipping", why::kNorm},
      {"prescale-gradients", why::kNumerics},
      {"gradient-predivide-factor", why::kNumerics},
      {"fp16.*", why::kNumerics},
      {"bf16.immediate-grad-update", why::kNumerics},
      {"amp.*", why::kNumerics},
      {"zero-allow-untested-optimizer", "a check"},
      {"zero-force-ds-cpu-optimizer", "a check"},
      {"zero-optimization.contiguous-gradients", "a copy that keeps memory whole"},
      {"zero-optimization.ignore-unused-parameters", "a check"},
      {"zero-optimization.stage3-gather-*", why::kCheckpoints},
      {"zero-optimization.gather-16bit-*", why::kCheckpoints},
      {"zero-optimization.round-robin-gradients", "the order of copies"},
      {"zero-optimization.elastic-checkpoint", why::kCheckpoints},
      {"zero-optimization.load-from-fp32-weights", why::kCheckpoints},
      {"zero-optimization.allgather-partitions", "the all-gather that is modelled"},
      {"checkpoint.*", why::kCheckpoints},
      {"nebula.*", why::kCheckpoints},
      {"curriculum-learning.*", "sequences grow; the forecast is of the final length"},
      {"data-efficiency.*", why::kData},
      {"dataloader-drop-last", why::kData},
      {"elasticity.*", why::kProcesses},
      {"disable-allgather", "the all-gather that is modelled"},
      {"seq-parallel-communication-data-type", "activations travel in the precision"},
      {"seed", why::kLearning},
  };
  return list;
}

const std::vector<Unread>& deepspeed_unmodelled() {
  static const std::vector<Unread> list = {
      {"zero-optimization.allgather-bucket-size",
       "parameters are gathered in the buckets of the gradients"},
      {"zero-optimization.stage3-model-persistence-threshold",
       "no bound on all persistent parameters together"},
      {"zero-optimization.stage3-module-granularity-threshold", "modules are gathered one by one"},
      {"zero-optimization.stage3-use-all-reduce-for-fetch-params", "parameters are all-gathered"},
      {"zero-optimization.stage3-allgather-sequential", "gathers are prefetched"},
      {"zero-optimization.use-multi-rank-bucket-allreduce", "buckets are reduced whole"},
      {"zero-optimization.mics-hierarchical-params-gather", "gathers are flat"},
      {"zero-optimization.zeropp-loco-param*", "quantised gradients carry no error feedback"},
      {"zero-optimization.offload-*", "buffers in flight are those of a prefetched unit"},
      {"aio.*", "the drives reach their data sheet's rates"},
      {"bf16.bf16-*", "states have the formats of memory.dtypes"},
      {"activation-checkpointing.*", "memory.recompute states which layers"},
      {"pipeline.*", "layers are divided evenly among stages"},
      {"tensor-parallel.*", "AutoTP's own options"},
      {"expert-parallel.*", "AutoEP's own options"},
      {"sparse-attention.*", "attention is dense"},
      {"progressive-layer-drop.*", "every layer runs"},
      {"compression-training.*", "weights are neither pruned nor quantised"},
      {"quantize-training.*", "weights are neither pruned nor quantised"},
      {"compile.*", "DeepCompile's passes over the graph"},
      {"sparse-gradients", "embedding gradients are dense"},
      {"zero-optimization.override-module-apply", "modules are gathered one by one"},
      {"zero-optimization.leaf-module*", "modules are gathered one by one"},
      {"zenflow.*", "the step waits for the CPUs"},
      {"torch-autocast.*", "workload.precision states the format"},
  };
  return list;
}

namespace {

// Whether a setting is of DeepSpeed's JSON.
bool of_deepspeed(const Setting& s) {
  return s.name.starts_with("zero-optimization") || s.name == "bf16.enabled" ||
         s.name == "fp16.enabled" || s.name == "train-batch-size" ||
         s.name == "train-micro-batch-size-per-gpu";
}

}  // namespace

NamedFile deepspeed_file(std::string_view option) { return {option, of_deepspeed}; }

void finish_deepspeed(Draft& d) {
  swapped_in_turns(d);
  const bool launched = d.present("num-layers") != nullptr;
  if (launched) {
    d.preset = "megatron-deepspeed";
    finish_megatron_model(d);
    finish_megatron_kernels(d);
  }
  deepspeed_precision(d);
  if (d.first({"train-batch-size", "train-micro-batch-size-per-gpu",
               "gradient-accumulation-steps"}) != nullptr) {
    complete_batch(d, d.find("train-micro-batch-size-per-gpu"),
                   d.find("gradient-accumulation-steps"), d.find("train-batch-size"));
  }
  // With neither micro-batch nor accumulation steps, each rank's batch is one micro-batch
  // (runtime/config.py).
  const Setting* whole = d.find("train-batch-size");
  const auto sequences = whole == nullptr ? std::nullopt : d.integer("train-batch-size");
  const std::int64_t ranks = d.data_ranks();
  if (sequences && ranks > 0 && d.find("train-micro-batch-size-per-gpu") == nullptr &&
      d.find("gradient-accumulation-steps") == nullptr && !d.stated("workload.micro_batch")) {
    if (*sequences % ranks != 0) {
      d.refuse(*whole,
               fmt::format("{} {} is not a multiple of {} data-parallel ranks; expected one",
                           whole->shown, *sequences, ranks));
    } else {
      d.set(*whole, "workload.micro_batch", *sequences / ranks);
    }
  }
  if (launched) {
    finish_megatron_parallel(d);
  }
}

const Reader& deepspeed() {
  static const Reader reader = {
      "deepspeed",
      "deepspeed",
      {&deepspeed_rules(), &common_rules(), &megatron_model_rules(), &megatron_hybrid_rules(),
       &megatron_parallel_rules(), &megatron_kernel_rules(), &megatron_bf16_layer_rules(),
       &megatron_fork_rules(), &launcher_rules()},
      {&deepspeed_meaningless(), &megatron_meaningless(), &launcher_options()},
      {&deepspeed_unmodelled(), &megatron_unmodelled()},
      finish_deepspeed,
  };
  return reader;
}

}  // namespace stepcast::interop::launch
