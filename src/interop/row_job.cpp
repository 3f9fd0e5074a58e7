// A row's configuration as a job file. The table of the mapping and of the defaults is in this
// folder's README.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <regex>

#include "cluster_of_row.h"
#include "fields.h"
#include "offload_of_row.h"
#include "skips.h"
#include "stepcast/config/config.h"
#include "stepcast/interop/published_rows.h"

namespace stepcast::interop {
namespace {

using Json = nlohmann::ordered_json;  // JSON is YAML: the job is written as such

// Half widths (90 %) by which an unknown fact may move the step time; judgement, rounded up from
// the spread between the framework's two likeliest choices.
constexpr double kNetworkUnknown = 0.03;
constexpr double kAttentionUnknown = 0.05;
constexpr double kRecomputeUnknown = 0.08;
constexpr double kMicroBatchUnknown = 0.05;
constexpr double kVocabUnknown = 0.02;
constexpr double kPrecisionUnknown = 0.01;
constexpr double kFrameworkUnknown = 0.05;
constexpr double kSizeUnknown = 0.02;
constexpr double kDispatcherUnknown = 0.05;
constexpr double kCheapRecompute = 0.03;

// GPT-2's byte-pair vocabulary, the default of the frameworks' GPT examples (row README: 50257 by
// default).
constexpr std::int64_t kDefaultVocab = 50257;
// Llama's: with it, counted once, the zero-bubble models of 6.2B and 14.6B have as many parameters
// as they are named by (with GPT-2's 6.3 and 14.7).
constexpr std::int64_t kLlamaVocab = 32000;
// Megatron-LM, --hidden-dropout and --attention-dropout.
constexpr double kMegatronDropout = 0.1;

struct Builder {
  Fields row;
  Fields model = row["model"], parallel = row["parallel"], job = row["job"],
         flags = row["extra_args"];
  Json out = Json::object();
  RowJob result;

  explicit Builder(Fields fields) : row(fields) {}

  void assume(std::string what, double half_width) {
    result.assumptions.push_back({std::move(what), half_width});
  }

  std::int64_t tp() const { return parallel["tp"].count_or(1); }
  std::int64_t pp() const { return parallel["pp"].count_or(1); }
  std::int64_t vpp() const { return parallel["vpp"].count_or(1); }
  std::int64_t cp() const { return parallel["cp"].count_or(1); }
  std::int64_t ep() const { return parallel["ep"].count_or(1); }
  std::int64_t model_parallel() const { return tp() * pp() * cp(); }
  bool functional() const { return flags.is_map(); }

  std::int64_t ranks() {
    if (const auto n = row["num_gpus"].count()) {
      return *n;
    }
    if (const auto dp = parallel["dp"].count()) {
      return *dp * model_parallel();
    }
    return (std::max<std::int64_t>(8, model_parallel()) / model_parallel()) * model_parallel();
  }
  std::int64_t dp() {
    return parallel["dp"].count_or(std::max<std::int64_t>(1, ranks() / model_parallel()));
  }

  // ---------------------------------------------------------------- model
  bool llama_like() const { return model["arch"].text() != "gpt"; }

