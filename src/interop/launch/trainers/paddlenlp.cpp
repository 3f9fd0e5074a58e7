// PaddleNLP's JSON of arguments and PaddleFleetX's YAML.
#include <fmt/format.h>

#include "../options/launchers.h"
#include "../options/models.h"
#include "../options/offload.h"
#include "../options/parallelism.h"
#include "../options/rule.h"
#include "../options/sizes.h"
#include "../options/why.h"
#include "readers.h"
#include "trainer.h"

namespace stepcast::interop::launch {
namespace {

void paddlenlp_stage(Draft& d, const Setting& s, std::string_view key) {
  const std::string words = " " + plain_text(s.value) + " ";
  for (const char* n : {"1", "2", "3"}) {
    if (words.find(fmt::format(" stage{} ", n)) != std::string::npos) {
      d.set(s, key, std::string_view(fmt::format("zero{}", n)));
    }
  }
  if (words.find("offload") != std::string::npos) {
    d.set(s, "memory.offload.optimizer", "cpu");
  }
}

void granularity(Draft& d) {
  const Setting* on = d.present("recompute");
  const Setting* how = d.find("recompute-granularity");
  const Setting* fleet = d.present("Model.use-recompute");
  const Setting* fleet_how = d.find("Model.recompute-granularity");
  on = on != nullptr ? on : fleet;
  how = how != nullptr ? how : fleet_how;
  if (on == nullptr || !is_true(*on)) {
    return;
  }
  const std::string kind = how == nullptr ? "full" : plain_text(how->value);
  if (kind == "full") {
    d.set(how == nullptr ? *on : *how, "memory.recompute", "full");
  } else if (kind == "core_attn") {
    d.set(*how, "memory.recompute", "selective");
  } else if (kind == "full_attn") {
    d.set(*how, "memory.recompute.modules", word_list({"attn"}, how->origin));
  } else {
    d.refuse(*how,
             fmt::format("{} is '{}'; expected full | full_attn | core_attn", how->shown, kind));
  }
}

// Words of sharding_parallel_config, tensor_parallel_config and pipeline_parallel_config, which
// blanks separate.
struct Switch {
  std::string_view word;
  std::string_view key;
  std::string_view value;  // empty: no meaning for a forecast
};
constexpr Switch kSwitches[] = {
    {"split_param", "system.reduce_to_owner", "false"},
    {"enable_stage1_overlap", "parallelism.overlap.grad_reduce", "true"},
    {"enable_stage2_overlap", "parallelism.overlap.grad_reduce", "true"},
    {"enable_stage1_broadcast_overlap", "parallelism.overlap.param_gather", "true"},
    {"enable_stage1_allgather_overlap", "parallelism.overlap.param_gather", "true"},
    {"enable_dp_comm_overlap", "parallelism.overlap.grad_reduce", "true"},
    {"enable_sharding_comm_overlap", "parallelism.overlap.grad_reduce", "true"},
    {"enable_overlap_p2p_comm", "parallelism.overlap.pipeline", "true"},
    {"disable_partial_send_recv", "system.scatter_gather_p2p", "false"},
    {"disable_non_batch_p2p_comm", "system.batched_p2p", "true"},
    {"enable_mp_async_allreduce", "system.async_tensor_backward", "true"},
    {"enable_sp_async_reduce_scatter", "system.async_tensor_backward", "true"},
    {"enable_mp_fused_linear_param_grad_add", "system.gradient_accumulation_fusion", "true"},
    {"enable_dualpipev", "parallelism.schedule", "dualpipe_v"},
    {"enable_stage1_tensor_fusion", "", ""},
    {"disable_stage1_reduce_avg", "", ""},
    {"enable_mp_skip_c_identity", "", ""},
    {"disable_p2p_cache_shape", "", ""},
    {"enable_delay_scale_loss", "", ""},
    {"enable_timer", "", ""},
};

void switches(Draft& d, const Setting& s, std::string_view) {
  const std::string words = plain_text(s.value);
  std::size_t begin = 0;
  std::string left;
  while (begin < words.size()) {
    const std::size_t end = std::min(words.find_first_of(" ,", begin), words.size());
    const std::string word = words.substr(begin, end - begin);
    begin = end + 1;
    if (word.empty()) {
      continue;
    }
    bool known = false;
    for (const Switch& one : kSwitches) {
      if (one.word == word) {
        known = true;
        if (!one.key.empty()) {
          d.set(s, one.key, one.value);
        }
      }
    }
    if (!known) {
      left += (left.empty() ? "" : " ") + word;
    }
  }
  if (!left.empty()) {
    Fault remark{s.origin, fmt::format("{} names '{}', which is unknown: ignored in the forecast",
                                       s.shown, left)};
    d.launch().remarks.push_back(std::move(remark));
  }
}

void unless_minus_one(Draft& d, const Setting& s, std::string_view key) {
  const std::string n = plain_text(s.value);
  if (n != "-1" && !n.empty()) {
    d.set(s, key, s.value);
  }
}

void fleet_stage(Draft& d, const Setting& s, std::string_view key) {
  const Setting* degree = d.find("Distributed.sharding.sharding-degree");
  const std::string n = plain_text(s.value);
  if (degree != nullptr && plain_text(degree->value) == "1") {
    return;  // one rank has nothing to shard
  }
  if (n.size() == 1 && n[0] >= '1' && n[0] <= '3') {
    d.set(s, key, std::string_view("zero" + n));
  } else if (!n.empty()) {
    d.refuse(s, fmt::format("{} is '{}'; expected 1 to 3", s.shown, n));
  }
}

void unless_empty(Draft& d, const Setting& s, std::string_view key) {
  if (!plain_text(s.value).empty()) {
    d.set(s, key, s.value);
  }
}

const std::vector<Rule>& paddlenlp_rules() {
  static const std::vector<Rule> list = {
      {"tensor-parallel-degree", "parallelism.tensor", unless_minus_one},
      {"pipeline-parallel-degree", "parallelism.pipeline", unless_minus_one},
      {"data-parallel-degree", "parallelism.data", unless_minus_one},
      {"sep-parallel-degree", "parallelism.context.size", ulysses},
      {"context-parallel-degree", "parallelism.context.size", unless_minus_one},
      {"expert-parallel-degree", "parallelism.expert", unless_minus_one},
      {"virtual-pp-degree", "parallelism.virtual_pipeline"},
      {"sequence-parallel", "parallelism.sequence_parallel", yes},
      {"sharding", "parallelism.sharding", paddlenlp_stage},
      {"sharding-parallel-degree", "parallelism.shard_size", unless_minus_one},
      {"sharding-parallel-config", "", switches},
      {"tensor-parallel-config", "", switches},
      {"pipeline-parallel-config", "", switches},
      flag("recompute"),
      {"recompute-granularity", "memory.recompute", later},
      {"use-flash-attention", "kernels.attention",
       [](Draft& d, const Setting& s, std::string_view key) {
         d.set(s, key, is_true(s) ? "flash2" : "unfused");
       }},
      {"use-fused-rms-norm", "system.fused_norm", yes},
      {"use-fused-rope", "system.fused_rotary", yes},
      {"use-fused-linear-cross-entropy", "kernels.loss", if_true<"fused">},
      {"amp-master-grad", "memory.dtypes.gradients", if_true<"fp32">},
      // PaddleFleetX
      {"Global.global-batch-size", "workload.global_batch", later},
      {"Global.local-batch-size", "workload.global_batch", later},
      {"Global.micro-batch-size", "workload.micro_batch", unless_empty},
      {"Model.vocab-size", "model.vocab", unless_empty},
      {"Model.hidden-size", "model.hidden", unless_empty},
      {"Model.num-layers", "model.layers", unless_empty},
      {"Model.num-attention-heads", "model.heads", unless_empty},
      {"Model.ffn-hidden-size", "model.ffn", unless_empty},
      {"Model.hidden-dropout-prob", "model.dropout"},
      {"Model.attention-probs-dropout-prob", "model.dropout"},
      {"Model.max-position-embeddings", "model.max_positions", unless_empty},
      {"Model.use-recompute", "memory.recompute", later},
      {"Model.recompute-granularity", "memory.recompute", later},
      {"Model.virtual-pp-degree", "parallelism.virtual_pipeline", unless_empty},
      {"Model.sequence-parallel", "parallelism.sequence_parallel", yes},
      {"Model.use-flash-attn", "kernels.attention",
       [](Draft& d, const Setting& s, std::string_view key) {
         d.set(s, key, is_true(s) ? "flash2" : "unfused");
       }},
      {"Distributed.dp-degree", "parallelism.data", unless_empty},
      {"Distributed.mp-degree", "parallelism.tensor", unless_empty},
      {"Distributed.pp-degree", "parallelism.pipeline", unless_empty},
      {"Distributed.sharding.sharding-degree", "parallelism.shard_size",
       [](Draft& d, const Setting& s, std::string_view key) {
         const std::string n = plain_text(s.value);
         if (n != "1" && !n.empty()) {
           d.set(s, key, s.value);
         }
       }},
      {"Distributed.sharding.sharding-stage", "parallelism.sharding", fleet_stage},
      {"Distributed.sharding.sharding-offload", "memory.offload.optimizer", offloaded_if_true},
      {"Distributed.sharding.reduce-overlap", "parallelism.overlap.grad_reduce", yes},
      {"Distributed.sharding.broadcast-overlap", "parallelism.overlap.param_gather", yes},
      {"Data.Train.dataset.max-seq-len", "workload.sequence_length"},
      {"Engine.mix-precision.dtype", "workload.precision", number_format},
      {"Engine.mix-precision.enable", "workload.precision", later},
  };
  return list;
}

const std::vector<Unread>& paddlenlp_meaningless() {
  static const std::vector<Unread> list = {
      {"-base-", "another file: give it before this one"},
      {"input-dir", why::kData},
      {"min-learning-rate", why::kLearning},
      {"decay-steps", why::kLearning},
      {"scale-loss", why::kNumerics},
      {"amp-*", why::kNumerics},
      {"continue-training", why::kLoading},
      {"distributed-dataloader", why::kData},
      {"split", why::kData},
      {"unified-checkpoint*", why::kCheckpoints},
      {"fp16-opt-level", "O2, as the preset has it"},
      {"hybrid-parallel-topo-order", "the preset's order of ranks"},
      {"device", "the cluster states the device"},
      {"fuse-*", "fused products of the same cost"},
      {"use-hybrid-parallel", "the degrees state it"},
      {"Model.type-vocab-size", "a few rows"},
      {"Model.initializer-range", why::kLearning},
      {"Model.fused-linear", "fused products of the same cost"},
      {"Model.fuse-attn-qkv", "fused products of the same cost"},
      {"Model.module", "the implementation that the preset describes"},
      {"Model.name", "the implementation that the preset describes"},
      {"Global.seed", why::kLearning},
      {"Global.device", "the cluster states the device"},
      {"Optimizer.*", why::kLearning},
      {"Engine.*", "the length of the run, logging and checkpoints"},
      {"Data.*", why::kData},
      {"Profiler*", why::kProfiling},
      {"Distributed.fuse-sequence-parallel-allreduce", "fused reductions of norms"},
  };
  return list;
}

const std::vector<Unread>& paddlenlp_unmodelled() {
  static const std::vector<Unread> list = {
      {"pp-recompute-interval", "memory.recompute states which layers"},
      {"refined-recompute", "memory.recompute states which layers"},
      {"recompute-use-reentrant", why::kSame},
      {"no-recompute-layers", "memory.recompute states which layers"},
      {"Model.no-recompute-layers", "memory.recompute states which layers"},
      {"tensor-parallel-output", "the loss is vocabulary-parallel"},
      {"to-static", "the program as it runs eagerly"},
      {"enable-auto-parallel", "the degrees state the plan"},
      {"Quantization.*", "weights are not quantised"},
      {"Compress.*", "weights are not pruned"},
  };
  return list;
}

void finish_paddlenlp(Draft& d) {
  granularity(d);
  tidy_context(d);
  const bool fleet = d.present("Model.num-layers") != nullptr;
  if (!fleet) {
    finish_trainer(d);
    return;
  }
  d.assume(d.defaults(), "workload.precision", scalar("fp16", d.defaults()));
  d.assume(d.defaults(), "model.biases", scalar("true", d.defaults()));
  d.assume(d.defaults(), "model.tied_embeddings", scalar("true", d.defaults()));
  // Where Data does not state the sequence length, it is the number of positions.
  if (const Setting* s = d.find("Model.max-position-embeddings");
      s != nullptr && !d.stated("workload.sequence_length")) {
    d.set(*s, "workload.sequence_length", s->value);
  }
  const Setting* global = d.find("Global.global-batch-size");
  if (global != nullptr && !plain_text(global->value).empty()) {
    d.set(*global, "workload.global_batch", global->value);
  } else if (const Setting* local = d.find("Global.local-batch-size")) {
    // The batch of one data-parallel rank, which is divided into micro-batches.
    const auto n = d.integer("Global.local-batch-size");
    const std::int64_t ranks = d.data_ranks();
    if (n && ranks > 0) {
      d.set(*local, "workload.global_batch", product(*n, ranks));
    }
  }
}

}  // namespace

const Reader& paddlenlp() {
  static const Reader reader = {
      "paddlenlp",
      "paddlenlp",
      {&paddlenlp_rules(), &trainer_rules(), &common_rules(), &launcher_rules()},
      {&paddlenlp_meaningless(), &trainer_meaningless(), &launcher_options()},
      {&paddlenlp_unmodelled(), &trainer_unmodelled()},
      finish_paddlenlp,
  };
  return reader;
}

}  // namespace stepcast::interop::launch
