// The reasons to leave a row out, and how each is recognised. An accepted one says that the row
// lies outside what is modelled; the last is a fault of ours until somebody shows that the row is
// wrong.
#include "skips.h"

#include <fmt/format.h>

#include <array>

#include "offload_of_row.h"

namespace stepcast::interop {
namespace {

// In reading order; `simulate validate --list` prints them.
constexpr std::array<SkipReason, 11> kReasons{{
    {"operator table", "the row measures single operators, not a training step"},
    {"single layer", "the row measures one layer, not of experts, outside a model"},
    {"no device", "the row names a device that has no description"},
    {"architecture", "the row does not state an encoder or a hybrid in a form that is read"},
    {"calculation", "the authors' own calculation, not a measurement"},
    {"framework", "a framework or engine whose behaviour is not modelled"},
    {"recompute", "a recomputation policy that is not modelled"},
    {"offload", "offloading in a form that is not modelled"},
    {"finetune", "adapters of a framework whose defaults are not known"},
    {"incomplete", "the row does not state a value for which there is no default"},
    {"not possible", "the job that the row states contradicts itself or cannot be simulated",
     false},
}};

bool one_of(std::string_view text, std::initializer_list<std::string_view> values) {
  for (const std::string_view value : values) {
    if (text == value) {
      return true;
    }
  }
  return false;
}

std::string kind_of_map(Fields field) {
  return field.is_map() && !field.value()->entries.empty() ? field.value()->entries.front().key
                                                           : "";
}

}  // namespace

bool measures_experts(Fields row) {
  const Fields model = row["model"];
  return model["arch"].text() == "single MoE layer" && model["moe"].is_map();
}

std::span<const SkipReason> skip_reasons() { return kReasons; }

std::string Skipped::text() const {
  return detail.empty() ? std::string(kind) : fmt::format("{}: {}", kind, detail);
}

std::optional<Skipped> why_skipped(Fields row) {
  const Fields model = row["model"];
  const Fields job = row["job"];
  if (!model.is_map() || !job.is_map()) {
    return Skipped{"operator table", ""};
  }
  const std::string arch = model["arch"].text();
  const bool experts = measures_experts(row);
  if (contains(arch, "single") && !experts) {
    return Skipped{"single layer", arch};
  }
  // Encoders with the launch flags that say how many of which layers there are (Megatron-LM's).
  const Fields flags = row["extra_args"];
  const bool encoders =
      flags.is_map() && (arch == "bert" || (arch == "t5" && flags["encoder-num-layers"].present() &&
                                            flags["decoder-num-layers"].present()));
  const bool published = model["published"].present();
  if (!published && !encoders && !experts && !one_of(arch, {"gpt", "llama", "moe"})) {
    return Skipped{"architecture", arch.empty() ? "not stated" : arch};
  }
  // Functional tests show memory alone, of which the device decides little (row_system.cpp).
  if (!job["device"].present() && !flags.is_map()) {
    return Skipped{"no device", ""};
  }
  const std::string framework = row["framework"].text();
  if (flags["use-megatron-fsdp"].is_true()) {
    return Skipped{"framework", "Megatron-FSDP"};
  }
  const Fields recompute = job["recompute"];
  if (recompute.is_map() &&
      !one_of(kind_of_map(recompute), {"as_stated", "every", "modules", "per_op"})) {
    return Skipped{"recompute", kind_of_map(recompute)};
  }
  const std::string offload = row["offload"].text();
  const bool states = contains(offload, "CPU offload");  // of FSDP: parameters, gradients, states
  if (!states && !offloaded_activations(row) &&
      (row["offload"].is_map() || contains(offload, "offload") ||
       contains(offload, "activation"))) {
    return Skipped{"offload", offload};
  }
  if (!published && ((!encoders && !model["layers"].present()) || !model["hidden"].present())) {
    return Skipped{"incomplete", "the model's size"};
  }
  if (!row["seq_len"].present()) {
    return Skipped{"incomplete", "the sequence length"};
  }
  return std::nullopt;
}

}  // namespace stepcast::interop
