// How the work is divided: process grid, sharding, schedule, overlap.
#include <fmt/ranges.h>

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

// false and true stand for two of the kinds, none and ring.
Field<Overlap> tensor_overlap() {
  using job::TensorOverlap;
  static const Words<TensorOverlap> words = [] {
    Words<TensorOverlap> out = all_words<TensorOverlap>();
    out.words.insert(out.words.begin(), {"false", TensorOverlap::none});
    out.words.insert(out.words.begin() + 2, {"true", TensorOverlap::ring});
    return out;
  }();
  return choice("tensor", &Overlap::tensor, words,
                "How tensor-parallel collectives overlap matrix products: bulk, ring (true; "
                "products cut into chunks, as by Transformer Engine's user buffers) or async "
                "(PyTorch's async tensor parallelism).");
}

const Table<Overlap>& overlap_table() {
  static const Table<Overlap> table = {
      tensor_overlap(),
      boolean("pipeline", &Overlap::pipeline, "Sends and receives between stages overlap compute."),
      boolean("grad_reduce", &Overlap::grad_reduce,
              "Gradient reduction overlaps the last backward pass (zero3: always)."),
      boolean("param_gather", &Overlap::param_gather,
              "Parameter gathering overlaps the next forward pass (zero3: always)."),
      boolean("expert", &Overlap::expert,
              "The expert all-to-all overlaps the compute of another micro-batch "
              "(--overlap-moe-expert-parallel-comm)."),
      boolean("shared_expert", &Overlap::shared_expert,
              "Shared experts compute while tokens are dispatched (--moe-shared-expert-overlap)."),
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
  static const Table<Schedule> table = {
      custom<Schedule>(
          "name",
          "The schedule, NAME+vocab_1, NAME+vocab_2, or a CSV file of PyTorch's pipelining.",
          type_schema("string"), read_schedule_name,
          [](const Schedule& s) { return tree::string(schedule_text(s)); }),
      optional_integer("group", &Schedule::group, "", 1, kManyRanks,
                       "Micro-batches per group of virtual stages; left out: the pipeline size."),
      integer("extra_warmup", &Schedule::extra_warmup, 0, 1'000'000,
              "Forward passes that each stage runs ahead, beyond the schedule's own warm-up."),
      number("memory_limit", &Schedule::memory_limit, 0.1, 1000,
             "Of automatic schedules: the limit on live activations, in multiples of 1F1B's peak."),
  };
  return table;
}

Field<Parallelism> schedule() {
  return custom<Parallelism>(
      "schedule",
      "The order of forward and backward passes on each stage; auto: interleaved_1f1b with "
      "virtual_pipeline above 1, else 1f1b.",
      any_of({type_schema("string"), object_schema(specs(schedule_table()))}),
      [](Reader& r, const Value& v, Parallelism& p) {
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
      },
      [](const Parallelism& p) -> std::optional<Value> {
        return p.schedule ? write_table(schedule_table(), *p.schedule) : tree::string("auto");
      });
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
      choice(
          "kind", &Context::kind,
          "How ranks exchange keys and values: a ring (p2p), an all-gather, all-to-all over heads "
          "(Ulysses), or all-to-all within groups and a ring between them (hierarchical)."),
      integer("inner", &Context::inner, 0, kManyRanks,
              "hierarchical: ranks of the inner all-to-all; 0: those of a node."),
      boolean("balanced", &Context::balanced,
              "Under a causal mask each rank takes an early and a late chunk of the sequence."),
  };
  return table;
}

Field<Parallelism> context() {
  Field<Parallelism> f = custom<Parallelism>(
      "context",
      "Context parallelism: a size, or {size: 2, kind: p2p | all_gather | a2a | hierarchical}. The "
      "kind is the training system's where it states one.",
      any_of({type_schema("integer"), object_schema(specs(context_table()))}),
      [](Reader& r, const Value& v, Parallelism& p) {
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
      },
      [](const Parallelism& p) -> std::optional<Value> {
        if (p.context == 1) {
          return tree::number(std::int64_t{1});
        }
        return write_table(context_table(),
                           Context{p.context, p.context_kind, p.context_inner, p.context_balanced});
      });
  f.spec.section = true;
  f.spec.short_for = "size";
  f.spec.children = specs(context_table());
  return f;
}

