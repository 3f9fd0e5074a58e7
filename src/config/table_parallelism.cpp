// How the work is divided: process grid, sharding, schedule, overlap.
#include "named.h"
#include "stepcast/schedule/schedule.h"
#include "stepcast/text/document.h"
#include "tables.h"

namespace stepcast::config {

using job::Overlap;
using job::Parallelism;
using job::Schedule;
using job::Sharding;

namespace {

// false and true are the two ends; the kinds between have names.
Field<Overlap> tensor_overlap() {
  using job::TensorOverlap;
  static const Words<TensorOverlap> words = [] {
    Words<TensorOverlap> out = all_words<TensorOverlap>();
    out.words.insert(out.words.begin(), {"false", TensorOverlap::none});
    out.words.insert(out.words.begin() + 2, {"true", TensorOverlap::ring});
    return out;
  }();
  Field<Overlap> f =
      choice("tensor", &Overlap::tensor, words,
             "Tensor-parallel collectives beside products: bulk, ring (true; products cut into "
             "chunks as Transformer "
             "Engine's user buffers do) or async (PyTorch's async tensor parallelism).");
  return f;
}

const Table<Overlap>& overlap_table() {
  static const Table<Overlap> table = {
      tensor_overlap(),
      boolean("pipeline", &Overlap::pipeline, "Stage sends and receives run beside compute."),
      boolean("grad_reduce", &Overlap::grad_reduce,
              "Gradient reduction runs beside the last backward (zero3: always)."),
      boolean("param_gather", &Overlap::param_gather,
              "Parameter gathering runs beside the next forward (zero3: always)."),
      boolean("expert", &Overlap::expert,
              "Tokens travel to experts beside another micro-batch's compute "
              "(--overlap-moe-expert-parallel-comm)."),
      boolean("shared_expert", &Overlap::shared_expert,
              "Shared experts run beside the dispatch (--moe-shared-expert-overlap)."),
  };
  return table;
}

const std::vector<std::string>& schedule_names() {
  static const std::vector<std::string> names(schedule::names().begin(), schedule::names().end());
  return names;
}

// NAME, NAME+vocab_1, NAME+vocab_2 or the path of a CSV file.
void read_schedule_name(Reader& r, const Value& v, Schedule& s) {
  if (v.kind != Value::Kind::scalar) {
    read_word(r, v, schedule_names(), {});
    return;
  }
  if (v.scalar.ends_with(".csv")) {
    if (const auto file = find_file(r, v, "schedules", "schedule's table")) {
      s.name = v.scalar;
      try {
        s.table = text::read_text(*file);
      } catch (const InputError& error) {
        r.add(error.faults());
      }
    }
    return;
  }
  const auto plus = v.scalar.find('+');
  if (plus == std::string::npos) {
    if (read_word(r, v, schedule_names(), {})) {
      s.name = v.scalar;
    }
    return;
  }
  Value base = v;
  base.scalar = v.scalar.substr(0, plus);
  Value vocabulary = v;
  vocabulary.scalar = v.scalar.substr(plus + 1);
  if (read_word(r, base, schedule_names(), {}) &&
      read_word(r, vocabulary, {"vocab_1", "vocab_2"}, {})) {
    s.name = base.scalar;
    s.vocabulary = vocabulary.scalar;
  }
}

std::string schedule_text(const Schedule& s) {
  return s.vocabulary.empty() ? s.name : s.name + "+" + s.vocabulary;
}

const Table<Schedule>& schedule_table() {
  static const Table<Schedule> table = [] {
    Field<Schedule> name;
    name.spec = {"name",
                 "The schedule, NAME+vocab_1, NAME+vocab_2, or a CSV file of PyTorch's pipelining.",
                 type_schema("string"),
                 false,
                 false,
                 {}};
    name.read = read_schedule_name;
    name.write = [](const Schedule& s) { return tree::string(schedule_text(s)); };
    return Table<Schedule>{
        std::move(name),
        optional_integer("group", &Schedule::group, "", 1, kManyRanks,
                         "Micro-batches per group of virtual stages; left out: the pipeline size."),
        integer("extra_warmup", &Schedule::extra_warmup, 0, 1'000'000,
                "Further micro-batches before the steady state."),
        number("memory_limit", &Schedule::memory_limit, 0.1, 1000,
               "Of automatic schedules: live activations in peaks of 1F1B."),
    };
  }();
  return table;
}

Field<Parallelism> schedule() {
  Field<Parallelism> f;
  f.spec = {"schedule",
            "The order of forward and backward passes on each stage; auto: interleaved_1f1b with "
            "virtual_pipeline above 1, else 1f1b.",
            any_of({type_schema("string"), object_schema(specs(schedule_table()))}),
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

// A size, or {size: 2, kind: p2p, ...}.
struct Context {
  int size = 1;
  job::ContextKind kind = job::ContextKind::p2p;
  int inner = 0;
  bool balanced = true;
};

const Table<Context>& context_table() {
  using job::ContextKind;
  static const Table<Context> table = {
      integer("size", &Context::size, 1, kManyRanks, "Context-parallel size."),
      choice("kind", &Context::kind,
             "How ranks see the other keys and values: a ring (p2p), an all-gather, all-to-all "
             "over heads (Ulysses), or "
             "all-to-all inside and a ring outside (hierarchical)."),
      integer("inner", &Context::inner, 0, kManyRanks,
              "Ranks of hierarchical's inner all-to-all; 0: those of a node."),
      boolean("balanced", &Context::balanced,
              "Under a causal mask each rank takes an early and a late chunk of the sequence."),
  };
  return table;
}

Field<Parallelism> context() {
  Field<Parallelism> f;
  f.spec = {
      "context",
      "Context parallelism: a size, or {size: 2, kind: p2p | all_gather | a2a | hierarchical}.",
      any_of({type_schema("integer"), object_schema(specs(context_table()))}),
      false,
      false,
      {}};
  f.read = [](Reader& r, const Value& v, Parallelism& p) {
    Context c;
    if (v.kind == Value::Kind::map) {
      if (v.find("size") == nullptr) {
        r.fault(v, "context parallelism has no size; expected {size: 2, kind: p2p}");
        return;
      }
      read_table(r, v, context_table(), c);
    } else if (const auto n = read_integer(r, v, 1, kManyRanks)) {
      c.size = static_cast<int>(*n);
    }
    p.context = c.size;
    p.context_kind = c.kind;
    p.context_inner = c.inner;
    p.context_balanced = c.balanced;
  };
  f.write = [](const Parallelism& p) -> std::optional<Value> {
    if (p.context == 1) {
      return tree::number(std::int64_t{1});
    }
    return write_table(context_table(),
                       Context{p.context, p.context_kind, p.context_inner, p.context_balanced});
  };
  return f;
}

// true, false, or the ranks among which gathered parameters are sharded again.
Field<Parallelism> reshard() {
  Field<Parallelism> f;
  f.spec = {"reshard_after_forward",
            "zero3: gathered parameters are dropped after the forward pass (true), kept for the "
            "backward (false), or "
            "kept in shards of so many ranks.",
            any_of({type_schema("boolean"), type_schema("integer")}),
            false,
            false,
            {}};
  f.read = [](Reader& r, const Value& v, Parallelism& p) {
    if (is_word(v, "true") || is_word(v, "false")) {
      p.reshard_after_forward = is_word(v, "true");
      p.reshard_size = 0;
    } else if (const auto n = read_integer(r, v, 2, kManyRanks)) {
      p.reshard_after_forward = true;
      p.reshard_size = static_cast<int>(*n);
    }
  };
  f.write = [](const Parallelism& p) -> std::optional<Value> {
    return p.reshard_size > 0 ? tree::number(std::int64_t{p.reshard_size})
                              : tree::boolean(p.reshard_after_forward);
  };
  return f;
}

const Table<job::ZeroPlusPlus>& zeropp_table() {
  using job::ZeroPlusPlus;
  static const auto quantised = [](std::string key, std::optional<job::DType> ZeroPlusPlus::*member,
                                   const char* word, std::string description) {
    Field<ZeroPlusPlus> f;
    f.spec = {std::move(key),
              std::move(description),
              any_of({enum_schema({word}), type_schema("null")}),
              false,
              false,
              {}};
    f.read = [=](Reader& r, const Value& v, ZeroPlusPlus& z) {
      if (is_null(v)) {
        z.*member = std::nullopt;
      } else if (read_word(r, v, {word}, {})) {
        z.*member = job::DType::int8;
      }
    };
    f.write = [=](const ZeroPlusPlus& z) { return z.*member ? tree::string(word) : tree::null(); };
    return f;
  };
  static const Table<ZeroPlusPlus> table = {
      quantised("weights", &ZeroPlusPlus::weights, "int8",
                "Parameters are gathered as int8 (qwZ)."),
      quantised("gradients", &ZeroPlusPlus::gradients, "int4",
                "Gradients are reduced as int4 by all-to-all, inside and between nodes (qgZ)."),
      integer("partition", &ZeroPlusPlus::partition, 0, kManyRanks,
              "Ranks that hold a second copy for the backward gather (hpZ); 0: none."),
  };
  return table;
}

// The stages of ZeRO, and two names of the third: PyTorch's, whole and within groups.
const Words<Sharding>& sharding_words() {
  static const Words<Sharding> words = [] {
    Words<Sharding> out = all_words<Sharding>();
    out.words.emplace_back("fsdp", Sharding::zero3);
    out.words.emplace_back("hsdp", Sharding::zero3);
    return out;
  }();
  return words;
}

// hsdp shards within groups: it needs their size, which the table reads before.
Field<Parallelism> sharding() {
  Field<Parallelism> f = choice(
      "sharding", &Parallelism::sharding, sharding_words(),
      "What data-parallel ranks share: zero1 optimizer states, zero2 gradients too, zero3 (fsdp) "
      "parameters too; hsdp is zero3 within shard_size ranks.");
  const auto read = f.read;
  f.read = [read](Reader& r, const Value& v, Parallelism& p) {
    read(r, v, p);
    if (is_word(v, "hsdp") && !p.shard_size) {
      r.fault(v, "hsdp without shard_size; expected the ranks that share one copy");
    }
  };
  return f;
}

// A list, "redistribute", or a layout string.
Field<Parallelism> layers_per_stage() {
  Field<Parallelism> f;
  Value ints = type_schema("array");
  Value item = type_schema("integer");
  tree::put(item, "minimum", tree::number(std::int64_t{0}));
  tree::put(ints, "items", std::move(item));
  f.spec = {"layers_per_stage",
            "Layers of each pipeline rank, or of each virtual stage in model order; redistribute: "
            "stages take equal time with "
            "the output layer; or Megatron-LM's layout string, such as \"Et*3|(tt|)*29,m|L\"; left "
            "out: even.",
            any_of({std::move(ints), type_schema("string")}),
            false,
            false,
            {}};
  f.read = [](Reader& r, const Value& v, Parallelism& p) {
    p.layers_per_stage.clear();
    p.layout.clear();
    p.redistribute = false;
    if (is_null(v)) {
      return;
    }
    if (v.kind == Value::Kind::scalar) {
      if (v.scalar == "redistribute") {
        p.redistribute = true;
      } else if (v.scalar.find('E') != std::string::npos ||
                 v.scalar.find('|') != std::string::npos) {
        p.layout = v.scalar;
      } else {
        r.expected(v, "a list of layer counts, redistribute, or a layout such as \"Et|tt|tL\"");
      }
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
    if (p.redistribute) {
      return tree::string("redistribute");
    }
    if (!p.layout.empty()) {
      return tree::string(p.layout);
    }
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
              "When gradients are reduced: behind the last micro-batch's backward, or each one's.",
              enum_schema({"last", "each"}),
              false,
              false,
              {}};
  f.spec = {"accumulation", "Gradient accumulation.", {}, true, false, {reduce}};
  f.read = [](Reader& r, const Value& v, Parallelism& p) {
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
        if (read_word(r, entry.value, {"last", "each"}, {})) {
          p.reduce_each = is_word(entry.value, "each");
        }
      }
    }
  };
  f.write = [](const Parallelism& p) -> std::optional<Value> {
    Value v = tree::map();
    tree::put(v, "reduce", tree::string(p.reduce_each ? "each" : "last"));
    return v;
  };
  return f;
}

}  // namespace

const Table<Parallelism>& parallelism_table() {
  static const Table<Parallelism> table = {
      optional_integer("data", &Parallelism::data, "auto", 1, kManyRanks,
                       "Data-parallel size; auto: ranks / (tensor * context * pipeline)."),
      integer("tensor", &Parallelism::tensor, 1, kManyRanks, "Tensor-parallel size."),
      integer("pipeline", &Parallelism::pipeline, 1, kManyRanks, "Pipeline stages."),
      integer("virtual_pipeline", &Parallelism::virtual_pipeline, 1, kManyLayers,
              "Model chunks of each stage (interleaving)."),
      choice("tensor_kind", &Parallelism::tensor_kind,
             "How tensor ranks cut a linear layer: 1d by columns and rows (Megatron-LM), or over a "
             "grid (Colossal-AI)."),
      integer("tensor_depth", &Parallelism::tensor_depth, 1, kManyRanks,
              "Layers of the 2.5d grid."),
      context(),
      integer("expert", &Parallelism::expert, 1, kManyRanks,
              "Expert-parallel size: ranks of a stage that hold different experts."),
      integer("expert_tensor", &Parallelism::expert_tensor, 1, kManyRanks,
              "Tensor-parallel size of the experts; left out: that of the dense layers."),
      boolean("sequence_parallel", &Parallelism::sequence_parallel,
              "Norms and dropout split along the sequence (off with tensor 1)."),
      optional_integer("shard_size", &Parallelism::shard_size, "", 1, kManyRanks,
                       "Ranks that share one copy; left out: all data-parallel ranks."),
      sharding(),
      reshard(),
      section("zeropp", &Parallelism::zeropp, zeropp_table(), "ZeRO++ (2306.10209)."),
      schedule(),
      layers_per_stage(),
      boolean("embedding_as_layer", &Parallelism::embedding_as_layer,
              "The embedding counts as a layer where layers are cut evenly."),
      boolean("loss_as_layer", &Parallelism::loss_as_layer, "The output layer and loss likewise."),
      section("overlap", &Parallelism::overlap, overlap_table(), "What runs beside compute."),
      accumulation(),
  };
  return table;
}

}  // namespace stepcast::config
