// The sections of a job, in reading order.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>

#include "named.h"
#include "stepcast/job/nccl.h"

namespace stepcast::config {

using job::AttentionKernel;
using job::Job;
using job::Kernels;
using job::LossKernel;
using job::MoeRuntime;
using job::Nccl;
using job::Workload;

namespace {

using job::Finetune;

constexpr std::int64_t kMaxBlock = 1 << 20;  // tokens of a block of attention

// Modules as PEFT names them, without their suffix: q_proj is q.
const std::vector<std::string>& finetune_targets() {
  static const std::vector<std::string> names = {"q",  "k",    "v",   "o",  "gate",
                                                 "up", "down", "qkv", "all"};
  return names;
}

Field<Finetune> adapter_targets() {
  return custom<Finetune>(
      "targets",
      "Modules that have an adapter: q, k, v, o, gate, up, down; qkv and all mean several.",
      array_schema(enum_schema(finetune_targets())),
      [](Reader& r, const Value& v, Finetune& out) {
        if (v.kind != Value::Kind::sequence) {
          r.expected(v, "a list of modules such as [q, v]");
          return;
        }
        out.targets.clear();
        const auto add = [&](const std::string& name) {
          if (std::find(out.targets.begin(), out.targets.end(), name) == out.targets.end()) {
            out.targets.push_back(name);
          }
        };
        for (const Value& one : v.items) {
          if (!read_word(r, one, finetune_targets(), {})) {
            continue;
          }
          if (one.scalar == "qkv" || one.scalar == "all") {
            for (const char* name : {"q", "k", "v"}) {
              add(name);
            }
          }
          if (one.scalar == "all") {
            for (const char* name : {"o", "gate", "up", "down"}) {
              add(name);
            }
          } else if (one.scalar != "qkv") {
            add(one.scalar);
          }
        }
      },
      [](const Finetune& from) { return tree::strings(from.targets); });
}

const std::vector<std::string>& saved_modules() {
  static const std::vector<std::string> names = {"embedding", "head"};
  return names;
}

Field<Finetune> modules_to_save() {
  return custom<Finetune>(
      "modules_to_save",
      "lora, qlora: modules that are trained whole beside the adapters, each a copy of a frozen "
      "one that stays (PEFT's modules_to_save): embedding, head.",
      array_schema(enum_schema(saved_modules())),
      [](Reader& r, const Value& v, Finetune& out) {
        if (v.kind != Value::Kind::sequence) {
          r.expected(v, "a list of modules, such as [embedding, head]");
          return;
        }
        out.modules_to_save.clear();
        for (const Value& one : v.items) {
          if (read_word(r, one, saved_modules(), {}) &&
              std::find(out.modules_to_save.begin(), out.modules_to_save.end(), one.scalar) ==
                  out.modules_to_save.end()) {
            out.modules_to_save.push_back(one.scalar);
          }
        }
      },
      [](const Finetune& from) { return tree::strings(from.modules_to_save); });
}

const Table<Finetune>& finetune_table() {
  static const Table<Finetune> table = {
      integer("rank", &Finetune::rank, 1, kWide,
              "Rank of an adapter's product, or width of its bottleneck."),
      adapter_targets(),
      number("dropout", &Finetune::dropout, 0, 0.999,
             "Dropout on the inputs of LoRA's products (PEFT's lora_dropout)."),
      boolean("double_quantized", &Finetune::double_quantized,
              "qlora: the constants of quantised blocks are quantised as well; false: each block "
              "of 64 weights has a constant in fp32."),
      modules_to_save(),
      choice(
          "base", &Finetune::base,
          "qlora: the base's 4-bit weights. nf4: bitsandbytes, whose kernels make 16-bit weights "
          "ahead of every product; gptq: AutoGPTQ, whose PyTorch operators make them once a "
          "forward pass, and the backward pass keeps them."),
      boolean(
          "quantized", &Finetune::quantized,
          "llama_adapter, llama_adapter_v2: the base's weights have 4 bits, as qlora's (litgpt's "
          "option quantize)."),
      integer("prompt_length", &Finetune::prompt_length, 1, kWide,
              "llama_adapter, llama_adapter_v2: tokens of a layer's prompt."),
      integer(
          "start_layer", &Finetune::start_layer, 0, kWide,
          "llama_adapter, llama_adapter_v2: the first layer that has a prompt, counted from 0."),
  };
  return table;
}

// none, lora, or {lora: {rank: 16, targets: [q, v]}}.
Field<Workload> finetune() {
  using Kind = Finetune::Kind;
  static const Words<Kind> kinds = some_words(
      {Kind::lora, Kind::qlora, Kind::adapter, Kind::llama_adapter, Kind::llama_adapter_v2});
  static const Words<Kind> words = all_words<Kind>();
  Value map = type_schema("object");
  Value properties = tree::map();
  for (const auto& [name, kind] : kinds.words) {
    tree::put(properties, name, object_schema(specs(finetune_table())));
  }
  tree::put(map, "properties", std::move(properties));
  Field<Workload> f = custom<Workload>(
      "finetune",
      "none: every parameter is trained; {lora: {rank: 16, targets: [q, v]}}, {qlora: {...}} "
      "{adapter: {...}}, {llama_adapter: {...}} or {llama_adapter_v2: {...}}: "
      "the base model is frozen. The word alone takes the defaults.",
      any_of({enum_schema(words.names()), std::move(map)}),
      [](Reader& r, const Value& v, Workload& w) {
        w.finetune = {};
        if (v.kind != Value::Kind::map) {
          w.finetune.kind = read_word(r, v, words).value_or(Kind::none);
          return;
        }
        if (v.entries.size() != 1) {
          r.expected(v, "one of lora, qlora, adapter, llama_adapter and llama_adapter_v2");
          return;
        }
        const auto& entry = v.entries.front();
        for (const auto& [name, kind] : kinds.words) {
          if (entry.key == name) {
            w.finetune.kind = kind;
          }
        }
        if (w.finetune.kind == Kind::none) {
          r.unknown(entry, kinds.names());
          return;
        }
        Reader::Scope scope(r, entry.key);
        if (!is_null(entry.value)) {
          read_table(r, entry.value, finetune_table(), w.finetune);
        }
      },
      [](const Workload& w) -> std::optional<Value> {
        for (const auto& [name, kind] : kinds.words) {
          if (w.finetune.kind == kind) {
            Value v = tree::map();
            tree::put(v, name, write_table(finetune_table(), w.finetune));
            return v;
          }
        }
        return tree::string("none");
      });
  f.spec.one_of = true;
  return f;
}

Field<Workload> documents() {
  return custom<Workload>(
      "documents",
      "Lengths of the documents that are packed into one sequence; attention does not cross from "
      "one document to another. Left out: one document.",
      any_of({array_schema(integer_schema(1)), type_schema("null")}),
      [](Reader& r, const Value& v, Workload& w) {
        w.documents.clear();
        if (is_null(v)) {
          return;
        }
        if (v.kind != Value::Kind::sequence) {
          r.expected(v, "a list of lengths in tokens");
          return;
        }
        std::int64_t sum = 0;
        for (const Value& one : v.items) {
          if (const auto n = read_integer(r, one, 1, 1'000'000'000)) {
            w.documents.push_back(*n);
            sum += *n;
          }
        }
        if (w.sequence_length > 0 && sum > w.sequence_length) {
          r.fault(v, fmt::format("{} adds up to {} tokens, more than the sequence's {}", r.path(),
                                 sum, w.sequence_length));
        }
      },
      [](const Workload& w) { return tree::integers(w.documents); });
}

const Table<Workload>& workload_table() {
  static const Table<Workload> table = {
      integer("sequence_length", &Workload::sequence_length, 1, 1'000'000'000,
              "Tokens of one sequence."),
      integer("global_batch", &Workload::global_batch, 1, kManyBatches,
              "Sequences per optimizer step."),
      integer("micro_batch", &Workload::micro_batch, 1, kManyBatches,
              "Sequences per micro-batch of a data-parallel rank."),
      micro_batches(),
      choice("precision", &Workload::precision,
             some_words({DType::bf16, DType::fp16, DType::fp32, DType::tf32, DType::fp8,
                         DType::fp8_block, DType::mxfp8, DType::nvfp4, DType::mxfp4}),
             "Number format of the matrix products."),
      documents(),
      finetune(),
      optional_number("tokens", &Workload::tokens, 1, 1e18,
                      "Tokens of the whole run; the report states how many days they take."),
  };
  return table;
}

Field<MoeRuntime> balance() {
  using Kind = job::ExpertBalance::Kind;
  static const Words<Kind> loads = some_words({Kind::balanced, Kind::forced});
  return custom<MoeRuntime>(
      "balance",
      "Load of the experts: balanced, forced (by a forced router, also even), {spread: 1.3} (the "
      "highest load over the mean) or {shares: [...]} (the load of each expert).",
      any_of({enum_schema(loads.names()), type_schema("object")}),
      [](Reader& r, const Value& v, MoeRuntime& m) {
        m.balance = {};
        if (v.kind == Value::Kind::scalar) {
          if (const auto load = read_word(r, v, loads)) {
            m.balance.kind = *load;
          }
          return;
        }
        if (v.kind != Value::Kind::map || v.entries.size() != 1) {
          r.expected(v, "balanced, forced, {spread: 1.3} or {shares: [...]}");
          return;
        }
        const auto& entry = v.entries.front();
        Reader::Scope scope(r, entry.key);
        if (entry.key == "spread") {
          if (const auto x = read_number(r, entry.value, 1, 1e6)) {
            m.balance.kind = Kind::spread;
            m.balance.spread = *x;
          }
        } else if (entry.key == "shares") {
          if (entry.value.kind != Value::Kind::sequence) {
            r.expected(entry.value, "a list of loads, one per expert");
            return;
          }
          m.balance.kind = Kind::shares;
          for (const Value& one : entry.value.items) {
            if (const auto x = read_number(r, one, 0, 1e15)) {
              m.balance.shares.push_back(*x);
            }
          }
        } else {
          r.unknown(entry, {"spread", "shares"});
        }
      },
      [](const MoeRuntime& m) {
        Value v = tree::map();
        switch (m.balance.kind) {
          case Kind::balanced:
          case Kind::forced:
            return tree::string(to_string(m.balance.kind));
          case Kind::spread:
            tree::put(v, "spread", tree::number(m.balance.spread));
            return v;
          case Kind::shares:
            break;
        }
        Value shares = tree::list({});
        for (const double x : m.balance.shares) {
          shares.items.push_back(tree::number(x));
        }
        tree::put(v, "shares", std::move(shares));
        return v;
      });
}

const Table<MoeRuntime>& moe_runtime_table() {
  static const Table<MoeRuntime> table = {
      choice("dispatcher", &MoeRuntime::dispatcher, "How tokens reach their experts."),
      optional_number(
          "capacity_factor", &MoeRuntime::capacity_factor, 0.001, 1e6,
          "Capacity of an expert as a multiple of the balanced load; null: no token is dropped."),
      boolean("pad_to_capacity", &MoeRuntime::pad_to_capacity,
              "With a capacity: each expert's rows are padded to it, so that sizes are known ahead "
              "of routing."),
      balance(),
      boolean("grouped", &MoeRuntime::grouped,
              "The experts of a rank run as one grouped product; false: one after the other."),
      boolean("weighted_inside", &MoeRuntime::weighted_inside,
              "Rows are multiplied by the router's probabilities between an expert's two products, "
              "so that "
              "their outputs are not saved; false: where they are summed per token."),
      boolean("fp8_dispatch", &MoeRuntime::fp8_dispatch,
              "With the dispatcher deepep and fp8_block: tokens and gradients of experts' outputs "
              "travel in fp8 (DeepSeek-V3)."),
      boolean(
          "fused_permute", &MoeRuntime::fused_permute,
          "Rows are copied to their experts and summed back by a kernel each that follows a map "
          "of rows "
          "(Megatron-LM's moe_permute_fusion); false: by index_select and scatter_add."),
      boolean("gathered_biases", &MoeRuntime::gathered_biases,
              "Biases of experts' grouped products are copied for each row, in pieces of 4,096 "
              "rows, and added by PyTorch (AutoModel); false: as the system's other biases."),
      boolean(
          "one_hot", &MoeRuntime::one_hot,
          "Rows are copied to buffers of the experts' capacity and summed back by products with "
          "masks; each buffer is computed whole (GShard; MaxText's sparse_matmul: false)."),
      boolean("indexed", &MoeRuntime::indexed,
              "With the dispatcher alltoall: rows are moved by PyTorch's indexing, into zeros and "
              "through padded copies, and summed by a batched product in fp32 (torchtitan)."),
      boolean("wide_router", &MoeRuntime::wide_router,
              "The router's product runs in fp32, of a copy of the tokens that the backward pass "
              "keeps (torchtitan 0.3: autocast to fp32)."),
      boolean(
          "wide_weighing", &MoeRuntime::wide_weighing,
          "Results of experts are copied to fp32, which the backward pass keeps, and multiplied "
          "by the router's weights there (torchtitan 0.3); false: in their own type."),
      boolean("every_token", &MoeRuntime::every_token,
              "Every expert computes every token, weighted by zero where it was not routed to it "
              "(Llama 4 in transformers)."),
  };
  return table;
}

const Table<job::SplashAttention>& splash_table() {
  using job::SplashAttention;
  static const Table<SplashAttention> table = {
      integer("block", &SplashAttention::block, 1, kMaxBlock,
              "Side of the blocks of scores that the forward pass computes whole: the longer of "
              "MaxText's sa_block_q and sa_block_kv."),
      integer("backward_block", &SplashAttention::backward_block, 1, kMaxBlock,
              "The same of the backward pass (sa_block_q_dkv, sa_block_kv_dkv)."),
      boolean("fused_backward", &SplashAttention::fused_backward,
              "The backward pass is one kernel of five products; false: two kernels, of seven."),
  };
  return table;
}

// true stands for what Liger patches by default (liger-kernel 0.8.5,
// transformers/monkey_patch.py:259, apply_liger_kernel_to_llama).
Field<Kernels> liger_row() {
  Field<Kernels> row = some_of(
      "liger", &Kernels::liger,
      {"rope", "rms_norm", "glu", "cross_entropy", "fused_linear_cross_entropy"},
      "true, or a list such as [rms_norm, fused_linear_cross_entropy]",
      "Liger-Kernel's operators in the place of PyTorch's: all that it patches by default, or a "
      "list of its options; a loss among them is kernels.loss.");
  const auto read_list = row.read;
  row.reads([read_list](Reader& r, const Value& v, Kernels& into) {
    if (is_word(v, "true")) {
      into.liger = {"rope", "rms_norm", "glu", "fused_linear_cross_entropy"};
    } else if (is_word(v, "false")) {
      into.liger.clear();
    } else {
      read_list(r, v, &into);
    }
  });
  row.writes([](const Kernels& from) {
    return from.liger.empty() ? std::nullopt : std::optional(tree::strings(from.liger));
  });
  row.spec.schema = any_of({type_schema("boolean"), row.spec.schema});
  return row;
}

const Table<Kernels>& kernels_table() {
  static const Table<Kernels> table = {
      choice("attention", &Kernels::attention,
             "The attention kernel. Whichever fused one is named, TPUs run splash attention."),
      section("splash", &Kernels::splash, splash_table(), "Splash attention on TPUs."),
      choice("loss", &Kernels::loss, "The cross-entropy."),
      optional_boolean("loss_parallel", &Kernels::loss_parallel,
                       "An eager loss over tensor ranks: true: each computes the loss of its part "
                       "of the vocabulary (PyTorch's loss parallel); false: of the gathered logits "
                       "(torchtitan's disable_loss_parallel). Left out: as the system does."),
      liger_row(),
      boolean("compile", &Kernels::compile, "torch.compile fuses element-wise operators."),
      boolean("cuda_graph", &Kernels::cuda_graph, "Kernels are launched as CUDA graphs."),
      some_of(
          "cuda_graph_modules", &Kernels::cuda_graph_modules,
          {"attn", "mamba", "mlp", "moe", "moe_router", "moe_preprocess"},
          "a list of modules such as [attn, moe_router]",
          "With cuda_graph: what is captured of each layer, as Megatron-LM's cuda_graph_modules "
          "names it; left out: the whole step."),
      boolean("fused_casts", &Kernels::fused_casts,
              "An MLP's norm and activation write the 8-bit operands of fp8 and mxfp8 products "
              "themselves (Megatron-LM's use_transformer_engine_op_fuser)."),
      boolean(
          "casts_apart", &Kernels::casts_apart,
          "fp8_block: operands of weight gradients are cast by kernels of their own, and weights "
          "transposed for each input gradient (DeepSeek-V3); false: one kernel writes both."),
      boolean("fp8_attention", &Kernels::fp8_attention,
              "Fused attention runs in fp8 where products run in 8 bits or fewer (Transformer "
              "Engine's fp8_dpa)."),
      string("library", &Kernels::library,
             "The GEMM library whose measured table gives the times of matrix products."),
  };
  return table;
}

std::vector<std::string> strings(std::span<const std::string_view> words) {
  return {words.begin(), words.end()};
}

// NCCL ignores the case of its variables: "Ring" is "ring".
Field<Nccl> variable(const char* key, std::optional<std::string> Nccl::*member,
                     std::span<const std::string_view> names, const char* description) {
  return custom<Nccl>(
      key, description,
      any_of({enum_schema(strings(names)), type_schema("string"), type_schema("null")}),
      [=](Reader& r, const Value& v, Nccl& n) {
        if (is_null(v)) {
          n.*member = std::nullopt;
          return;
        }
        const auto known = strings(names);
        if (v.kind != Value::Kind::scalar) {
          read_word(r, v, known, {});
          return;
        }
        const auto rules = job::parse_nccl_rules(v.scalar, names);
        if (const auto* fault = std::get_if<job::NcclFault>(&rules)) {
          using What = job::NcclFault::What;
          const bool list = v.scalar.find_first_of(",;:^") != std::string::npos;
          if (fault->what == What::function) {
            const auto functions = strings(job::nccl_functions());
            r.fault(v, fmt::format("{} names the function '{}'; expected {}{}", r.path(),
                                   shown(fault->word), fmt::join(functions, " | "),
                                   suggestion(fault->word, functions)));
          } else if (list) {
            r.fault(v, fmt::format("{} names '{}'; expected {}{}", r.path(), shown(fault->word),
                                   fmt::join(known, " | "), suggestion(fault->word, known)));
          } else {
            read_word(r, v, known, {});
          }
          return;
        }
        std::string lower = v.scalar;
        std::transform(lower.begin(), lower.end(), lower.begin(),
                       [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
        n.*member = lower;
      },
      [=](const Nccl& n) { return n.*member ? tree::string(*(n.*member)) : tree::null(); });
}

// The text "2.18" or the number 2.18.
Field<Nccl> nccl_version() {
  return custom<Nccl>(
      "version",
      "NCCL's version, whose constants differ before 2.20 and before 2.24; null: the current.",
      any_of({type_schema("string"), type_schema("number"), type_schema("null")}),
      [](Reader& r, const Value& v, Nccl& n) {
        if (is_null(v)) {
          n.version = std::nullopt;
          return;
        }
        constexpr int kOldest = 210;
        constexpr int kNewest = 299;
        const auto number =
            v.kind == Value::Kind::scalar ? job::parse_nccl_version(v.scalar) : std::nullopt;
        if (number && *number >= kOldest && *number <= kNewest) {
          n.version = v.scalar;
        } else {
          r.expected(v, "a version of NCCL from 2.10 on, such as 2.18 or 2.23.4");
        }
      },
      [](const Nccl& n) { return n.version ? tree::string(*n.version) : tree::null(); });
}

const Table<Nccl>& nccl_table() {
  constexpr int kMaxCtas = 64;  // MAXCHANNELS
  static const Table<Nccl> table = {
      variable("algo", &Nccl::algo, job::nccl_algorithms(),
               "As NCCL_ALGO: a name, a list \"ring,tree\", an exclusion \"^nvls\", or by function "
               "\"allreduce:tree;allgather:ring\"; hierarchical is not an algorithm of NCCL: it "
               "means collectives in two levels, as frameworks compose them; null: NCCL chooses."),
      variable("proto", &Nccl::proto, job::nccl_protocols(),
               "As NCCL_PROTO, with the same syntax; null: NCCL chooses."),
      nccl_version(),
      optional_integer(
          "min_ctas", &Nccl::min_ctas, "", 1, kMaxCtas,
          "As NCCL_MIN_CTAS: the least number of channels, each of which takes one SM."),
      optional_integer("max_ctas", &Nccl::max_ctas, "", 1, kMaxCtas,
                       "As NCCL_MAX_CTAS: the largest number of channels."),
  };
  return table;
}

Field<Job> calibration() {
  return custom<Job>(
      "calibration",
      "Calibration files, or folders of them; auto: chosen by device, kernel library and fabric. "
      "With a list only its files are used; where the list has auto, files chosen automatically "
      "cover what the others do not.",
      any_of({type_schema("string"), array_schema(type_schema("string"))}),
      [](Reader& r, const Value& v, Job& j) {
        j.calibration.clear();
        if (is_null(v) || is_word(v, "auto")) {
          return;
        }
        if (v.kind == Value::Kind::scalar) {
          if (const auto path = read_string(r, v, "a path")) {
            j.calibration.push_back(*path);
          }
          return;
        }
        if (v.kind != Value::Kind::sequence) {
          r.expected(v, "auto, a path, or a list of paths");
          return;
        }
        for (const Value& one : v.items) {
          auto path = read_string(r, one, "a path");
          if (!path) {
            continue;
          }
          if (std::find(j.calibration.begin(), j.calibration.end(), *path) != j.calibration.end()) {
            r.fault(one, fmt::format("{} names '{}' twice", r.path(), shown(*path)));
            continue;
          }
          j.calibration.push_back(std::move(*path));
        }
        if (j.calibration == std::vector<std::string>{"auto"}) {
          j.calibration.clear();
        }
      },
      [](const Job& j) {
        return j.calibration.empty() ? tree::string("auto") : tree::strings(j.calibration);
      });
}

Field<Job> assumed() {
  return custom<Job>(
      "assumed",
      "Keys of the job whose values are assumed rather than known; each widens the intervals of "
      "time and memory. Where it is not stated: those of system, kernels.attention, "
      "memory.recompute and moe.dispatcher that the job leaves out.",
      array_schema(type_schema("string")),
      [](Reader& r, const Value& v, Job& j) {
        j.assumed.clear();
        if (is_null(v)) {
          return;
        }
        if (v.kind != Value::Kind::sequence) {
          r.expected(v, "a list of keys");
          return;
        }
        for (const Value& one : v.items) {
          auto key = read_string(r, one, "a key such as kernels.attention");
          if (key && std::find(j.assumed.begin(), j.assumed.end(), *key) == j.assumed.end()) {
            j.assumed.push_back(std::move(*key));
          }
        }
      },
      [](const Job& j) { return tree::strings(j.assumed); });
}

// A plain section here, since load.cpp has merged the named system below the job.
Field<Job> system_section() {
  Field<Job> f = section("system", &Job::system, system_table(),
                         "The training system, which sets defaults and behaviour.");
  f.spec.named = true;
  f.spec.children.insert(f.spec.children.begin(),
                         Spec{"use", "The training system to start from.", type_schema("string")});
  f.reads(
      [](Reader& r, const Value& v, Job& j) { read_table(r, v, system_table(), j.system, "use"); });
  return f;
}

}  // namespace

const Table<Job>& job_table() {
  static const Table<Job> table = {
      named("model", &Job::model, model_part(), "The model: a name, a config.json, or its fields."),
      named("cluster", &Job::cluster, cluster_part(), "The machine."),
      system_section(),
      section("workload", &Job::workload, workload_table(), "What one step trains on."),
      section("parallelism", &Job::parallelism, parallelism_table(), "How the work is divided."),
      section("moe", &Job::moe, moe_runtime_table(), "How mixture-of-experts layers run."),
      section("kernels", &Job::kernels, kernels_table(), "Which kernels run."),
      section("nccl", &Job::nccl, nccl_table(), "Settings that are forced upon NCCL."),
      section("memory", &Job::memory, memory_table(),
              "What is kept in memory, in which formats, and what is recomputed."),
      calibration(),
      assumed(),
      integer("seed", &Job::seed, 0, INT64_MAX, "Seed of random draws."),
  };
  return table;
}

const Spec& job_spec() {
  static const Spec spec = [] {
    Spec s{"", "A Stepcast job.", {}, true, false, specs(job_table())};
    s.children.insert(s.children.begin(),
                      Spec{"use", "Another job to start from.", type_schema("string")});
    return s;
  }();
  return spec;
}

}  // namespace stepcast::config