  void write_model() {
    Json m = Json::object();
    const std::int64_t hidden = *model["hidden"].integer();
    const std::int64_t heads = *model["heads"].integer();
    m["layers"] = *model["layers"].integer();
    m["hidden"] = hidden;
    m["heads"] = heads;
    if (const auto kv = model["kv_heads"].integer()) {
      m["kv_heads"] = *kv;
    }
    if (const auto dim = model["head_dim"].integer()) {
      m["head_dim"] = *dim;
    }
    const Fields moe = model["moe"];
    const std::int64_t expert_ffn = moe["moe_ffn"].integer_or(model["ffn"].integer_or(4 * hidden));
    m["ffn"] = model["ffn"].integer_or(moe.is_map() ? expert_ffn : 4 * hidden);
    write_vocab(m);
    const bool gated = model["gated_mlp"].flag().value_or(llama_like());
    m["gated_mlp"] = gated;
    m["tied_embeddings"] = model["tied_embeddings"].flag().value_or(!llama_like());

    std::string positions = model["position"].text();
    if (functional()) {
      positions = flags["position-embedding-type"].text();
      positions = positions.empty() || positions == "learned_absolute" ? "learned" : positions;
    }
    if (positions.empty()) {
      positions = llama_like() ? "rotary" : "learned";
    }
    if (positions == "rope") {
      positions = "rotary";
    }
    if (positions == "alibi") {  // a bias on the attention scores: no parameters, nothing moved
      positions = "none";
    }
    m["positions"] = positions;
    if (positions == "learned") {
      m["max_positions"] = flags["max-position-embeddings"].integer_or(*row["seq_len"].integer());
    }
    const bool rms = functional() ? flags["normalization"].text() == "RMSNorm" : llama_like();
    m["norm"] = rms ? "rms" : "layer";
    m["biases"] = functional() ? !flags["disable-bias-linear"].is_true()
                               : model["biases"].flag().value_or(!llama_like());
    m["dropout"] = dropout();
    if (flags["qk-layernorm"].is_true()) {
      m["qk_norm"] = true;
    }
    if (moe.is_map()) {
      write_moe(m, moe, expert_ffn);
    }
    write_window(m);
    if (const auto predictions = model["mtp_layers"].integer(); predictions && *predictions > 0) {
      m["mtp_layers"] = *predictions;
    }
    if (flags["multi-latent-attention"].is_true()) {
      // Defaults of Megatron-LM's arguments.
      m["mla"] = {{"q_lora_rank", flags["q-lora-rank"].integer_or(0)},
                  {"kv_lora_rank", flags["kv-lora-rank"].integer_or(32)},
                  {"qk_nope_dim", flags["qk-head-dim"].integer_or(128)},
                  {"qk_rope_dim", flags["qk-pos-emb-head-dim"].integer_or(64)},
                  {"v_dim", flags["v-head-dim"].integer_or(128)}};
      m.erase("kv_heads");
      m.erase("head_dim");
    }
    out["model"] = m;
  }

  // "alternate layers sliding/full" (gpt-oss); otherwise every layer has the window.
  void write_window(Json& m) {
    const auto window = model["sliding_window"].integer();
    if (!window || *window <= 0) {
      return;
    }
    m["sliding_window"] = *window;
    if (contains(model["window_pattern"].text(), "alternate")) {
      m["mixers"] = "wa";
    }
  }

  void write_vocab(Json& m) {
    std::optional<std::int64_t> vocab = job["vocab"].integer();
    if (!vocab) {
      vocab = model["vocab"].integer();
    }
    if (!vocab) {
      vocab = zero_bubble() ? kLlamaVocab : kDefaultVocab;
      assume(fmt::format("a vocabulary of {}", *vocab), kVocabUnknown);
    }
    const std::int64_t unit = (uses_megatron() ? 128 : 1) * tp();  // --make-vocab-size-divisible-by
    const bool padded = job["vocab"].present() && *vocab % tp() == 0;
    m["vocab"] = padded ? *vocab : (*vocab + unit - 1) / unit * unit;
  }

  double dropout() const {
    if (functional()) {
      return flags["hidden-dropout"].number().value_or(kMegatronDropout);
    }
    return llama_like() || !uses_megatron() ? 0.0 : kMegatronDropout;
  }

  void write_moe(Json& m, Fields moe, std::int64_t expert_ffn) {
    Json e = Json::object();
    e["experts"] = moe["experts"].integer_or(0);
    e["topk"] = moe["topk"].integer_or(1);
    e["ffn"] = expert_ffn;
    const std::int64_t shared_ffn = moe["shared_ffn"].integer_or(0);
    const std::int64_t shared = moe["shared_experts"].integer_or(0);
    if (shared > 0 || shared_ffn > 0) {
      e["shared_experts"] = std::max<std::int64_t>(shared, 1);
      if (shared_ffn > 0) {
        e["shared_ffn"] = shared_ffn / std::max<std::int64_t>(shared, 1);
      }
    }
    const std::int64_t dense =
        moe["dense_layers"].integer_or(moe["first_dense_layers"].integer_or(0));
    if (dense > 0) {
      e["dense_layers"] = dense;
    }
    m["moe"] = e;
  }

