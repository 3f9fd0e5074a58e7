// Kernels and memory of a row: attention, loss, recomputation, allocator, formats.
#include <algorithm>
#include <array>
#include <regex>

#include "offload_of_row.h"
#include "row_builder.h"

namespace stepcast::interop {

// torchtitan compiles the loss with the model since March 2025 (components/loss.py), when nightly
// builds of torch became 2.8.
bool RowBuilder::compiles_loss() const {
  static const std::regex version(R"(torch 2\.(\d{1,3}))");
  const std::string stated = row["framework_version"].text();
  std::smatch found;
  constexpr int kSince = 8;
  return job["compile"].is_true() && std::regex_search(stated, found, version) &&
         std::stoi(found[1]) >= kSince;
}

// torchtitan's log lines: of the loss, of each TransformerBlock or of what is most of it. In 16
// bits, runs of edited parallelize.py compile blocks without that line.
bool RowBuilder::compiles_loss_alone() const {
  const text::Value* lines = row["compile"].value();
  if (lines == nullptr || lines->kind != text::Value::Kind::sequence ||
      job["precision"].text() == "bf16") {
    return false;
  }
  return std::none_of(lines->items.begin(), lines->items.end(), [](const text::Value& line) {
    return contains(line.scalar, "TransformerBlock") || contains(line.scalar, "feed-forward");
  });
}

// torchao's recipe "rowwise", the one of torchtitan's Float8Linear by 2026, where MXFP8 runs
// without a compiler as well: a row or a column is the block that shares a scale.
bool RowBuilder::scales_rows() const {
  return contains(framework(), "torchtitan") &&
         (contains(row["precision"].text(), "rowwise") ||
          (row["year"].integer_or(0) >= 2026 && job["compile"].is_true() &&
           !compiles_loss_alone()));
}

void RowBuilder::write_kernels() {
  Json k = Json::object();
  std::string chosen = attention();
  if (!chosen.empty()) {
    k["attention"] = chosen;
  } else {
    assume("the framework's attention kernel", kAttentionUnknown);
    // Megatron-LM without --use-flash-attn, which zero-bubble's examples of 2023 leave off and
    // Megatron-DeepSpeed's fork of 2021 lacks.
    if (zero_bubble() || contains(framework(), "Megatron-DeepSpeed")) {
      k["attention"] = "unfused";
    }
  }
  if (const auto compiled = job["compile"].flag()) {
    k["compile"] = *compiled && !compiles_loss_alone();
  }
  if (const auto graphs = job["cuda_graph"].flag()) {
    // Graphs of attention and router leave the experts to the host (Megatron-LM,
    // --cuda-graph-scope).
    const bool experts_outside =
        model["moe"].is_map() && contains(row["overlap"].text(), "cuda_graph=transformer_engine");
    k["cuda_graph"] = *graphs && !experts_outside;
  } else if (contains(row["overlap"].text(),
                      "full_iter")) {  // named in the recipe's helpers alone
    k["cuda_graph"] = true;
  }
  if (const std::string loss = job["loss"].text(); !loss.empty()) {
    // torchtune's chunks of logits all stand until their backward pass (CEWithChunkedOutputLoss).
    k["loss"] = contains(framework(), "torchtune") && loss == "chunked" ? "fused" : loss;
  } else if (contains(framework(), "llm-foundry")) {
    k["loss"] = "fused";  // its models' default loss_fn is fused_crossentropy
  } else if (contains(framework(), "torchtitan") && row["year"].integer_or(0) >= 2026) {
    k["loss"] = "chunked";  // ChunkedCELoss of 8 chunks is the default there
    assume("the framework's default loss", 0, kLossMemoryUnknown);
  } else if (contains(framework(), "torchtitan") && compiles_loss()) {
    k["loss"] = "fused";  // loss.py: loss_fn = torch.compile(loss_fn) with [training] compile
  } else if (contains(framework(), "torchtune") && job["recompute"].present()) {
    // A study of optimisations one by one: those that it does not name are off.
    k["loss"] = "eager";
    assume("a plain loss", 0, kLossMemoryUnknown);
  } else if (contains(framework(), "torchtune")) {
    assume("the framework's default loss", 0, kLossMemoryUnknown);
  } else if (aleph_alpha()) {
    k["loss"] = "eager";  // torch's cross-entropy of logits in fp32
  }
  if (!k.empty()) {
    out["kernels"] = k;
  }
}

// DeepSpeed's pipeline engine in bf16 has BF16_Optimizer since spring 2022, which sums gradients in
// fp32. BLOOM's runs of early 2022 went over to it when embedding and head became layers of the
// split (--pp-partition-method type:transformer|embedding): a row that does not say how it
// accumulates shows it by layers that divide only with both.
bool RowBuilder::accumulates_in_fp32() const {
  if (!contains(framework(), "Megatron-DeepSpeed") || job["precision"].text() != "bf16") {
    return false;
  }
  if (contains(row["precision"].text(), "accumulation")) {
    return contains(row["precision"].text(), "fp32 gradient accumulation");
  }
  if (row["year"].integer_or(9999) > 2022) {
    return true;
  }
  const std::int64_t layers = model["layers"].integer_or(0);
  return layers % pp() != 0 && (layers + 2) % pp() == 0;
}

void RowBuilder::write_memory() {
  Json m = Json::object();
  if (functional() && flags["optimizer"].text() == "muon") {
    m["optimizer"] = "muon";
  }
  const Fields recompute = job["recompute"];
  if (recompute.is_map()) {
    if (const auto every = recompute["every"].integer()) {
      m["recompute"] = {{"every", *every}};
    } else if (const Fields modules = recompute["modules"]; modules.present()) {
      Json names = Json::array();
      if (modules.value()->kind == text::Value::Kind::sequence) {
        for (const text::Value& one : modules.value()->items) {
          names.push_back(one.scalar);
        }
      }
      m["recompute"] = names.empty() ? Json("none") : Json{{"modules", names}};
    } else if (const std::string policy = recompute["per_op"].text(); !policy.empty()) {
      m["recompute"] = {{"per_op", policy}};
    } else {
      assume("the framework's default recomputation", kRecomputeUnknown);
    }
  } else if (job["schedule"].text() == "1f1b_recompute") {
    m["recompute"] = "full";
  } else if (recompute.present()) {
    m["recompute"] = recompute.text();
    if (contains(framework(), "torchtitan") && recompute.text() == "selective") {
      // selective_ac_option: every second layer at first, a policy of operators later.
      m["recompute"] =
          row["year"].integer_or(9999) <= 2024 ? Json{{"every", 2}} : Json{{"per_op", "sac"}};
      assume("which selective mode torchtitan ran", kRecomputeUnknown);
    }
    const std::int64_t layers = flags["recompute-num-layers"].integer_or(1);
    const std::string method = flags["recompute-method"].text();
    if (recompute.text() == "full" && (method == "uniform" || method == "block")) {
      m["recompute"] = {{method, layers}};
    }
  } else {
    assume("the framework's default recomputation", kRecomputeUnknown);
    if (contains(framework(), "litgpt") && parallel["zero_stage"].integer_or(0) == 3) {
      m["recompute"] = "full";  // FSDPStrategy(activation_checkpointing_policy={Block})
    }
  }
  if (const std::string allocator = job["allocator"].text(); !allocator.empty()) {
    m["allocator"] = allocator;
  }
  if (const auto moved = offloaded_activations(row)) {
    m["offload"] = {{"activations", "cpu"}};
    if (!moved->modules.empty()) {
      m["offload"]["activation_modules"] = moved->modules;
    }
    if (moved->layers > 0) {
      m["offload"]["activation_layers"] = moved->layers;
    }
  }
  const std::string precision = job["precision"].text();
  if (contains(framework(), "Bridge") && (precision == "fp8" || precision == "mxfp8")) {
    // fp8_param_gather of its recipes for current scaling and mxfp8 (mixed_precision.py).
    m["dtypes"]["parameters"] = "fp8";
  }
  if (half_gradients()) {
    const std::string half = job["precision"].text() == "fp16" ? "fp16" : "bf16";
    m["dtypes"] = {{"gradients", half}, {"reduce", half}};
  }
  if (accumulates_in_fp32()) {
    m["dtypes"] = {{"gradients", "fp32"}, {"reduce", "fp32"}};
  }
  if (functional() && job["precision"].text() == "fp16" &&
      !flags["accumulate-allreduce-grads-in-fp32"].is_true()) {
    m["dtypes"] = {{"gradients", "fp16"}, {"reduce", "fp16"}};  // Megatron's default for --fp16
  }
  if (row["offload"].text().starts_with("CPU offload")) {  // FSDP2's CPUOffloadPolicy
    m["offload"] = {
        {"optimizer", "cpu"}, {"parameters", "cpu"}, {"gradients", "cpu"}, {"prefetch", 0}};
  }
  if (!m.empty()) {
    out["memory"] = m;
  }
  static constexpr std::array<std::pair<const char*, const char*>, 4> algorithms{
      {{"Ring", "ring"}, {"Tree", "tree"}, {"NVLS", "nvls"}, {"NVLSTree", "nvlstree"}}};
  for (const auto& [environment, name] : algorithms) {
    if (row["env"]["NCCL_ALGO"].text() == environment) {
      out["nccl"] = {{"algo", name}};
    }
  }
}

}  // namespace stepcast::interop
