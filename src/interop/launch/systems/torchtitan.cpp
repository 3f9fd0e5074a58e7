// torchtitan's TOML, and its command line of --section.option value. Its functions in Python:
// torchtitan_config.cpp.
#include "torchtitan.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

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
#include "stepcast/config/config.h"

namespace stepcast::interop::launch {
namespace {

void torchtitan_reshard(Draft& d, const Setting& s, std::string_view key) {
  const std::string when = plain_text(s.value);
  if (when == "always") {
    d.set(s, key, true);
  } else if (when == "never") {
    d.set(s, key, false);
  } else if (when != "default") {
    d.refuse(s, fmt::format("{} is '{}'; expected default | always | never", s.shown, when));
  }
}

void rotate(Draft& d, const Setting& s, std::string_view key) {
  const std::string how = plain_text(s.value);
  if (how != "allgather" && how != "alltoall") {
    d.refuse(s, fmt::format("{} is '{}'; expected allgather | alltoall", s.shown, how));
    return;
  }
  // alltoall passes keys and values from rank to rank, in a ring.
  if (d.size("parallelism.context.size", 1) > 1) {
    d.set(s, key, how == "allgather" ? "all_gather" : "p2p");
  }
}

void balancer(Draft& d, const Setting& s, std::string_view key) {
  if (d.size("parallelism.context.size", 1) > 1) {
    d.set(s, key, plain_text(s.value) == "headtail");
  }
}

void torchtitan_implementation(Draft& d, const Setting& s, std::string_view key) {
  d.set(s, key, plain_text(s.value) != "for-loop");
}

void model(Draft& d) {
  const Setting* flavor = d.find("model.flavor");
  const Setting* name = d.find("model.name");
  const Setting* at = flavor != nullptr ? flavor : name;
  if (at == nullptr || !d.request().model.empty() || d.overridden("model")) {
    return;
  }
  const std::string both = (name == nullptr ? "" : plain_text(name->value)) + "_" +
                           (flavor == nullptr ? "" : plain_text(flavor->value));
  if (!use_model(d, *at, both)) {
    d.refuse(*at, fmt::format("{} '{}' is not a model of configs/models; expected --model NAME",
                              at->shown, both));
  } else if (name != nullptr && flavor != nullptr) {
    const Value used = *d.value("model.use");
    d.set(*name, "model.use", used);
    d.set(*flavor, "model.use", used);
  }
}

std::int64_t layers_of(const Draft& d) {
  if (const std::int64_t n = d.size("model.layers", 0); n > 0) {
    return n;
  }
  const std::string name = d.request().model.empty() ? d.text("model.use") : d.request().model;
  return name.empty() ? 0 : config::model(name).layers;
}

// Schedules by the names of torch.distributed.pipelining.
struct ScheduleName {
  std::string_view torch;
  std::string_view ours;
  int chunks;  // stages of a rank; 0: two or more
};
constexpr ScheduleName kScheduleNames[] = {{"1F1B", "1f1b", 1},
                                           {"GPipe", "gpipe", 1},
                                           {"Interleaved1F1B", "interleaved_1f1b", 0},
                                           {"LoopedBFS", "looped_bfs", 0},
                                           {"InterleavedZeroBubble", "interleaved_zb", 0},
                                           {"ZBVZeroBubble", "zb_v", 2},
                                           {"DualPipeV", "dualpipe_v", 2}};

// Sets virtual_pipeline for a schedule whose ranks may have several stages. pipeline_parallel.py:
// such schedules have two stages per rank, unless the layers per stage give more.
void torchtitan_chunks(Draft& d, const Setting* schedule, const ScheduleName& name) {
  const Setting* per = d.find("parallelism.pipeline-parallel-layers-per-stage");
  const auto n = d.integer("parallelism.pipeline-parallel-layers-per-stage");
  const std::int64_t layers = layers_of(d);
  std::int64_t chunks = name.chunks == 0 ? 2 : 1;
  const Setting* at = schedule;
  if (per != nullptr && n && *n > 0 && layers > 0) {
    // The first and last stage have less_layers fewer, for embedding and head.
    const std::int64_t less =
        d.integer("parallelism.pipeline-parallel-first-stage-less-layers").value_or(1) +
        d.integer("parallelism.pipeline-parallel-last-stage-less-layers").value_or(1);
    const std::int64_t each = product(*n, d.size("parallelism.pipeline", 1));
    chunks = (layers + less + each - 1) / each;
    at = per;
  }
  if (name.chunks == 1 && chunks > 1) {
    d.refuse(*at, fmt::format("{} with {} stages a rank is not modelled; expected one", name.torch,
                              chunks));
  } else if (at != nullptr && name.chunks == 0) {
    d.set(*at, "parallelism.virtual_pipeline", chunks);
  }
}

// Whether the embedding or the head counts as a layer of its stage.
void torchtitan_end(Draft& d, const char* option, const char* key) {
  const auto less = d.integer(option);
  if (const Setting* given = d.find(option)) {
    d.set(*given, key, less.value_or(1) > 0);
  } else {
    d.assume(d.defaults(), key, scalar("true", d.defaults()));
  }
}

void torchtitan_pipeline(Draft& d) {
  if (d.size("parallelism.pipeline", 1) == 1) {
    return;
  }
  const Setting* s = d.find("parallelism.pipeline-parallel-schedule");
  const std::string name = s == nullptr ? "1F1B" : plain_text(s->value);
  const auto* found = std::find_if(std::begin(kScheduleNames), std::end(kScheduleNames),
                                   [&](const ScheduleName& n) { return n.torch == name; });
  const Setting* csv = d.find("parallelism.pipeline-parallel-schedule-csv");
  if (csv != nullptr && !plain_text(csv->value).empty()) {
    d.set(*csv, "parallelism.schedule", csv->value);
  } else if (found == std::end(kScheduleNames)) {
    d.refuse(*s, fmt::format("{} is '{}'; expected 1F1B | GPipe | Interleaved1F1B | LoopedBFS | "
                             "InterleavedZeroBubble | ZBVZeroBubble | DualPipeV",
                             s->shown, name));
    return;
  } else if (s != nullptr) {
    d.set(*s, "parallelism.schedule", found->ours);
  }
  if (found != std::end(kScheduleNames)) {
    torchtitan_chunks(d, s, *found);
  }
  torchtitan_end(d, "parallelism.pipeline-parallel-first-stage-less-layers",
                 "parallelism.embedding_as_layer");
  torchtitan_end(d, "parallelism.pipeline-parallel-last-stage-less-layers",
                 "parallelism.loss_as_layer");
}

void torchtitan_recompute(Draft& d) {
  const Setting* mode = d.find("activation-checkpoint.mode");
  const Setting* option = d.find("activation-checkpoint.selective-ac-option");
  if (mode == nullptr) {
    return;
  }
  const std::string how = plain_text(mode->value);
  if (how == "none" || how == "full") {
    d.set(*mode, "memory.recompute", std::string_view(how));
  } else if (how == "selective") {
    if (option != nullptr && plain_text(option->value) == "op") {
      d.drop("memory.recompute");
      d.set(*option, "memory.recompute.per_op", "sac");
    } else if (option != nullptr) {
      d.set(*option, "memory.recompute.every", scalar(plain_text(option->value), option->origin));
    }
  } else if (how == "memory_budget") {
    torchtitan_memory_budget(d, *mode);
  } else {
    d.refuse(*mode, fmt::format("{} is '{}'; expected none | selective | full", mode->shown, how));
  }
}

constexpr const char* kGathers = "quantize.linear.float8.enable-fsdp-float8-all-gather";
constexpr const char* kScalesAhead =
    "quantize.linear.float8.precompute-float8-dynamic-scale-for-fsdp";

// `s`: either of these, which is on (0.2.0, components/quantization/float8.py:86).
void float8_gather(Draft& d, const Setting& s) {
  const auto on = [&](const char* name) {
    const Setting* found = d.find(name);
    return found != nullptr && is_true(*found);
  };
  const Setting* shards = d.find("parallelism.data-parallel-shard-degree");
  if (!on(kGathers) || (shards != nullptr && plain_text(shards->value) == "1")) {
    d.meaningless(s, "no shards are gathered in 8 bits");
    return;
  }
  d.set(s, "parallelism.float8_all_gather", on(kScalesAhead) ? "precomputed" : "dynamic");
}

void torchtitan_precision(Draft& d) {
  const Setting* converters = d.first({"model.converters", "model.converter"});
  const std::string names = converters == nullptr ? "" : plain_text(converters->value);
  const bool float8 = names.find("float8") != std::string::npos;
  const bool mx = names.find("mx") != std::string::npos;
  if (float8 || mx) {
    // torchao's recipes "rowwise": a row or a column is the block that shares a scale (0.14.1,
    // float8/config.py: Float8LinearRecipeName).
    const Setting* recipe = d.find("quantize.linear.float8.recipe-name");
    const bool rows = recipe != nullptr && plain_text(recipe->value).starts_with("rowwise");
    d.set(rows && !mx ? *recipe : *converters, "workload.precision",
          mx     ? "mxfp8"
          : rows ? "fp8_block"
                 : "fp8");
  }
  for (const Setting& s : d.settings()) {
    if (s.name.starts_with("quantize.")) {
      if (!float8 && !mx) {
        d.meaningless(s, "model.converters has no such format");
      } else if (!is_true(s)) {
        d.meaningless(s, "off");
      } else if (s.name.ends_with("float8.recipe-name") &&
                 plain_text(s.value) == "rowwise_with_gw_hp") {
        d.unmodelled(s, "weight gradients are computed in 8 bits as well");
      } else if (s.name == kGathers || s.name == kScalesAhead) {
        float8_gather(d, s);
      } else if (s.name.find("filter-fqns") != std::string::npos) {
        if (plain_text(s.value) == "output") {
          d.meaningless(s, "the head stays in 16 bits");
        } else {
          d.unmodelled(s, "every linear layer but the head runs in the format");
        }
      } else {
        d.meaningless(s, why::kNumerics);
      }
    }
  }
}

void compile(Draft& d) {
  const Setting* enable = d.find("compile.enable");
  if (enable == nullptr) {
    return;
  }
  const Setting* parts = d.find("compile.components");
  const bool model =
      parts == nullptr || plain_text(parts->value).find("model") != std::string::npos;
  d.set(*enable, "kernels.compile", is_true(*enable) && model);
  if (parts != nullptr) {
    const bool loss = plain_text(parts->value).find("loss") != std::string::npos;
    if (is_true(*enable) && loss && !model) {
      d.unmodelled(*parts, "the loss is compiled with the layers or not at all");
      return;
    }
    d.set(*parts, "kernels.compile", is_true(*enable) && model);
    if (is_true(*enable) && model) {
      d.set(*parts, "system.compiles_loss", loss);
    }
  }
}

void batch(Draft& d) {
  const Setting* local = d.find("training.local-batch-size");
  const Setting* global = d.find("training.global-batch-size");
  if (global != nullptr && plain_text(global->value) == "-1") {
    global = nullptr;
  }
  complete_batch(d, local, nullptr, global);
  if (d.size("parallelism.pipeline", 1) > 1) {
    // The pipeline divides the local batch into micro-batches.
    if (const Setting* s = d.find("parallelism.pipeline-parallel-microbatch-size")) {
      d.set(*s, "workload.micro_batch", s->value);
    } else if (local != nullptr) {
      d.set(*local, "workload.micro_batch", 1);
    }
  }
}

// Keys and values are gathered where no method is stated: 0.1.0 config_manager.py:358, 0.2.0
// config/job_config.py:381, 0.2.2 :446, "allgather"; 0.3.0 has no other (flex_cp_allgather,
// distributed/context_parallel/api.py:73).
void torchtitan_rotation(Draft& d) {
  if (d.size("parallelism.context.size", 1) > 1) {
    d.assume(d.defaults(), "parallelism.context.kind", scalar("all_gather", d.defaults()));
  }
}

// 0.1.0 models/llama3/infra/parallelize.py:54, 0.2.0 distributed/tensor_parallel.py:19 and 0.2.2
// :20 raise RuntimeError with tensor ranks, 0.3.0 config/configs.py:304 ValueError with or without.
void torchtitan_async_tensor(Draft& d) {
  const Setting* s = d.find("parallelism.enable-async-tensor-parallel");
  const bool counts = d.size("parallelism.tensor", 1) > 1 || d.find("model-spec") != nullptr;
  if (s != nullptr && is_true(*s) && counts && d.text("kernels.compile") != "true") {
    d.refuse(*s, fmt::format("{} is of compiled models alone, and torchtitan refuses it without; "
                             "expected compile.enable=true with \"model\" in compile.components",
                             s->shown));
  }
}

// 0.2.2 config/job_config.py:464: "no effect ... when ep = 1".
void torchtitan_experts(Draft& d) {
  if (d.size("parallelism.expert", 1) == 1) {
    d.drop("parallelism.expert_tensor");
  }
}

// 0.2.2 components/optimizer.py:277: OptimizersInBackwardContainer, which it refuses with stages
// and with expert parallelism.
void torchtitan_steps_in_backward(Draft& d) {
  const Setting* s = d.find("optimizer.early-step-in-backward");
  if (s == nullptr) {
    return;
  }
  for (const auto& [key, what] :
       {std::pair{"parallelism.pipeline", "stages"}, {"parallelism.expert", "expert ranks"}}) {
    if (is_true(*s) && d.size(key, 1) > 1) {
      d.refuse(*s, fmt::format("torchtitan refuses {} with {}; expected false", s->shown, what));
      return;
    }
  }
  steps_in_backward(
      d, *s, d.ranks() == 1 && d.text("workload.global_batch") == d.text("workload.micro_batch"));
}

void finish_torchtitan(Draft& d) {
  model(d);
  torchtitan_config_model(d);
  hybrid_sharding(d, d.find("parallelism.data-parallel-replicate-degree"),
                  d.find("parallelism.data-parallel-shard-degree"));
  if (d.faults().empty()) {
    torchtitan_pipeline(d);
  }
  torchtitan_recompute(d);
  torchtitan_precision(d);
  compile(d);
  batch(d);
  torchtitan_rotation(d);
  torchtitan_experts(d);
  torchtitan_async_tensor(d);
  torchtitan_steps_in_backward(d);
  torchtitan_config(d);
  tidy_context(d);
}

const std::vector<Rule>& torchtitan_rules() {
  static const std::vector<Rule> list = {
      {"model.name"},
      {"model.flavor"},
      {"model.converters"},
      {"training.local-batch-size", "workload.micro_batch", later},
      spelling("training.batch-size", "training.local-batch-size"),
      {"training.global-batch-size", "workload.global_batch", later},
      {"training.seq-len", "workload.sequence_length"},
      {"training.mixed-precision-param", "workload.precision", number_format},
      {"training.mixed-precision-reduce", "memory.dtypes.reduce", number_format},
      {"training.dtype", "memory.dtypes.parameters", number_format},
      {"training.enable-cpu-offload", "memory.offload", fsdp_offloaded_if_true},
      spelling("training.compile", "compile.enable"),
      {"parallelism.data-parallel-replicate-degree"},
      {"parallelism.data-parallel-shard-degree"},
      {"parallelism.fsdp-reshard-after-forward", "parallelism.reshard_after_forward",
       torchtitan_reshard},
      {"parallelism.tensor-parallel-degree", "parallelism.tensor"},
      flag("parallelism.disable-loss-parallel", "kernels.loss_parallel",
           [](Draft& d, const Setting& s, std::string_view key) {
             if (is_true(s)) {  // the loss of the releases that have this option
               d.set(s, key, false);
               d.set(s, "kernels.loss", "eager");
             }
           }),
      {"parallelism.enable-async-tensor-parallel", "parallelism.overlap.tensor", if_true<"async">},
      {"parallelism.enable-sequence-parallel", "parallelism.sequence_parallel", yes},
      {"parallelism.pipeline-parallel-degree", "parallelism.pipeline"},
      {"parallelism.pipeline-parallel-schedule"},
      {"parallelism.pipeline-parallel-schedule-csv"},
      {"parallelism.pipeline-parallel-microbatch-size"},
      {"parallelism.pipeline-parallel-layers-per-stage"},
      {"parallelism.pipeline-parallel-first-stage-less-layers"},
      {"parallelism.pipeline-parallel-last-stage-less-layers"},
      {"parallelism.context-parallel-degree", "parallelism.context.size"},
      {"parallelism.context-parallel-rotate-method", "parallelism.context.kind", rotate},
      {"parallelism.context-parallel-load-balancer", "parallelism.context.balanced", balancer},
      {"parallelism.expert-parallel-degree", "parallelism.expert"},
      {"parallelism.expert-tensor-parallel-degree", "parallelism.expert_tensor"},
      {"parallelism.expert-parallel-comm-backend", "moe.dispatcher", torchtitan_dispatcher},
      {"activation-checkpoint.mode"},
      {"activation-checkpoint.selective-ac-option"},
      {"compile.enable"},
      {"compile.components"},
      {"optimizer.early-step-in-backward", "memory.optimizer_in_backward", later},
      {"optimizer.name", "memory.optimizer", optimizer_name},
      {"optimizer.implementation", "system.fused_optimizer", torchtitan_implementation},
      {kGathers},
      {kScalesAhead},
      {"quantize.linear.float8.filter-fqns"},
      {"quantize.linear.float8.recipe-name"},
      {"quantize.linear.float8.emulate"},
      {"quantize.linear.mx.filter-fqns"},
      {"quantize.linear.mx.recipe-name"},
      {"quantize.grouped-mm.float8.fqns"},
      {"quantize.grouped-mm.mx.fqns"},
  };
  return list;
}

const std::vector<Unread>& torchtitan_meaningless() {
  static const std::vector<Unread> list = {
      {"job.config-file", "its file is read as well"},
      {"job.*", why::kResults},
      {"profiling.*", why::kProfiling},
      {"metrics.*", why::kLogging},
      {"checkpoint.*", why::kCheckpoints},
      {"validation.*", why::kEvaluation},
      {"eval.*", why::kEvaluation},
      {"lr-scheduler.*", why::kLearning},
      {"optimizer.*", why::kLearning},
      {"training.dataset*", why::kData},
      {"training.data*", why::kData},
      {"training.steps", why::kLength},
      {"training.max-norm", why::kNorm},
      {"training.seed", why::kLearning},
      {"training.deterministic", why::kLearning},
      {"training.gc-*", "garbage-collection pauses of the host are not modelled"},
      {"debug.*", why::kLearning},
      {"model.hf-assets-path", "where weights come from"},
      {"model.tokenizer-path", "where weights come from"},
      {"model.print-after-conversion", why::kLogging},
      {"activation-checkpoint.per-op-sac-force-recompute-mm-shapes-by-fqns",
       "of recomputation per operator"},
      {"activation-checkpoint.early-stop", "of recomputation per operator"},
      {"activation-checkpoint.preserve-rng-state", why::kNumerics},
      {"activation-checkpoint.determinism-check", why::kNumerics},
      {"comm.*", why::kProcesses},
      {"fault-tolerance.*", why::kProcesses},
      {"experimental.*", "how the program is extended"},
  };
  return list;
}

const std::vector<Unread>& torchtitan_unmodelled() {
  static const std::vector<Unread> list = {
      {"parallelism.enable-compiled-autograd", "the backward is not compiled"},
      {"parallelism.enable-fsdp-symm-mem", "gathers use NCCL's own buffers"},
      {"parallelism.spmd-backend", "layers are placed by DTensor"},
      {"parallelism.module-fqns-per-model-part", "layers are divided evenly among stages"},
      {"parallelism.expert-parallel-a2a-impl", "moe.dispatcher states how"},
      {"activation-checkpoint.memory-budget", "of the mode memory_budget alone"},
      {"compile.*", "torch.compile's own options"},
      {"memory-estimation.*", "memory is always forecast"},
  };
  return list;
}

}  // namespace

// torch.compile's budget of memory, 0.5 by default (torchtitan 0.2.0, config/job_config.py:
// memory_budget); 0 keeps inputs alone, and 1 is as without it.
void torchtitan_memory_budget(Draft& d, const Setting& mode) {
  const Setting* budget = d.find("activation-checkpoint.memory-budget");
  const double share = d.number("activation-checkpoint.memory-budget").value_or(0.5);
  for (const Setting* from : {&mode, budget}) {
    if (from == nullptr) {
      continue;
    }
    if (share <= 0 || share >= 1) {
      d.set(*from, "memory.recompute", share <= 0 ? "full" : "none");
    } else {
      d.drop("memory.recompute");
      d.set(*from, "memory.recompute.memory_budget", fmt::format("{}", share));
    }
  }
}

const Reader& torchtitan() {
  static const Reader reader = {
      "torchtitan",
      "torchtitan",
      {&torchtitan_rules(), &torchtitan_config_rules(), &common_rules(), &launcher_rules()},
      {&torchtitan_meaningless(), &torchtitan_config_meaningless(), &launcher_options()},
      {&torchtitan_config_unmodelled(), &torchtitan_unmodelled()},
      finish_torchtitan,
      false,
      {},
      true,
      {},
      {{"job.config-file", of_document}},
  };
  return reader;
}

}  // namespace stepcast::interop::launch
