#include <cctype>

#include "named.h"

namespace stepcast::config {

using job::AttentionKernel;
using job::Job;
using job::Kernels;
using job::LossKernel;
using job::Memory;
using job::MoeRuntime;
using job::Nccl;
using job::Optimizer;
using job::Overlap;
using job::Parallelism;
using job::Recompute;
using job::Schedule;
using job::ScheduleName;
using job::Sharding;
using job::StateDTypes;
using job::Workload;

namespace {

// Formats that the interface names and no kernel table prices yet.
const std::vector<std::string> kLaterFormats = {"fp8_block", "mxfp8", "nvfp4"};

Words<job::DType> formats(const std::vector<std::string>& names) {
  Words<job::DType> out;
  for (const auto& name : names) {
    for (const auto& word : dtype_words().words) {
      if (word.first == name) {
        out.words.push_back(word);
      }
    }
  }
  out.later = kLaterFormats;
  return out;
}

const Words<job::DType>& state_formats() {
  static const Words<job::DType> words = formats({"fp32", "bf16", "fp16", "fp8", "int8"});
  return words;
}

const Table<Workload>& workload_table() {
  static const Table<Workload> table = {
      integer("sequence_length", &Workload::sequence_length, 1, 1'000'000'000,
              "Tokens of one sequence."),
      integer("global_batch", &Workload::global_batch, 1, kManyBatches,
              "Sequences per optimizer step."),
      integer("micro_batch", &Workload::micro_batch, 1, kManyBatches,
              "Sequences per micro-batch of a data-parallel rank."),
      choice("precision", &Workload::precision, formats({"bf16", "fp16", "fp32", "tf32", "fp8"}),
             "Number format of the matrix products."),
      only<Workload>("finetune", "none", "fine-tuning (LoRA, QLoRA, adapters)",
                     "Only none: training every parameter."),
      optional_number("tokens", &Workload::tokens, 1, 1e18,
                      "Tokens of the whole run, for days, cost and energy."),
  };
  return table;
}

const Table<Overlap>& overlap_table() {
  static const Table<Overlap> table = {
      boolean("tensor", &Overlap::tensor,
              "Split matrix products so that tensor-parallel collectives hide behind them."),
      boolean("pipeline", &Overlap::pipeline, "Stage sends and receives run beside compute."),
      boolean("grad_reduce", &Overlap::grad_reduce,
              "Gradient reduction runs beside the last backward."),
      boolean("param_gather", &Overlap::param_gather,
              "Parameter gathering runs beside the next forward."),
  };
  return table;
}

const Words<ScheduleName>& schedule_words() {
  static const Words<ScheduleName> words = {
      {{"1f1b", ScheduleName::one_f_one_b},
       {"gpipe", ScheduleName::gpipe},
       {"interleaved_1f1b", ScheduleName::interleaved_1f1b}},
      {"looped_bfs", "zb_h1", "zb_h2", "zb_v", "zb_auto", "v_half", "v_min", "dualpipe",
       "dualpipe_v", "chimera", "interlaced"}};
  return words;
}

// A plain word, with the composed names and files of the interface named in the fault.
void read_schedule_name(Reader& r, const Value& v, Schedule& s) {
  if (v.kind == Value::Kind::scalar) {
    if (v.scalar.find('+') != std::string::npos) {
      not_modelled(r, v, "'" + v.scalar + "' (a vocabulary schedule)",
                   "gpipe | 1f1b | interleaved_1f1b");
      return;
    }
    if (v.scalar.ends_with(".csv")) {
      not_modelled(r, v, "a schedule from a CSV file", "gpipe | 1f1b | interleaved_1f1b");
      return;
    }
  }
  if (const auto name = read_word(r, v, schedule_words())) {
    s.name = *name;
  }
}

const Table<Schedule>& schedule_table() {
  static const Table<Schedule> table = [] {
    Field<Schedule> name = choice("name", &Schedule::name, schedule_words(), "The schedule.");
    name.read = read_schedule_name;
    Field<Schedule> limit;
    limit.spec = {"memory_limit",
                  "Of automatic schedules: not modelled yet.",
                  type_schema("null"),
                  false,
                  false,
                  {}};
    limit.read = [](Reader& r, const Value& v, Schedule&) {
      if (!is_null(v)) {
        not_modelled(r, v, "a schedule's memory_limit", "null");
      }
    };
    limit.write = [](const Schedule&) -> std::optional<Value> { return std::nullopt; };
    return Table<Schedule>{
        std::move(name),
        optional_integer("group", &Schedule::group, "", 1, kManyRanks,
                         "Micro-batches per group of virtual stages; left out: the pipeline size."),
        integer("extra_warmup", &Schedule::extra_warmup, 0, 1'000'000,
                "Further micro-batches before the steady state."),
        std::move(limit),
    };
  }();
  return table;
}

Field<Parallelism> schedule() {
  Field<Parallelism> f;
  f.spec = {"schedule",
            "The order of forward and backward passes on each stage; auto: interleaved_1f1b with "
            "virtual_pipeline above 1, else 1f1b.",
            any_of({enum_schema({"auto", "gpipe", "1f1b", "interleaved_1f1b"}),
                    object_schema(specs(schedule_table()))}),
            false,
            false,
            {}};
  f.read = [](Reader& r, const Value& v, Parallelism& p) {
    if (is_null(v) || is_word(v, "auto")) {
      p.schedule = std::nullopt;
      return;
    }
    Schedule s;
    if (v.kind == Value::Kind::map) {
      read_table(r, v, schedule_table(), s);
      if (v.find("name") == nullptr) {
        r.fault(v, "the schedule has no name; expected {name: 1f1b, ...}");
      }
    } else {
      read_schedule_name(r, v, s);
    }
    p.schedule = s;
  };
  f.write = [](const Parallelism& p) -> std::optional<Value> {
    return p.schedule ? write_table(schedule_table(), *p.schedule) : tree::string("auto");
  };
  return f;
}

Field<Parallelism> context() {
  Field<Parallelism> f;
  Value one = enum_schema({});
  f.spec = {"context",
            "Context parallelism: not modelled yet, only 1.",
            type_schema("integer"),
            false,
            false,
            {}};
  tree::put(f.spec.schema, "const", tree::number(std::int64_t{1}));
  f.read = [](Reader& r, const Value& v, Parallelism& p) {
    const Value* size = v.kind == Value::Kind::map ? v.find("size") : &v;
    if (v.kind == Value::Kind::map) {
      for (const auto& entry : v.entries) {
        if (entry.key != "size" && entry.key != "kind") {
          r.unknown(entry, {"size", "kind"});
        }
      }
      if (const Value* kind = v.find("kind")) {
        read_word(r, *kind, {"p2p", "all_gather", "a2a", "hierarchical"}, {});
      }
      if (size == nullptr) {
        r.fault(v, "context parallelism has no size; expected {size: 2, kind: p2p}");
        return;
      }
    }
    if (const auto n = read_integer(r, *size, 1, kManyRanks)) {
      if (*n > 1) {
        not_modelled(r, *size, "context parallelism", "1");
      } else {
        p.context = 1;
      }
    }
  };
  f.write = [](const Parallelism& p) { return tree::number(std::int64_t{p.context}); };
  return f;
}

Field<Parallelism> expert() {
  Field<Parallelism> f = integer("expert", &Parallelism::expert, 1, kManyRanks,
                                 "Expert parallelism: not modelled yet, only 1.");
  const auto read = f.read;
  f.read = [read](Reader& r, const Value& v, Parallelism& p) {
    read(r, v, p);
    if (p.expert > 1) {
      not_modelled(r, v, "expert parallelism", "1 (experts are split by tensor parallelism)");
      p.expert = 1;
    }
  };
  return f;
}

const Words<Sharding>& sharding_words() {
  static const Words<Sharding> words = {{{"none", Sharding::none},
                                         {"zero1", Sharding::zero1},
                                         {"zero2", Sharding::zero2},
                                         {"zero3", Sharding::zero3},
                                         {"fsdp", Sharding::zero3},
                                         {"hsdp", Sharding::zero3}},
                                        {}};
  return words;
}

Field<Parallelism> layers_per_stage() {
  Field<Parallelism> f;
  Value ints = type_schema("array");
  Value item = type_schema("integer");
  tree::put(item, "minimum", tree::number(std::int64_t{0}));
  tree::put(ints, "items", std::move(item));
  f.spec = {
      "layers_per_stage",
      "Layers of each pipeline rank, or of each virtual stage in model order; left out: even.",
      std::move(ints),
      false,
      false,
      {}};
  f.read = [](Reader& r, const Value& v, Parallelism& p) {
    p.layers_per_stage.clear();
    if (is_null(v)) {
      return;
    }
    if (v.kind == Value::Kind::scalar) {
      not_modelled(r, v, is_word(v, "redistribute") ? "redistributing layers" : "a layout string",
                   "a list of layer counts");
      return;
    }
    if (v.kind != Value::Kind::sequence) {
      r.expected(v, "a list of layer counts");
      return;
    }
    for (const Value& one : v.items) {
      if (const auto n = read_integer(r, one, 0, kManyLayers)) {
        p.layers_per_stage.push_back(static_cast<int>(*n));
      }
    }
  };
  f.write = [](const Parallelism& p) -> std::optional<Value> {
    std::vector<Value> items;
    for (const int n : p.layers_per_stage) {
      items.push_back(tree::number(std::int64_t{n}));
    }
    return tree::list(std::move(items));
  };
  return f;
}

Field<Parallelism> accumulation() {
  Field<Parallelism> f;
  Spec reduce{"reduce",
              "When gradients are reduced: last (micro-batch); each is not modelled yet.",
              enum_schema({"last"}),
              false,
              false,
              {}};
  f.spec = {"accumulation", "Gradient accumulation.", {}, true, false, {reduce}};
  f.read = [](Reader& r, const Value& v, Parallelism&) {
    if (v.kind != Value::Kind::map) {
      r.expected(v, "{reduce: last}");
      return;
    }
    for (const auto& entry : v.entries) {
      if (entry.key != "reduce") {
        r.unknown(entry, {"reduce"});
      } else {
        Reader::Scope scope(r, entry.key);
        r.record(entry.value.origin);
        read_word(r, entry.value, {"last"}, {"each"});
      }
    }
  };
  f.write = [](const Parallelism&) -> std::optional<Value> {
    Value v = tree::map();
    tree::put(v, "reduce", tree::string("last"));
    return v;
  };
  return f;
}

const Table<Parallelism>& parallelism_table() {
  static const Table<Parallelism> table = {
      optional_integer("data", &Parallelism::data, "auto", 1, kManyRanks,
                       "Data-parallel size; auto: ranks / (tensor * context * pipeline)."),
      integer("tensor", &Parallelism::tensor, 1, kManyRanks, "Tensor-parallel size."),
      integer("pipeline", &Parallelism::pipeline, 1, kManyRanks, "Pipeline stages."),
      integer("virtual_pipeline", &Parallelism::virtual_pipeline, 1, kManyLayers,
              "Model chunks of each stage (interleaving)."),
      context(),
      expert(),
      integer("expert_tensor", &Parallelism::expert_tensor, 1, kManyRanks,
              "Tensor-parallel size of the experts; left out: that of the dense layers."),
      boolean("sequence_parallel", &Parallelism::sequence_parallel,
              "Norms and dropout split along the sequence (off with tensor 1)."),
      choice("sharding", &Parallelism::sharding, sharding_words(),
             "What data-parallel ranks share: zero1 optimizer states, zero2 gradients too, zero3 "
             "(fsdp) "
             "parameters too; hsdp is zero3 within shard_size ranks."),
      optional_integer("shard_size", &Parallelism::shard_size, "", 1, kManyRanks,
                       "Ranks that share one copy; left out: all data-parallel ranks."),
      schedule(),
      layers_per_stage(),
      section("overlap", &Parallelism::overlap, overlap_table(), "What runs beside compute."),
      accumulation(),
  };
  return table;
}

const Table<MoeRuntime>& moe_runtime_table() {
  static const Table<MoeRuntime> table = [] {
    Field<MoeRuntime> balance;
    balance.spec = {
        "balance",
        "Load of the experts: balanced (forced is the same load); a distribution is not "
        "modelled yet.",
        enum_schema({"balanced", "forced"}),
        false,
        false,
        {}};
    balance.read = [](Reader& r, const Value& v, MoeRuntime&) {
      if (v.kind == Value::Kind::scalar) {
        read_word(r, v, {"balanced", "forced"}, {});
      } else {
        not_modelled(r, v, "an expert load distribution", "balanced | forced");
      }
    };
    balance.write = [](const MoeRuntime&) { return tree::string("balanced"); };
    return Table<MoeRuntime>{
        choice("dispatcher", &MoeRuntime::dispatcher,
               Words<MoeRuntime::Dispatcher>{{{"allgather", MoeRuntime::Dispatcher::allgather},
                                              {"alltoall", MoeRuntime::Dispatcher::alltoall}},
                                             {"deepep", "hybridep"}},
               "How tokens reach their experts."),
        optional_number("capacity_factor", &MoeRuntime::capacity_factor, 0.001, 1e6,
                        "Expert capacity over the balanced load; null: no token is dropped."),
        std::move(balance),
    };
  }();
  return table;
}

const Table<Kernels>& kernels_table() {
  static const Table<Kernels> table = {
      choice("attention", &Kernels::attention,
             Words<AttentionKernel>{{{"unfused", AttentionKernel::unfused},
                                     {"flash1", AttentionKernel::flash1},
                                     {"flash2", AttentionKernel::flash2},
                                     {"flash3", AttentionKernel::flash3},
                                     {"cudnn", AttentionKernel::cudnn}},
                                    {}},
             "The attention kernel."),
      choice("loss", &Kernels::loss,
             Words<LossKernel>{{{"eager", LossKernel::eager},
                                {"fused", LossKernel::fused},
                                {"chunked", LossKernel::chunked},
                                {"vocab_parallel", LossKernel::vocab_parallel}},
                               {}},
             "The cross-entropy."),
      boolean("compile", &Kernels::compile, "torch.compile fuses element-wise operators."),
      boolean("cuda_graph", &Kernels::cuda_graph, "Kernels are launched as CUDA graphs."),
      string("library", &Kernels::library, "Whose measured GEMM table prices matrix products."),
  };
  return table;
}

// NCCL reads its variables in any case: "Ring" and "ring" are one.
Field<Nccl> variable(std::string key, std::optional<std::string> Nccl::*member,
                     std::vector<std::string> values, std::vector<std::string> later,
                     std::string description) {
  Field<Nccl> f;
  f.spec = {std::move(key),
            std::move(description),
            any_of({enum_schema(values), type_schema("null")}),
            false,
            false,
            {}};
  f.read = [=](Reader& r, const Value& v, Nccl& n) {
    if (is_null(v)) {
      n.*member = std::nullopt;
      return;
    }
    std::string lower = v.scalar;
    std::transform(lower.begin(), lower.end(), lower.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    if (v.kind == Value::Kind::scalar &&
        std::find(values.begin(), values.end(), lower) != values.end()) {
      n.*member = lower;
    } else {
      read_word(r, v, values, later);
    }
  };
  f.write = [=](const Nccl& n) { return n.*member ? tree::string(*(n.*member)) : tree::null(); };
  return f;
}

const Table<Nccl>& nccl_table() {
  static const Table<Nccl> table = {
      variable("algo", &Nccl::algo, {"ring", "tree", "nvls", "nvlstree"},
               {"collnetdirect", "collnetchain", "pat"}, "As NCCL_ALGO; null: NCCL chooses."),
      variable("proto", &Nccl::proto, {"ll", "ll128", "simple"}, {},
               "As NCCL_PROTO; null: NCCL chooses."),
  };
  return table;
}

const std::vector<std::pair<std::string, Recompute::Kind>> kCounted = {
    {"every", Recompute::Kind::every},
    {"uniform", Recompute::Kind::uniform},
    {"block", Recompute::Kind::block}};

void read_recompute(Reader& r, const Value& v, Recompute& out) {
  const std::string what = "none | selective | full | {every: n} | {uniform: n} | {block: n}";
  if (v.kind == Value::Kind::scalar) {
    const std::vector<std::pair<std::string, Recompute::Kind>> words = {
        {"none", Recompute::Kind::none},
        {"selective", Recompute::Kind::selective},
        {"full", Recompute::Kind::full}};
    if (const auto i = read_word(r, v, {"none", "selective", "full"}, {})) {
      out = {words[*i].second, 1};
    }
    return;
  }
  if (v.kind != Value::Kind::map || v.entries.size() != 1) {
    r.expected(v, what);
    return;
  }
  const auto& entry = v.entries.front();
  for (const auto& [key, kind] : kCounted) {
    if (entry.key == key) {
      Reader::Scope scope(r, key);
      r.record(entry.value.origin);
      if (const auto n = read_integer(r, entry.value, 1, kManyLayers)) {
        out = {kind, static_cast<int>(*n)};
      }
      return;
    }
  }
  if (entry.key == "modules" || entry.key == "per_op" || entry.key == "optimal") {
    r.fault(entry.origin,
            fmt::format("recompute by '{}' is not modelled yet; expected {}", entry.key, what));
    return;
  }
  r.unknown(entry, {"every", "uniform", "block"});
}

Field<Memory> recompute() {
  Field<Memory> f;
  std::vector<Value> alternatives = {enum_schema({"none", "selective", "full"})};
  for (const auto& [key, kind] : kCounted) {
    Value n = type_schema("integer");
    tree::put(n, "minimum", tree::number(std::int64_t{1}));
    Value properties = tree::map();
    tree::put(properties, key, std::move(n));
    Value object = type_schema("object");
    tree::put(object, "properties", std::move(properties));
    tree::put(object, "required", tree::list({tree::string(key)}));
    tree::put(object, "additionalProperties", tree::boolean(false));
    alternatives.push_back(std::move(object));
  }
  f.spec = {"recompute",
            "Activation recomputation: selective (attention core), full (every layer), every n-th "
            "layer, uniform units of n layers, or the first n layers of a chunk (block).",
            any_of(std::move(alternatives)),
            false,
            false,
            {}};
  f.spec.one_of = true;
  f.read = [](Reader& r, const Value& v, Memory& m) { read_recompute(r, v, m.recompute); };
  f.write = [](const Memory& m) -> std::optional<Value> {
    for (const auto& [key, kind] : kCounted) {
      if (m.recompute.kind == kind) {
        Value v = tree::map();
        tree::put(v, key, tree::number(std::int64_t{m.recompute.layers}));
        return v;
      }
    }
    return tree::string(m.recompute.kind == Recompute::Kind::none        ? "none"
                        : m.recompute.kind == Recompute::Kind::selective ? "selective"
                                                                         : "full");
  };
  return f;
}

const Table<StateDTypes>& state_table() {
  static const Table<StateDTypes> table = {
      choice("parameters", &StateDTypes::parameters, state_formats(),
             "As kept between steps; left out: that of the precision."),
      choice("gradients", &StateDTypes::gradients, state_formats(),
             "Main gradients as accumulated."),
      choice("reduce", &StateDTypes::reduce, state_formats(), "Gradients on the wire."),
      choice("moments", &StateDTypes::moments, state_formats(), "Optimizer moments."),
      optional_choice("master", &StateDTypes::master, state_formats(),
                      "The optimizer's copy of the parameters; null: none."),
  };
  return table;
}

const Table<Memory>& memory_table() {
  static const Table<Memory> table = {
      recompute(),
      only<Memory>("offload", "none", "offloading", "Only none: offloading is not modelled yet."),
      choice("optimizer", &Memory::optimizer,
             Words<Optimizer>{{{"adamw", Optimizer::adamw},
                               {"sgd", Optimizer::sgd},
                               {"adamw_8bit", Optimizer::adamw_8bit},
                               {"adamw_bf16", Optimizer::adamw_bf16}},
                              {"adafactor", "lion", "muon"}},
             "The optimizer."),
      section("dtypes", &Memory::dtypes, state_table(), "Number formats of the training state."),
      choice("allocator", &Memory::allocator,
             Words<Memory::Allocator>{
                 {{"default", Memory::Allocator::caching},
                  {"expandable_segments", Memory::Allocator::expandable_segments}},
                 {}},
             "The framework's memory allocator."),
  };
  return table;
}

Field<Job> calibration() {
  Field<Job> f;
  Value paths = type_schema("array");
  tree::put(paths, "items", type_schema("string"));
  f.spec = {"calibration",
            "Calibration files; auto: chosen by device, kernel library and fabric.",
            any_of({type_schema("string"), std::move(paths)}),
            false,
            false,
            {}};
  f.read = [](Reader& r, const Value& v, Job& j) {
    j.calibration.clear();
    if (is_null(v) || is_word(v, "auto")) {
      return;
    }
    if (v.kind == Value::Kind::scalar) {
      j.calibration.push_back(v.scalar);
      return;
    }
    if (v.kind != Value::Kind::sequence) {
      r.expected(v, "auto, a path, or a list of paths");
      return;
    }
    for (const Value& one : v.items) {
      if (auto path = read_string(r, one, "a path")) {
        j.calibration.push_back(std::move(*path));
      }
    }
  };
  f.write = [](const Job& j) -> std::optional<Value> {
    if (j.calibration.empty()) {
      return tree::string("auto");
    }
    std::vector<Value> items;
    for (const auto& path : j.calibration) {
      items.push_back(tree::string(path));
    }
    return tree::list(std::move(items));
  };
  return f;
}

// The named system was merged below the job before (load.cpp), so here it is a section like others.
Field<Job> system_section() {
  Field<Job> f = section("system", &Job::system, system_table(),
                         "The training system: its defaults and behaviour.");
  f.spec.named = true;
  f.spec.children.insert(
      f.spec.children.begin(),
      Spec{"use", "The training system to start from.", type_schema("string"), false, false, {}});
  f.read = [](Reader& r, const Value& v, Job& j) {
    read_table(r, v, system_table(), j.system, "use");
  };
  return f;
}

}  // namespace

const Table<Job>& job_table() {
  static const Table<Job> table = {
      named("model", &Job::model, model_part, "The model: a name, a config.json, or its fields."),
      named("cluster", &Job::cluster, cluster_part, "The machine."),
      system_section(),
      section("workload", &Job::workload, workload_table(), "What one step trains on."),
      section("parallelism", &Job::parallelism, parallelism_table(), "How the work is divided."),
      section("moe", &Job::moe, moe_runtime_table(), "How mixture-of-experts layers run."),
      section("kernels", &Job::kernels, kernels_table(), "Which kernels run."),
      section("nccl", &Job::nccl, nccl_table(), "What is forced upon NCCL."),
      section("memory", &Job::memory, memory_table(),
              "What is kept, recomputed, and in which format."),
      calibration(),
      integer("seed", &Job::seed, 0, INT64_MAX, "Seed of random draws."),
  };
  return table;
}

const Spec& job_spec() {
  static const Spec spec = [] {
    Spec s{"", "A Stepcast job.", {}, true, false, specs(job_table())};
    s.children.insert(
        s.children.begin(),
        Spec{"use", "Another job to start from.", type_schema("string"), false, false, {}});
    return s;
  }();
  return spec;
}

}  // namespace stepcast::config