  // ---------------------------------------------------------------- cluster
  std::optional<Skipped> write_cluster() {
    const Fields device = job["device"];
    const std::string name = device.is_map() ? device["use"].text() : device.text();
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
      c["device"] = name;
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

  // ---------------------------------------------------------------- system
  std::string framework() const { return row["framework"].text(); }
  bool uses_megatron() const {
    return contains(framework(), "Megatron") || contains(framework(), "NeMo");
  }

  // The first preset of the list that exists: a software generation that has none falls back on its
  // ancestor.
  std::vector<std::string> systems() {
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
      return {"nemo", "megatron-lm"};
    }
    if (contains(f, "Megatron-DeepSpeed")) {  // forked from Megatron-LM in 2021
      return {"megatron-lm-2021"};
    }
    if (contains(f, "Megatron")) {
      const bool old_features = !flash && !sp && ep() == 1 &&
                                !parallel["sequence_parallel"].flag().has_value() &&
                                job["recompute"].text() == "full";
      if (year <= 2021 || (year < 9999 && old_features)) {
        return {"megatron-lm-2021"};
      }
      if (year <= 2022) {
        return {"megatron-lm-2022"};
      }
      if (year <= 2024 && !contains(f, "Core")) {
        return {"megatron-lm-2023", "megatron-lm"};
      }
      return {"megatron-lm"};
    }
    if (contains(f, "torchtitan") || contains(f, "torchtune")) {
      return {"torchtitan", "pytorch-fsdp2"};
    }
    if (contains(f, "Composer") || contains(f, "llm-foundry")) {
      return {"composer", "pytorch-fsdp1", "pytorch-fsdp2"};
    }
    if (contains(f, "litgpt")) {
      return parallel["fsdp"].is_true() ? std::vector<std::string>{"pytorch-fsdp1", "pytorch-fsdp2"}
                                        : std::vector<std::string>{"pytorch-ddp"};
    }
    if (contains(f, "DeepSpeed")) {
      return {"deepspeed"};
    }
    assume(fmt::format("'{}' behaves as Megatron-LM", f), kFrameworkUnknown);
    return {flash || year > 2022 ? "megatron-lm-2023" : "megatron-lm-2022", "megatron-lm"};
  }

  void write_system() {
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
    if (contains(framework(), "Megatron-DeepSpeed")) {
      s["cannot"] = Json::object();  // DeepSpeed brought ZeRO to the Megatron-LM of 2021
    }
    if (contains(parallel["schedule"].text(), "all-reduce optimizer synchronisation")) {
      s["optimizer_post_validation"] = false;
    }
    const std::string raw = row["attention"].text();
    if (aleph_alpha()) {  // "+ RMS kernel": FlashAttention's fused norm, else PyTorch's operators
      s["fused_norm"] = contains(raw, "RMS kernel");
      s["fused_softmax"] = raw == "fused";
    }
    out["system"] = s;
  }

  // CUBLAS_WORKSPACE_CONFIG=:KiB:count sets the workspace of a cuBLAS handle.
  void write_workspace(Json& s) {
    const std::string stated = row["env"]["CUBLAS_WORKSPACE_CONFIG"].text();
    static const std::regex form(R"(:(\d{1,7}):(\d{1,3}))");
    std::smatch m;
    if (std::regex_match(stated, m, form)) {
      s["gemm_workspace"] = fmt::format("{} KiB", std::stoll(m[1]) * std::stoll(m[2]));
    }
  }

  // Aleph Alpha's framework names its attention kernels its own way: "torch" and "fused" keep the
  // scores.
  bool aleph_alpha() const { return contains(framework(), "Aleph Alpha"); }
  bool zero_bubble() const { return contains(framework(), "sail-sg/zero-bubble"); }
  std::string attention() const {
    const std::string raw = row["attention"].text();
    if (aleph_alpha()) {
      return raw == "torch" || raw == "fused" ? "unfused"
             : contains(raw, "attentionv1")   ? "flash1"
                                              : "flash2";
    }
    return job["attention"].text();
  }

