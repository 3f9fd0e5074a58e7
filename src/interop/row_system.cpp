// The cluster and the generation of the training system of a row.
#include <fmt/format.h>

#include <algorithm>
#include <regex>

#include "cluster_of_row.h"
#include "row_builder.h"
#include "stepcast/config/config.h"

namespace stepcast::interop {

// Jobs of several NVL72 racks take 16 of a rack's 18 trays (Slurm's --segment=16), so that groups
// of powers of two stay inside.
constexpr int kRackSegment = 64;

std::optional<Skipped> RowBuilder::write_cluster() {
  const Fields device = job["device"];
  std::string name = device.is_map() ? device["use"].text() : device.text();
  if (!device.present() && functional()) {
    // Megatron-LM's first platform of functional tests. Hopper's cuBLAS workspaces are 48 MiB more.
    name = "a100-sxm-80";
    assume("an A100", 0, kDeviceMemoryUnknown);
  }
  const ReferenceNode reference = reference_node(name);
  const std::int64_t gpus = ranks();
  if (gpus < 1 || gpus > 10'000'000) {
    return Skipped{"incomplete", fmt::format("{} GPUs", gpus)};
  }
  if (reference.name.empty() && gpus > 1) {
    return Skipped{"no device", "no reference node for " + name};
  }
  const int per_node = static_cast<int>(row["gpus_per_node"].count_or(reference.gpus));
  const Spread on = spread(static_cast<int>(gpus), std::max(per_node, 1));
  Json c = Json::object();
  c["use"] = reference.name.empty() ? "dgx-a100" : std::string(reference.name);
  c["nodes"] = on.nodes;
  c["gpus_per_node"] = on.gpus_per_node;
  if (device.is_map()) {
    Json d = Json::object();
    for (const auto& entry : device.value()->entries) {
      d[entry.key] = entry.value.scalar;
    }
    c["device"] = d;
  } else {
    // A machine with a file of its own brings its device, as its links are achieved.
    if (name == "a100-sxm-80" && contains(row["inter_node"].text(), "Omni-Path")) {
      c["use"] = "jean-zay-a100";
    } else {
      c["device"] = name;
    }
  }
  if (reference.name.find("nvl72") != std::string_view::npos && gpus > kRackSegment &&
      gpus % kRackSegment == 0) {
    c["fabric"] = {{"nvlink_domain_gpus", kRackSegment}};
  }
  if (on.nodes > 1) {
    if (const auto nics = parse_nics(row["inter_node"].text(), std::max(per_node, 1))) {
      c["node"] = {{"nics", nics->per_node}, {"nic", fmt::format("{:g} Gb/s", nics->gigabits)}};
    } else {
      assume("the reference node's network", kNetworkUnknown);
    }
  }
  out["cluster"] = c;
  return std::nullopt;
}

// The release YY.MM that a framework's version names (NVIDIA's containers and recipes), as 100 YY +
// MM, or that of the PyTorch it names; else the middle of the row's year; 9999 where that is open
// as well.
int RowBuilder::release() const {
  static const std::regex form(R"((?:^|[^\d.])(2\d)\.(\d\d)(?!\d))");
  const std::string version = row["framework_version"].text();
  std::smatch m;
  if (std::regex_search(version, m, form)) {
    return 100 * std::stoi(m[1]) + std::stoi(m[2]);
  }
  // PyTorch 2.1 to 2.6.
  static constexpr int kPyTorch[] = {2310, 2401, 2404, 2407, 2410, 2501};
  static const std::regex torch(R"(PyTorch 2\.([1-6])\.)");
  if (std::regex_search(version, m, torch)) {
    return kPyTorch[std::stoi(m[1]) - 1];
  }
  const std::int64_t year = row["year"].integer_or(9999);
  return year < 2100 ? static_cast<int>(100 * (year - 2000) + 6) : 9999;
}

// The first preset of the list that exists: a software generation that has none falls back on its
// ancestor.
std::vector<std::string> RowBuilder::systems() {
  const std::string f = framework();
  const bool flash = contains(attention(), "flash") || contains(attention(), "cudnn");
  const bool sp = parallel["sequence_parallel"].is_true();
  const std::int64_t year = row["year"].integer_or(9999);
  if (contains(f, "zero-bubble") || contains(f, "VocabularyParallelism")) {
    return {"zero-bubble", "megatron-lm-2023"};
  }
  if (contains(f, "MaxText")) {
    return {"maxtext"};
  }
  if (contains(f, "Bridge")) {
    return {"megatron-bridge", "nemo", "megatron-lm"};
  }
  if (contains(f, "NeMo")) {
    return {release() < 2504 ? "nemo-2024" : "nemo", "megatron-lm"};
  }
  if (contains(f, "Megatron-DeepSpeed")) {
    return {"megatron-deepspeed"};
  }
  if (contains(f, "Megatron-LLaMA")) {
    return {"megatron-llama", "megatron-lm-2023"};
  }
  if (contains(f, "Megatron")) {
    const bool old_features = !flash && !sp && ep() == 1 &&
                              !parallel["sequence_parallel"].flag().has_value() &&
                              job["recompute"].text() == "full";
    if (year <= 2021) {
      return {"megatron-lm-2021"};
    }
    if (year <= 2022 || (year < 9999 && old_features)) {  // nothing newer shows
      return {"megatron-lm-2022"};
    }
    if (year <= 2024 && !contains(f, "Core")) {
      return {"megatron-lm-2023", "megatron-lm"};
    }
    if (release() < 2501) {
      return {"megatron-lm-2024", "megatron-lm"};
    }
    return {"megatron-lm"};
  }
  if (contains(f, "torchtune")) {
    return {"torchtune"};
  }
  if (contains(f, "torchtitan")) {
    return {"torchtitan", "pytorch-fsdp2"};
  }
  if (contains(f, "Composer") || contains(f, "llm-foundry")) {
    return {"composer", "pytorch-fsdp1", "pytorch-fsdp2"};
  }
  if (aleph_alpha()) {
    return {"aleph-alpha-scaling"};
  }
  if (contains(f, "InternEvo")) {
    return {"internevo"};
  }
  if (contains(f, "litgpt")) {
    return {"litgpt"};
  }
  if (contains(f, "HF Trainer")) {
    return {"transformers-deepspeed"};
  }
  if (contains(f, "DeepSpeed")) {
    return {"deepspeed"};
  }
  assume(fmt::format("'{}' behaves as Megatron-LM", f), kFrameworkUnknown);
  return {flash || year > 2022 ? "megatron-lm-2023" : "megatron-lm-2022", "megatron-lm"};
}

void RowBuilder::write_system() {
  const std::vector<std::string> known = config::list("systems");
  const std::vector<std::string> wanted = systems();
  const auto chosen = std::find_if(wanted.begin(), wanted.end(), [&](const std::string& name) {
    return std::find(known.begin(), known.end(), name) != known.end();
  });
  Json s = {{"use", chosen == wanted.end() ? wanted.back() : *chosen}};
  if (functional()) {
    s["gradient_accumulation_fusion"] = !flags["no-gradient-accumulation-fusion"].is_true();
    if (flags["transformer-impl"].text() == "local") {
      s["transformer_engine"] = false;
    }
    write_workspace(s);
    if (flags["no-masked-softmax-fusion"].is_true()) {
      s["fused_softmax"] = false;
    }
    if (flags["no-rope-fusion"].is_true()) {
      s["fused_rotary"] = false;
    }
  }
  if (contains(parallel["schedule"].text(), "all-reduce optimizer synchronisation")) {
    s["optimizer_post_validation"] = false;
  }
  const std::string raw = row["attention"].text();
  if (aleph_alpha()) {  // "+ RMS kernel": FlashAttention's fused norm, else PyTorch's operators
    s["fused_norm"] = contains(raw, "RMS kernel");
    s["fused_softmax"] = raw == "fused";  // Megatron-LM's kernel, against torch's operators
  }
  out["system"] = s;
}

// CUBLAS_WORKSPACE_CONFIG=:KiB:count sets the workspace of a cuBLAS handle.
void RowBuilder::write_workspace(Json& s) {
  const std::string stated = row["env"]["CUBLAS_WORKSPACE_CONFIG"].text();
  static const std::regex form(R"(:(\d{1,7}):(\d{1,3}))");
  std::smatch m;
  if (std::regex_match(stated, m, form)) {
    s["gemm_workspace"] = fmt::format("{} KiB", std::stoll(m[1]) * std::stoll(m[2]));
  }
}

std::string RowBuilder::attention() const {
  const std::string raw = row["attention"].text();
  if (aleph_alpha()) {
    return raw == "torch" || raw == "fused" ? "unfused"
           : contains(raw, "attentionv1")   ? "flash1"
                                            : "flash2";
  }
  // Transformer Engine of 2023 took FlashAttention where cuDNN's kernels do now; version 2 since
  // autumn.
  if (contains(framework(), "NeMo") && contains(raw, "flash") && release() < 2400) {
    return release() >= 2308 ? "flash2" : "flash1";
  }
  if (contains(raw, "attn_impl=triton")) {
    return "flash1";  // Triton's port of the first FlashAttention (llm-foundry's attn_impl: triton)
  }
  return job["attention"].text();
}

}  // namespace stepcast::interop
