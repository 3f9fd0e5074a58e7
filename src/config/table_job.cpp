// The sections of a job, in reading order.
#include <cctype>

#include "named.h"

namespace stepcast::config {

using job::AttentionKernel;
using job::Job;
using job::Kernels;
using job::LossKernel;
using job::MoeRuntime;
using job::Nccl;
using job::Workload;

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

namespace {

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
                      "Tokens of the whole run: the report says how many days they take."),
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
