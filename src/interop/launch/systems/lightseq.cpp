// LightSeq under DeepSpeed and fairseq: ds_config.json and fairseq's arguments.
#include <fmt/format.h>

#include <algorithm>

#include "../options/launchers.h"
#include "../options/models.h"
#include "../options/optimizers.h"
#include "../options/rule.h"
#include "../options/sizes.h"
#include "../options/why.h"
#include "deepspeed.h"
#include "readers.h"

namespace stepcast::interop::launch {
namespace {

// fairseq's architectures by the end of their names: Vaswani et al., 1706.03762, table 3.
void architecture(Draft& d, const Setting& s, std::string_view) {
  const std::string name = plain_text(s.value);
  const bool big = name.find("big") != std::string::npos;
  if (name.find("transformer") == std::string::npos) {
    named_model(d, s, "");
    return;
  }
  d.set(s, "model.layers", 12);
  d.set(s, "model.encoder_layers", 6);
  d.set(s, "model.hidden", big ? 1024 : 512);
  d.set(s, "model.heads", big ? 16 : 8);
  d.set(s, "model.ffn", big ? 4096 : 2048);
  d.set(s, "model.biases", true);
  d.set(s, "model.norm", "layer");
}

const std::vector<Rule>& lightseq_rules() {
  static const std::vector<Rule> list = {
      {"arch", "model", architecture},
      {"max-tokens", "workload.micro_batch", later},
      {"update-freq", "workload.global_batch", later},
      flag("share-decoder-input-output-embed", "model.tied_embeddings", yes),
      flag("share-all-embeddings", "model.tied_embeddings", yes),
      {"dropout", "model.dropout"},
      {"optimizer", "memory.optimizer", optimizer_name},
      flag("fp16"),
      flag("bf16"),
      flag("use-torch-layer"),
  };
  return list;
}

const std::vector<Unread>& lightseq_meaningless() {
  static const std::vector<Unread> list = {
      {"adam-*", why::kLearning},
      {"clip-norm", why::kNorm},
      {"lr", why::kLearning},
      {"lr-scheduler", why::kLearning},
      {"warmup-*", why::kLearning},
      {"weight-decay", why::kLearning},
      {"criterion", why::kLearning},
      {"label-smoothing", why::kLearning},
      {"seed", why::kLearning},
      {"log-*", why::kLogging},
      {"no-progress-bar", why::kLogging},
      {"validate-*", why::kEvaluation},
      {"eval-*", why::kEvaluation},
      {"best-checkpoint-metric", why::kEvaluation},
      {"maximize-best-checkpoint-metric", why::kEvaluation},
      {"max-update", why::kLength},
      {"max-epoch", why::kLength},
      {"save-*", why::kCheckpoints},
      {"no-*-checkpoints", why::kCheckpoints},
      {"keep-*", why::kCheckpoints},
      {"user-dir", "how the program is extended"},
      {"deepspeed", "the other file is DeepSpeed's"},
      {"deepspeed-config", "its file is read as well"},
      {"task", why::kData},
      {"source-lang", why::kData},
      {"target-lang", why::kData},
      {"ddp-backend", why::kProcesses},
  };
  return list;
}

const std::vector<Unread>& lightseq_unmodelled() {
  static const std::vector<Unread> list = {
      {"enable-quant", "layers run in 16 bits"},
      {"quant-*", "layers run in 16 bits"},
  };
  return list;
}

// fairseq counts a batch in tokens, and so does the batch that it passes to DeepSpeed.
void finish_lightseq(Draft& d) {
  const Setting* format = d.present("fp16") != nullptr ? d.present("fp16") : d.find("fp16.enabled");
  if (format != nullptr && is_true(*format)) {
    d.set(*format, "workload.precision", "fp16");
  }
  const Setting* tokens = d.first({"max-tokens", "train-micro-batch-size-per-gpu"});
  const auto n = tokens == nullptr ? std::nullopt : d.integer(tokens->name);
  const std::int64_t length = d.size("workload.sequence_length", 0);
  if (!n || length == 0) {
    return;
  }
  const std::int64_t micro = std::max<std::int64_t>(*n / length, 1);
  d.set(*tokens, "workload.micro_batch", micro);
  const std::int64_t steps =
      d.integer("update-freq").value_or(d.integer("gradient-accumulation-steps").value_or(1));
  if (d.data_ranks() > 0) {
    d.set(*tokens, "workload.global_batch", product(product(micro, steps), d.data_ranks()));
  }
}

}  // namespace

const Reader& lightseq() {
  static const Reader reader = {
      "lightseq",
      "lightseq",
      {&lightseq_rules(), &common_rules(), &deepspeed_rules(), &launcher_rules()},
      {&lightseq_meaningless(), &deepspeed_meaningless(), &launcher_options()},
      {&lightseq_unmodelled(), &deepspeed_unmodelled()},
      finish_lightseq,
      false,
      {},
      false,
      {},
      {deepspeed_file("deepspeed-config")},
  };
  return reader;
}

}  // namespace stepcast::interop::launch