  // ZeRO-1 as DeepSpeed introduced it keeps gradients in the weights' format; Megatron's
  // distributed optimizer keeps fp32.
  bool half_gradients() const {
    return parallel["zero_stage"].integer_or(0) == 1 &&
           (aleph_alpha() || contains(framework(), "InternEvo"));
  }

  // ------------------------------------------------------- workload, parallelism, the rest
  std::optional<Skipped> write_workload() {
    Json w = Json::object();
    w["sequence_length"] = *row["seq_len"].integer();
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
    w["precision"] = precision;
    out["workload"] = w;
    return std::nullopt;
  }

  void write_parallelism() {
    Json p = Json::object();
    p["data"] = dp();
    p["tensor"] = tp();
    p["pipeline"] = pp();
    if (vpp() > 1) {
      p["virtual_pipeline"] = vpp();
    }
    if (cp() > 1) {
      // PyTorch's context parallelism gathers keys and values by default
      // (context_parallel_rotate_method).
      const bool torch = contains(framework(), "torchtitan");
      const bool trades = contains(row["attention"].text(), "CP all-to-all");
      p["context"] = {{"size", cp()}, {"kind", torch ? "all_gather" : trades ? "a2a" : "p2p"}};
    }
    write_experts(p);
    if (const auto sp = parallel["sequence_parallel"].flag()) {
      p["sequence_parallel"] = *sp && tp() > 1;  // without tensor parallelism it does nothing
    } else if (ep() > 1 && tp() > 1) {
      p["sequence_parallel"] = true;  // Megatron-LM refuses experts over tensor ranks without it
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
      p["overlap"] = o;
    } else if (overlap.text().rfind("none", 0) == 0) {
      p["overlap"] = {
          {"tensor", false}, {"pipeline", false}, {"grad_reduce", false}, {"param_gather", false}};
    } else {
      const std::string text = overlap.text();
      Json o = Json::object();
      if (contains(text, "TP comm overlap")) {
        o["tensor"] = "ring";
      } else if (contains(text, "async TP")) {
        o["tensor"] = "async";
      }
      if (contains(text, "grad reduce-scatter + param all-gather overlap")) {
        o["grad_reduce"] = true;
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
  void write_schedule(Json& p) {
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
    } else {
      p["schedule"] = name;
    }
  }

  // Experts are cut as the dense layers where the row does not say otherwise: Megatron-LM's default
  // (--expert-tensor-parallel-size). Megatron-Bridge's is 1.
  void write_experts(Json& p) {
    const Fields moe = model["moe"];
    if (!moe.is_map()) {
      return;
    }
    p["expert"] = ep();
    const bool bridge = contains(framework(), "Bridge");
    p["expert_tensor"] = parallel["etp"].count_or(bridge ? 1 : tp());
    Json e = Json::object();
    std::string dispatcher = job["dispatcher"].text();
    for (const char* name : {"hybridep", "deepep"}) {
      if (dispatcher.empty() &&
          contains(row["overlap"].text(), std::string("moe_dispatcher=") + name)) {
        dispatcher = name;
      }
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
    if (const auto capacity = job["moe_capacity"].number()) {
      e["capacity_factor"] = *capacity;
    }
    if (const std::string balance = job["moe_balance"].text();
        balance == "forced" || balance == "balanced") {
      e["balance"] = balance;
    }
    if (!e.empty()) {
      out["moe"] = e;
    }
  }

  // Layers of each virtual stage where they do not divide. Frameworks count embedding and loss as a
  // layer each; where that does not divide either, the surplus lies behind the first stage.
  void write_layers_per_stage(Json& p) {
    const std::int64_t chunks = pp() * vpp();
    const std::int64_t layers = *model["layers"].integer();
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
      assume("how the layers lie on the stages", kSizeUnknown);
    }
    p["layers_per_stage"] = split;
  }

  void write_sharding(Json& p) {
    const auto stage = parallel["zero_stage"].integer();
    const char* const names[] = {"none", "zero1", "zero2", "zero3"};
    if (stage && *stage >= 0 && *stage <= 3) {
      p["sharding"] = names[*stage];
    } else if (parallel["fsdp"].is_true()) {
      p["sharding"] = "zero3";
    } else if (uses_megatron()) {
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

  void write_kernels() {
    Json k = Json::object();
    std::string chosen = attention();
    if (!chosen.empty()) {
      k["attention"] = chosen;
    } else {
      assume("the framework's attention kernel", kAttentionUnknown);
      if (zero_bubble()) {  // Megatron-LM without --use-flash-attn, which the fork's examples of
                            // 2023 leave off
        k["attention"] = "unfused";
      }
    }
    if (const auto compiled = job["compile"].flag()) {
      k["compile"] = *compiled;
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
      k["loss"] = loss;
    } else if (contains(framework(), "llm-foundry")) {
      k["loss"] = "fused";  // its models' default loss_fn is fused_crossentropy
    }
    if (!k.empty()) {
      out["kernels"] = k;
    }
  }

  void write_memory() {
    Json m = Json::object();
    const Fields recompute = job["recompute"];
    if (recompute.is_map()) {
      if (const auto every = recompute["every"].integer()) {
        m["recompute"] = {{"every", *every}};
      } else if (recompute["modules"].present()) {
        // Norms and activations alone: their kernels again, a few percent of a layer.
        m["recompute"] = "none";
        assume("recomputed norms and activations take no time", kCheapRecompute);
      } else {
        assume("the framework's default recomputation", kRecomputeUnknown);
      }
    } else if (job["schedule"].text() == "1f1b_recompute") {
      m["recompute"] = "full";
    } else if (recompute.present()) {
      m["recompute"] = recompute.text();
      const std::int64_t layers = flags["recompute-num-layers"].integer_or(1);
      const std::string method = flags["recompute-method"].text();
      if (recompute.text() == "full" && (method == "uniform" || method == "block")) {
        m["recompute"] = {{method, layers}};
      }
    } else {
      assume("the framework's default recomputation", kRecomputeUnknown);
    }
    if (const std::string allocator = job["allocator"].text(); !allocator.empty()) {
      m["allocator"] = allocator;
    }
    if (const auto moved = offloaded_activations(row)) {
      m["offload"] = {{"activations", "cpu"}};
      if (moved->layers > 0) {
        m["offload"]["activation_layers"] = moved->layers;
      }
    }
    if (half_gradients()) {
      const std::string half = job["precision"].text() == "fp16" ? "fp16" : "bf16";
      m["dtypes"] = {{"gradients", half}, {"reduce", half}};
    }
    if (functional() && job["precision"].text() == "fp16" &&
        !flags["accumulate-allreduce-grads-in-fp32"].is_true()) {
      m["dtypes"] = {{"gradients", "fp16"}, {"reduce", "fp16"}};  // Megatron's default for --fp16
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
};

}  // namespace

double RowJob::half_width() const {
  double squares = 0;
  for (const Assumption& a : assumptions) {
    squares += a.half_width * a.half_width;
  }
  return std::sqrt(squares);
}

std::variant<RowJob, Skipped> job_of(const RowConfiguration& configuration) {
  const Fields row(&configuration.fields);
  if (auto skipped = why_skipped(row)) {
    return *skipped;
  }
  Builder builder(row);
  builder.write_model();
  if (auto skipped = builder.write_cluster()) {
    return *skipped;
  }
  builder.write_system();
  if (auto skipped = builder.write_workload()) {
    return *skipped;
  }
  builder.write_parallelism();
  builder.write_kernels();
  builder.write_memory();
  // Rows with launch flags are functional tests: one rank logs, from the process's start, on toy
  // models.
  builder.result.last_stage_only = builder.functional();
  builder.result.first_step_counts = builder.functional();
  builder.result.timed = !builder.functional();
  builder.result.yaml = builder.out.dump(2) + "\n";
  builder.out.erase("cluster");
  builder.result.experiment = builder.out.dump();
  return builder.result;
}

}  // namespace stepcast::interop
