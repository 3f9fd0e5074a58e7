// Batch, parallelism, schedule and overlap of a row.
#include <algorithm>

#include "row_builder.h"

namespace stepcast::interop {

std::optional<Skipped> RowBuilder::write_workload() {
  Json w = Json::object();
  const std::int64_t length = *row["seq_len"].integer();
  w["sequence_length"] =
      model["arch"].text() == "t5" ? flags["decoder-seq-length"].integer_or(length) : length;
  const std::int64_t data = dp();
  const auto accumulation = row["grad_accum"].count();
  auto micro = row["micro_batch"].count();
  auto batch = row["global_batch"].count();
  const bool sharded = parallel["zero_stage"].integer_or(0) > 0;
  if (!batch && !row["num_gpus"].present() && sharded) {
    return Skipped{"incomplete", "neither the number of GPUs nor the batch, with sharded states"};
  }
  if (!batch && micro) {
    // Any batch that fills the pipeline has the same memory; groups of an interleaved schedule
    // are stages wide.
    batch = *micro * data * accumulation.value_or(2 * pp());
    assume("the global batch", kSizeUnknown);
  }
  if (!batch) {
    return Skipped{"incomplete", "neither the global batch nor the micro-batch is stated"};
  }
  if (!micro && accumulation) {
    micro = *batch / data / *accumulation;
  }
  if (!micro) {
    result.micro_batch_open = true;
    assume("the largest micro-batch that fits", kMicroBatchUnknown);
    micro = 1;
  }
  result.sequences_per_rank = *batch / data;
  w["global_batch"] = *batch;
  w["micro_batch"] = *micro;
  std::string precision = job["precision"].text();
  if (precision.empty()) {
    assume("bf16", kPrecisionUnknown);
    precision = "bf16";
  }
  // Transformer Engine's recipe Float8BlockScaling, "blockwise" to Megatron-LM's --fp8-recipe.
  if (precision == "fp8" && (scales_rows() || contains(row["precision"].text(), "blockwise"))) {
    precision = "fp8_block";
  }
  w["precision"] = precision;
  if (auto skipped = write_finetune(w)) {
    return skipped;
  }
  out["workload"] = w;
  return std::nullopt;
}

// NVIDIA's runs of Megatron-Core with stages interleave them (its own tables: one to four layers a
// chunk); a row that does not say so leaves it open. Stated as 1: they do not.
bool RowBuilder::interleaves_unsaid() const {
  const auto layers = model["layers"].integer();
  return contains(framework(), "Megatron-Core") && !functional() && pp() > 1 &&
         !parallel["vpp"].present() && !job["schedule"].present() && layers && *layers % pp() == 0;
}

std::int64_t RowBuilder::vpp() const {
  if (!interleaves_unsaid()) {
    return parallel["vpp"].count_or(1);
  }
  constexpr std::int64_t kMaxChunks = 8;
  const std::int64_t each = *model["layers"].integer() / pp();
  std::int64_t chunks = std::min(each, kMaxChunks);
  while (each % chunks != 0) {
    --chunks;
  }
  return chunks;
}

bool RowBuilder::overlaps_tensor() const {
  const std::string text = row["overlap"].text();
  return contains(text, "TP comm overlap") || contains(text, "--tp-comm-overlap");
}

void RowBuilder::write_parallelism() {
  const bool torch = contains(framework(), "torchtitan");
  Json p = Json::object();
  p["data"] = dp();
  p["tensor"] = tp();
  p["pipeline"] = pp();
  if (vpp() > 1) {
    p["virtual_pipeline"] = vpp();
    if (interleaves_unsaid()) {
      assume(std::to_string(vpp()) + " chunks a stage", kScheduleUnknown);
    }
  }
  if (cp() > 1) {
    // PyTorch's context parallelism gathers keys and values by default
    // (context_parallel_rotate_method).
    const bool trades = contains(row["attention"].text(), "CP all-to-all");
    p["context"] = {{"size", cp()}, {"kind", torch ? "all_gather" : trades ? "a2a" : "p2p"}};
    if (torch) {
      // Chosen after seeing its rows of 2024, which from 4 ranks on are slower by what contiguous
      // chunks cost (1.75 at 4, 1.88 at 8); no source says so: its later load balancer is
      // "headtail".
      p["context"]["balanced"] = false;
    }
  }
  write_experts(p);
  if (const auto sp = parallel["sequence_parallel"].flag()) {
    p["sequence_parallel"] = *sp && tp() > 1;  // without tensor parallelism it does nothing
  } else if (tp() > 1 && (ep() > 1 || overlaps_tensor())) {
    // Megatron-LM refuses experts over tensor ranks, and --tp-comm-overlap, without it.
    p["sequence_parallel"] = true;
  } else if (uses_megatron()) {
    p["sequence_parallel"] = false;
  }
  write_sharding(p);
  write_schedule(p);
  const Fields overlap = row["overlap"];
  if (overlap.is_map()) {
    Json o = Json::object();
    for (const char* key : {"grad_reduce", "param_gather"}) {
      if (const auto on = overlap[key].flag()) {
        o[key] = *on;
      }
    }
    if (functional() && flags["tp-comm-overlap"].is_true() && tp() > 1) {
      o["tensor"] = "ring";
    }
    p["overlap"] = o;
  } else if (overlap.text().rfind("none", 0) == 0 && !torch) {
    // torchtitan's says that tensor parallelism is not asynchronous: fully_shard always overlaps.
    p["overlap"] = {
        {"tensor", false}, {"pipeline", false}, {"grad_reduce", false}, {"param_gather", false}};
  } else {
    const std::string text = overlap.text();
    Json o = Json::object();
    if (overlaps_tensor()) {
      o["tensor"] = "ring";
    } else if (contains(text, "async TP") || contains(text, "AsyncTP")) {
      o["tensor"] = "async";
    }
    if (contains(text, "grad reduce-scatter + param all-gather overlap")) {
      o["grad_reduce"] = true;
      o["param_gather"] = true;
    }
    if (contains(text, "--overlap-grad-reduce")) {
      o["grad_reduce"] = true;
    }
    if (contains(text, "--overlap-param-gather")) {
      o["param_gather"] = true;
    }
    if (contains(text, "moe EP a2a overlapped")) {
      o["expert"] = true;
    }
    if (!o.empty()) {
      p["overlap"] = o;
    }
  }
  write_layers_per_stage(p);
  out["parallelism"] = p;
}

// The rows' short names: an automatic schedule with its memory limit, vocabulary passes over
// 1F1B, redistributed layers, full recomputation.
void RowBuilder::write_schedule(Json& p) {
  const std::string name = job["schedule"].text();
  if (pp() == 1 || name.empty()) {
    return;
  }
  if (name == "zb_auto_1p" || name == "zb_auto_2p") {
    p["schedule"] = {{"name", "zb_auto"}, {"memory_limit", name == "zb_auto_1p" ? 1 : 2}};
  } else if (name == "1f1b_redis") {
    p["schedule"] = "1f1b";
    p["layers_per_stage"] = "redistribute";
  } else if (name == "1f1b_recompute") {
    p["schedule"] = "1f1b";
  } else if (name == "vocab_1" || name == "vocab_2") {
    p["schedule"] = "1f1b+" + name;
  } else if (name.starts_with("vocab_") && name.size() > 8 && name[7] == '+') {
    p["schedule"] = name.substr(8) + "+" + name.substr(0, 7);
  } else if (const std::int64_t group = group_that_fits();
             name == "interleaved_1f1b" && group > 0) {
    p["schedule"] = {{"name", name}, {"group", group}};
  } else {
    p["schedule"] = name;
  }
}

// Megatron-LM refuses groups of micro-batches whose last one is smaller than the stages: where
// those of its default, as wide as the stages, are, the run had others. The least that does; 0: the
// default.
std::int64_t RowBuilder::group_that_fits() {
  const Json& w = out["workload"];
  const std::int64_t micro_batches = w["global_batch"].get<std::int64_t>() /
                                     w["micro_batch"].get<std::int64_t>() /
                                     std::max<std::int64_t>(1, dp());
  const auto fits = [&](std::int64_t group) {
    return micro_batches % group == 0 || micro_batches % group >= pp();
  };
  if (vpp() == 1 || micro_batches <= pp() || fits(pp())) {
    return 0;
  }
  std::int64_t group = pp();
  while (!fits(group)) {
    ++group;
  }
  return group;
}

// Experts are cut as the dense layers where the row does not say otherwise: Megatron-LM's default
// (--expert-tensor-parallel-size). Megatron-Bridge's is 1.
void RowBuilder::write_experts(Json& p) {
  const Fields moe = model["moe"];
  if (!moe.is_map()) {
    return;
  }
  p["expert"] = ep();
  Json e = Json::object();
  std::string dispatcher = job["dispatcher"].text();
  for (const char* name : {"hybridep", "deepep"}) {
    if (dispatcher.empty() &&
        contains(row["overlap"].text(), std::string("moe_dispatcher=") + name)) {
      dispatcher = name;
    }
  }
  if (dispatcher.empty() && contains(row["overlap"].text(), "full_iter")) {
    dispatcher =
        "hybridep";  // a graph of the whole step leaves no host to read all-to-all's counts
  }
  if (dispatcher.empty() && ep() > 1 && !functional()) {
    dispatcher = "alltoall";  // NVIDIA's recipes and papers of expert parallelism use it
    assume("the all-to-all dispatcher", kDispatcherUnknown);
  }
  if (const std::string flag = flags["moe-token-dispatcher-type"].text();
      !flag.empty() && flag != "flex") {
    dispatcher = flag;
  }
  if (!dispatcher.empty()) {
    e["dispatcher"] = dispatcher;
  }
  // Recipes with DeepEP's kind of dispatchers leave fine-grained experts whole: so do all of
  // NVIDIA's rows with them that state a size; Megatron-LM's own default is the tensor size.
  const bool whole =
      contains(framework(), "Bridge") || dispatcher == "deepep" || dispatcher == "hybridep";
  p["expert_tensor"] = parallel["etp"].count_or(whole ? 1 : tp());
  if (const auto capacity = job["moe_capacity"].number()) {
    e["capacity_factor"] = *capacity;
  }
  if (const std::string balance = job["moe_balance"].text();
      balance == "forced" || balance == "balanced") {
    e["balance"] = balance;
  }
  if (functional() && !flags["moe-grouped-gemm"].is_true()) {
    e["grouped"] = false;
  }
  if (!e.empty()) {
    out["moe"] = e;
  }
}

// Layers of each virtual stage where they do not divide. Frameworks count embedding and loss as a
// layer each; where that does not divide either, the surplus lies behind the first stage.
void RowBuilder::write_layers_per_stage(Json& p) {
  if (model["published"].present()) {
    return;  // its layers are not stated here
  }
  const std::int64_t chunks = pp() * vpp();
  const std::int64_t layers = out["model"]["layers"].get<std::int64_t>();
  const bool stated = flags["account-for-embedding-in-pipeline-split"].is_true() &&
                      flags["account-for-loss-in-pipeline-split"].is_true();
  if (p.contains("layers_per_stage") || chunks < 2 || chunks > 100'000 ||
      (layers % chunks == 0 && !stated)) {
    return;
  }
  const bool ends_count = (layers + 2) % chunks == 0;
  const std::int64_t each = (layers + (ends_count ? 2 : 0)) / chunks;
  std::vector<std::int64_t> split(static_cast<std::size_t>(chunks), each);
  if (ends_count) {
    --split.front();
    --split.back();
  } else {
    for (std::int64_t i = 1; i <= layers % chunks; ++i) {
      ++split[static_cast<std::size_t>(i % chunks)];
    }
  }
  if (!stated) {
    assume("how the layers are divided among the stages", kSizeUnknown);
  }
  p["layers_per_stage"] = split;
}

void RowBuilder::write_sharding(Json& p) {
  const auto stage = parallel["zero_stage"].integer();
  const char* const names[] = {"none", "zero1", "zero2", "zero3"};
  if (stage && *stage >= 0 && *stage <= 3) {
    p["sharding"] = names[*stage];
  } else if (parallel["fsdp"].is_true()) {
    p["sharding"] = "zero3";
  } else if (contains(row["overlap"].text(), "--overlap-param-gather")) {
    p["sharding"] = "zero1";  // which it refuses to run without
  } else if (uses_megatron() && !contains(framework(), "Megatron-LLaMA")) {
    p["sharding"] = "none";
  }
  const std::int64_t all = dp() * cp();
  std::int64_t group = job["zero_group"].integer_or(all);
  if (const auto instances = flags["num-distributed-optimizer-instances"].integer()) {
    group = all / std::max<std::int64_t>(1, *instances);
  }
  if (group > 0 && group < all && p.contains("sharding") && p["sharding"] != "none") {
    p["shard_size"] = group;
  }
}

}  // namespace stepcast::interop
