// nnScaler's YAML of its command-line trainer.
#include <fmt/format.h>

#include "../options/batch.h"
#include "../options/launchers.h"
#include "../options/models.h"
#include "../options/optimizers.h"
#include "../options/rule.h"
#include "../options/why.h"
#include "readers.h"

namespace stepcast::interop::launch {
namespace {

void nnscaler_states(Draft& d, const Setting& s, std::string_view key) {
  d.set(s, key, is_true(s) ? "zero1" : "none");
}

void nnscaler_scheduler(Draft& d, const Setting& s, std::string_view key) {
  const std::string name = plain_text(s.value);
  if (name == "1f1b" || name == "gpipe") {
    d.set(s, key, std::string_view(name));
  } else if (name == "1f1b_interleaved") {
    d.set(s, key, "interleaved_1f1b");
  } else if (name == "chimera_direct") {
    d.set(s, key, "chimera");
  } else {
    d.refuse(s, fmt::format("{} is '{}'; expected 1f1b | 1f1b_interleaved | gpipe | chimera_direct",
                            s.shown, name));
  }
}

void stages(Draft& d, const Setting& s, std::string_view key) {
  if (plain_text(s.value) != "auto") {
    d.set(s, key, s.value);
  }
}

const std::vector<Rule>& nnscaler_rules() {
  static const std::vector<Rule> list = {
      {"compute-config.plan-ngpus", "parallelism.tensor", later},
      {"compute-config.runtime-ngpus", "cluster.nodes", later},
      {"compute-config.use-zero", "parallelism.sharding", nnscaler_states},
      {"compute-config.zero-ngroups", "parallelism.shard_size", later},
      {"compute-config.zero-use-reduce-scatter", "system.zero1_all_reduces", no},
      {"compute-config.use-async-reducer", "parallelism.overlap.grad_reduce", yes},
      {"compute-config.reducer-bucket-cap-mb", "system.bucket_bytes", mebibytes},
      {"compute-config.pas-config.pipeline-nstages", "parallelism.pipeline", stages},
      {"compute-config.pas-config.pipeline-scheduler", "parallelism.schedule", nnscaler_scheduler},
      {"compute-config.pas-config.pipeline-nmicros", "workload.micro_batch", later},
      {"pas-policy"},
      {"precision", "workload.precision", number_format},
      {"micro-batch-size", "workload.micro_batch", later},
      {"grad-accumulation-steps", "workload.global_batch", later},
      {"global-batch-size", "workload.global_batch", later},
      {"optimizer.type", "memory.optimizer", optimizer_name},
      {"optimizer.args.fused", "system.fused_optimizer", yes},
      {"model.args.model-id", "model", named_model},
      {"model.args.n-layer", "model.layers"},
      {"model.args.n-head", "model.heads"},
      {"model.args.n-embd", "model.hidden"},
      {"model.args.dropout", "model.dropout"},
      {"model.args.bias", "model.biases", yes},
      {"model.args.block-size", "workload.sequence_length"},
      {"model.args.vocab-size", "model.vocab"},
  };
  return list;
}

const std::vector<Unread>& nnscaler_meaningless() {
  constexpr const char* kTrace = "how the program is traced";
  static const std::vector<Unread> list = {
      {"compute-config.constant-folding", kTrace},
      {"compute-config.trace-strategy", kTrace},
      {"compute-config.use-end2end", kTrace},
      {"compute-config.inference-only", kTrace},
      {"compute-config.user-config.*", kTrace},
      {"init-env-fn", why::kProcesses},
      {"run-mode", why::kProcesses},
      {"gen-savedir", kTrace},
      {"gen-reuse", kTrace},
      {"broadcast-strategy", why::kLoading},
      {"instance-name", why::kLogging},
      {"seed", why::kLearning},
      {"max-train-steps", why::kLength},
      {"max-epochs", why::kLength},
      {"max-val-steps", why::kEvaluation},
      {"val-*", why::kEvaluation},
      {"enable-progress-bar", why::kLogging},
      {"progress-bar-name", why::kLogging},
      {"enable-log-progress", why::kLogging},
      {"log-*", why::kLogging},
      {"model.type", "the model's arguments state its sizes"},
      {"model.args.init-from", why::kLoading},
      {"model.args.meta-path", why::kData},
      {"optimizer.args.*", why::kLearning},
      {"optimizer.clip-gnorm", why::kNorm},
      {"lr-scheduler.*", why::kLearning},
      {"dataset.*", why::kData},
      {"dataloader.*", why::kData},
      {"dataset-sampler.*", why::kData},
      {"checkpoint.*", why::kCheckpoints},
      {"hook.*", why::kLogging},
      {"debug.*", why::kLogging},
      // partition constraints of autodist: a list
      {"list.*", "constraints on nnScaler's search; the plan here is the job's"},
  };
  return list;
}

const std::vector<Unread>& nnscaler_unmodelled() {
  static const std::vector<Unread> list = {
      {"compute-config.pas-config.*", "the plan is the job's; nnScaler's search is not run"},
      {"optimizer.*", "AdamW as it is by default"},
  };
  return list;
}

void finish_nnscaler(Draft& d) {
  const Origin start = d.defaults();
  if (d.present("model.args.n-embd") != nullptr) {
    // nanoGPT has learned positions, layer norm and tied embeddings.
    d.assume(start, "model.tied_embeddings", scalar("true", start));
  }
  if (d.value("workload.precision") == nullptr) {
    d.assume(start, "workload.precision", scalar("fp32", start));
  }
  const Setting* plan = d.find("compute-config.plan-ngpus");
  const auto gpus = d.integer("compute-config.plan-ngpus");
  const std::int64_t stages = d.size("parallelism.pipeline", 1);
  if (plan != nullptr && gpus && *gpus > 1 && !d.overridden("parallelism.tensor")) {
    const std::string policy = d.word("pas-policy");
    if (*gpus % stages != 0) {
      d.refuse(*plan, fmt::format("{} {} is not a multiple of {} stages; expected one", plan->shown,
                                  *gpus, stages));
    } else if (policy == "dp" || policy == "data") {
      d.meaningless(*plan, "every rank runs the whole model");
    } else {
      d.set(*plan, "parallelism.tensor", *gpus / stages);
      if (policy == "autodist") {
        d.launch().remarks.push_back(
            {plan->origin,
             "the plan of autodist's search is not known: tensor parallelism is used in its place "
             "(--set parallelism.tensor, parallelism.pipeline)"});
      }
    }
  }
  if (const auto n = d.integer("compute-config.runtime-ngpus"); n && *n > 0) {
    if (d.request().nodes == 0) {
      d.set(*d.find("compute-config.runtime-ngpus"), "processes", *n);
    }
  }
  if (const auto groups = d.integer("compute-config.zero-ngroups"); groups && *groups > 1) {
    const std::int64_t ranks = d.data_ranks();
    if (ranks > 0 && ranks % *groups == 0) {
      d.set(*d.find("compute-config.zero-ngroups"), "parallelism.shard_size", ranks / *groups);
    }
  }
  complete_batch(d, d.find("micro-batch-size"), d.find("grad-accumulation-steps"),
                 d.find("global-batch-size"));
}

}  // namespace

const Reader& nnscaler() {
  static const Reader reader = {
      "nnscaler",
      "nnscaler",
      {&nnscaler_rules(), &common_rules(), &launcher_rules()},
      {&nnscaler_meaningless(), &launcher_options()},
      {&nnscaler_unmodelled()},
      finish_nnscaler,
  };
  return reader;
}

}  // namespace stepcast::interop::launch
