// PatrickStar's arguments (examples/run_transformers.sh): chunks of parameters, the open ancestor
// of Angel-PTM.

#include "../options/batch.h"
#include "../options/launchers.h"
#include "../options/models.h"
#include "../options/offload.h"
#include "../options/rule.h"
#include "../options/why.h"
#include "readers.h"

namespace stepcast::interop::launch {
namespace {

const std::vector<Rule>& patrickstar_rules() {
  static const std::vector<Rule> list = {
      {"model-name", "model", named_model},
      {"batch-size", "workload.micro_batch", later},
      {"seq-len", "workload.sequence_length"},
      {"default-chunk-size", "system.bucket_elements"},
      flag("use-ckp", "memory.recompute",
           [](Draft& d, const Setting& s, std::string_view key) {
             d.set(s, key, is_true(s) ? "full" : "none");
           }),
      flag("use-fp16", "workload.precision", if_true<"fp16">),
      {"dist-plan", "parallelism.sharding",
       [](Draft& d, const Setting& s, std::string_view key) {
         d.set(s, key, plain_text(s.value) == "torch" ? "none" : "zero3");
       }},
      flag("with-activation-offload", "memory.offload.activations", offloaded_if_true),
  };
  return list;
}

const std::vector<Unread>& patrickstar_meaningless() {
  static const std::vector<Unread> list = {
      {"res-check", "a check"},
      {"short", "how the script starts"},
      {"path", why::kLogging},
      {"file", why::kLogging},
      {"use-fake-dist", "a check"},
      {"max-steps", why::kLength},
      {"num-steps", why::kLength},
      {"with-mem-profiler", why::kProfiling},
      {"with-async-mem-monitor", why::kProfiling},
      {"log-*", why::kLogging},
      {"slog-file", why::kLogging},
      {"release-after-init", why::kLoading},
      {"init-loss-scale-power", why::kNumerics},
  };
  return list;
}

const std::vector<Unread>& patrickstar_unmodelled() {
  static const std::vector<Unread> list = {
      {"use-cpu-embedding", "the embedding is on the GPU"},
      {"use-hybrid-adam", "the optimizer runs on the GPU"},
      {"with-static-partition", "every chunk is on the GPU"},
      {"with-tiling-linear", "linear layers are whole"},
      {"with-mem-saving-comm", "gathers are whole chunks"},
      {"with-mem-cache", "buffers come from the allocator"},
      {"with-async-move", "nothing moves to the host"},
      {"with-lightseq", "kernels as the preset has them"},
      {"overall-gpu-mem-ratio", "all of the GPU's memory is used"},
      {"overall-cpu-mem-ratio", "nothing moves to the host"},
      {"margin-use-ratio", "all of the GPU's memory is used"},
      {"warmup-gpu-chunk-mem-ratio", "all of the GPU's memory is used"},
  };
  return list;
}

void finish_patrickstar(Draft& d) { complete_batch(d, d.find("batch-size"), nullptr, nullptr); }

}  // namespace

const Reader& patrickstar() {
  static const Reader reader = {
      "patrickstar",
      "angel-ptm",
      {&patrickstar_rules(), &common_rules(), &launcher_rules()},
      {&patrickstar_meaningless(), &launcher_options()},
      {&patrickstar_unmodelled()},
      finish_patrickstar,
  };
  return reader;
}

}  // namespace stepcast::interop::launch