// true, false, or the ranks among which gathered parameters are sharded again.
Field<Parallelism> reshard() {
  return custom<Parallelism>(
      "reshard_after_forward",
      "zero3: after the forward pass gathered parameters are dropped (true), kept for the backward "
      "pass (false), or sharded again over this number of ranks.",
      any_of({type_schema("boolean"), type_schema("integer")}),
      [](Reader& r, const Value& v, Parallelism& p) {
        if (is_word(v, "true") || is_word(v, "false")) {
          p.reshard_after_forward = is_word(v, "true");
          p.reshard_size = 0;
        } else if (const auto n = read_integer(r, v, 2, kManyRanks)) {
          p.reshard_after_forward = true;
          p.reshard_size = static_cast<int>(*n);
        }
      },
      [](const Parallelism& p) -> std::optional<Value> {
        return p.reshard_size > 0 ? tree::number(std::int64_t{p.reshard_size})
                                  : tree::boolean(p.reshard_after_forward);
      });
}

Field<job::ZeroPlusPlus> quantised(const char* key,
                                   std::optional<job::DType> job::ZeroPlusPlus::*member,
                                   const char* word, const char* description) {
  return optional_choice(key, member, Words<job::DType>{{{word, job::DType::int8}}}, description);
}

const Table<job::ZeroPlusPlus>& zeropp_table() {
  using job::ZeroPlusPlus;
  static const Table<ZeroPlusPlus> table = {
      quantised("weights", &ZeroPlusPlus::weights, "int8",
                "Parameters are gathered as int8 (qwZ)."),
      quantised("gradients", &ZeroPlusPlus::gradients, "int4",
                "Gradients are reduced as int4 by all-to-all, inside and between nodes (qgZ)."),
      integer("partition", &ZeroPlusPlus::partition, 0, kManyRanks,
              "Ranks over which a second copy is sharded, for gathers in the backward pass (hpZ); "
              "0: none."),
  };
  return table;
}

// The stages of ZeRO, and PyTorch's two names of the third: over all ranks, and within groups.
const Words<Sharding>& sharding_words() {
  static const Words<Sharding> words = [] {
    Words<Sharding> out = all_words<Sharding>();
    out.words.emplace_back("fsdp", Sharding::zero3);
    out.words.emplace_back("hsdp", Sharding::zero3);
    return out;
  }();
  return words;
}

// hsdp needs the size of its groups, shard_size, which the table reads first.
Field<Parallelism> sharding() {
  Field<Parallelism> f =
      choice("sharding", &Parallelism::sharding, sharding_words(),
             "What is sharded over data-parallel ranks: zero1: optimizer states; zero2: gradients "
             "too; zero3 (fsdp): parameters too; hsdp: zero3 within groups of shard_size ranks.");
  f.read = [read = f.read](Reader& r, const Value& v, void* p) {
    read(r, v, p);
    if (is_word(v, "hsdp") && !static_cast<const Parallelism*>(p)->shard_size) {
      r.fault(v, "hsdp without shard_size; expected the ranks that share one copy");
    }
  };
  return f;
}

