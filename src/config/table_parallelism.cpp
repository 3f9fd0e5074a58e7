// How the work is divided: process grid, sharding, schedule, overlap.
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
  static const Words<TensorOverlap> words = {{{"false", TensorOverlap::none},
                                              {"none", TensorOverlap::none},
                                              {"true", TensorOverlap::ring},
                                              {"bulk", TensorOverlap::bulk},
                                              {"ring", TensorOverlap::ring},
                                              {"async", TensorOverlap::async}},
                                             {}};
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
  };
  return table;
}

// schedule::table() and what composes with it (job::Schedule).
const std::vector<std::string>& schedule_names() {
  static const std::vector<std::string> names = {
      "gpipe",      "1f1b",    "1f1b_overlap", "interleaved_1f1b", "looped_bfs", "zb_h1",
      "zb_h2",      "zb_v",    "zb_auto",      "v_half",           "v_min",      "dualpipe",
      "dualpipe_v", "chimera", "circular",     "interlaced"};
  return names;
}

// NAME, NAME+vocab_1, NAME+vocab_2 or the path of a CSV file.
void read_schedule_name(Reader& r, const Value& v, Schedule& s) {
  if (v.kind != Value::Kind::scalar) {
    read_word(r, v, schedule_names(), {});
    return;
  }
  if (v.scalar.ends_with(".csv")) {
    s.name = v.scalar;
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

}  // namespace

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
      optional_integer("shard_size", &Parallelism::shard_size, "", 1, kManyRanks,
                       "Ranks that share one copy; left out: all data-parallel ranks."),
      sharding(),
      schedule(),
      layers_per_stage(),
      section("overlap", &Parallelism::overlap, overlap_table(), "What runs beside compute."),
      accumulation(),
  };
  return table;
}

}  // namespace stepcast::config
