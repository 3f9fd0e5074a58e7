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

std::vector<std::string> strings(std::span<const std::string_view> words) {
  return {words.begin(), words.end()};
}

// NCCL reads its variables in any case: "Ring" and "ring" are one.
Field<Nccl> variable(std::string key, std::optional<std::string> Nccl::*member,
                     std::span<const std::string_view> names, std::string description) {
  Field<Nccl> f;
  f.spec = {std::move(key),
            std::move(description),
            any_of({enum_schema(strings(names)), type_schema("string"), type_schema("null")}),
            false,
            false,
            {}};
  f.read = [=](Reader& r, const Value& v, Nccl& n) {
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
  };
  f.write = [=](const Nccl& n) { return n.*member ? tree::string(*(n.*member)) : tree::null(); };
  return f;
}

// "2.18" or 2.18 (YAML's number) alike.
Field<Nccl> nccl_version() {
  Field<Nccl> f;
  f.spec = {
      "version",
      "NCCL's version, whose constants differ before 2.20 and before 2.24; null: the current.",
      any_of({type_schema("string"), type_schema("number"), type_schema("null")}),
      false,
      false,
      {}};
  f.read = [](Reader& r, const Value& v, Nccl& n) {
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
  };
  f.write = [](const Nccl& n) { return n.version ? tree::string(*n.version) : tree::null(); };
  return f;
}

const Table<Nccl>& nccl_table() {
  constexpr int kMostCtas = 64;  // MAXCHANNELS
  static const Table<Nccl> table = {
      variable(
          "algo", &Nccl::algo, job::nccl_algorithms(),
          "As NCCL_ALGO: a name, a list \"ring,tree\", an exclusion \"^nvls\", or by function "
          "\"allreduce:tree;allgather:ring\"; hierarchical is no NCCL algorithm but two levels "
          "as frameworks compose them; null: NCCL chooses."),
      variable("proto", &Nccl::proto, job::nccl_protocols(),
               "As NCCL_PROTO, with the same syntax; null: NCCL chooses."),
      nccl_version(),
      optional_integer("min_ctas", &Nccl::min_ctas, "", 1, kMostCtas,
                       "As NCCL_MIN_CTAS: at least so many channels (an SM each)."),
      optional_integer("max_ctas", &Nccl::max_ctas, "", 1, kMostCtas,
                       "As NCCL_MAX_CTAS: at most so many channels."),
  };
  return table;
}

Field<Job> calibration() {
  Field<Job> f;
  Value paths = type_schema("array");
  tree::put(paths, "items", type_schema("string"));
  f.spec = {"calibration",
            "Calibration files or folders of them; auto: chosen by device, kernel library and "
            "fabric. A list restricts to what it names; with auto in it, files chosen so price "
            "what the list does not.",
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