// A list, a rule that splits, or a layout string.
Field<Parallelism> layers_per_stage() {
  return custom<Parallelism>(
      "layers_per_stage",
      "Layers of each pipeline rank, or of each virtual stage in model order; or how a framework "
      "splits them: even (or refused); remainder_first, _last, _middle: the stages that take what "
      "does not divide; balanced, balanced_parameters: DeepSpeed's partition_method "
      "type:transformer, parameters; cumulative: nanotron's; redistribute: equal times, the output "
      "layer and the speeds of unlike devices included; or Megatron-LM's layout string, such as "
      "\"Et*3|(tt|)*29,m|L\".",
      any_of({array_schema(integer_schema(0)), type_schema("string")}),
      [](Reader& r, const Value& v, Parallelism& p) {
        p.layers_per_stage.clear();
        p.layout.clear();
        p.split = StageSplit::even;
        if (is_null(v)) {
          return;
        }
        if (v.kind == Value::Kind::scalar) {
          if (const auto split = parse<StageSplit>(v.scalar)) {
            p.split = *split;
          } else if (v.scalar.find('E') != std::string::npos ||
                     v.scalar.find('|') != std::string::npos) {
            p.layout = v.scalar;
          } else {
            r.expected(v,
                       fmt::format("a list of layer counts, {}, or a layout such as \"Et|tt|tL\"",
                                   fmt::join(words_of<StageSplit>(), ", ")));
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
      },
      [](const Parallelism& p) -> std::optional<Value> {
        if (p.split != StageSplit::even) {
          return tree::string(to_string(p.split));
        }
        if (!p.layout.empty()) {
          return tree::string(p.layout);
        }
        return tree::integers(p.layers_per_stage);
      });
}

// A number of micro-batches, or all.
Field<Parallelism> deferred_head_wgrad() {
  return custom<Parallelism>(
      "deferred_head_wgrad",
      "Micro-batches, from the first on, whose weight gradient of the output projection waits for "
      "the end of the last stage's passes (--defer-embedding-wgrad-compute, "
      "--wgrad-deferral-limit): a number, or all.",
      any_of({integer_schema(0), enum_schema({"all"})}),
      [](Reader& r, const Value& v, Parallelism& p) {
        if (is_word(v, "all")) {
          p.deferred_head_wgrad = Parallelism::kAllMicroBatches;
        } else if (v.kind != Value::Kind::scalar ||
                   v.scalar.find_first_not_of("0123456789") != std::string::npos) {
          r.expected(v, "a number of micro-batches, or all");
        } else if (const auto n = read_integer(r, v, 0, Parallelism::kAllMicroBatches - 1)) {
          p.deferred_head_wgrad = static_cast<int>(*n);
        }
      },
      [](const Parallelism& p) -> std::optional<Value> {
        return p.deferred_head_wgrad == Parallelism::kAllMicroBatches
                   ? tree::string("all")
                   : tree::number(std::int64_t{p.deferred_head_wgrad});
      });
}

// The one key of parallelism.accumulation.
const Table<Parallelism>& accumulation_table() {
  static const Table<Parallelism> table = {
      choice("reduce", &Parallelism::reduce_each, Words<bool>{{{"last", false}, {"each", true}}},
             "When gradients are reduced: after the backward pass of the last micro-batch, or of "
             "each."),
  };
  return table;
}

Field<Parallelism> accumulation() {
  Field<Parallelism> f = custom<Parallelism>(
      "accumulation", "Gradient accumulation.", {},
      [](Reader& r, const Value& v, Parallelism& p) {
        if (v.kind != Value::Kind::map) {
          r.expected(v, "{reduce: last}");
        } else {
          read_table(r, v, accumulation_table(), p);
        }
      },
      [](const Parallelism& p) { return write_table(accumulation_table(), p); });
  f.spec.section = true;
  f.spec.children = {accumulation_table().rows.front().spec};
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
              "Depth of the 2.5d grid: its number of layers of q x q ranks."),
      context(),
      integer("expert", &Parallelism::expert, 1, kManyRanks,
              "Expert-parallel size: ranks of a stage that hold different experts."),
      integer("expert_tensor", &Parallelism::expert_tensor, 1, kManyRanks,
              "Tensor-parallel size of the experts; left out: that of the dense layers."),
      boolean("sequence_parallel", &Parallelism::sequence_parallel,
              "Norms and dropout split along the sequence (off with tensor 1)."),
      optional_integer("shard_size", &Parallelism::shard_size, "", 1, kManyRanks,
                       "Ranks over which one copy is sharded; left out: all data-parallel ranks."),
      sharding(),
      reshard(),
      section("zeropp", &Parallelism::zeropp, zeropp_table(), "ZeRO++ (2306.10209)."),
      choice("float8_all_gather", &Parallelism::float8_all_gather,
             "FSDP2 casts its shards of the weights of fp8 products and gathers 8 bits (torchao), "
             "with scales found for each gather (dynamic) or for all weights behind the optimizer "
             "(precomputed)."),
      schedule(),
      layers_per_stage(),
      boolean("embedding_as_layer", &Parallelism::embedding_as_layer,
              "The embedding counts as a layer where layers are divided evenly over stages."),
      boolean("loss_as_layer", &Parallelism::loss_as_layer,
              "The output layer and loss count as a layer where layers are divided evenly over "
              "stages."),
      deferred_head_wgrad(),
      section("overlap", &Parallelism::overlap, overlap_table(), "What overlaps compute."),
      accumulation(),
  };
  return table;
}

}  // namespace stepcast::config
