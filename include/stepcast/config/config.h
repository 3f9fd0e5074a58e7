// Text to job and back.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stepcast/base/diagnostics.h"
#include "stepcast/job/job.h"
#include "stepcast/text/document.h"

namespace stepcast::config {

struct Loaded {
  job::Job job;
  std::map<std::string, Origin> origins;  // "parallelism.tensor" -> where it was last set (file, preset, or option)
  std::vector<std::string> files;         // the job's file, then options: the order in which faults are reported
};

// "tp" for "parallelism.tensor": what overrides accept besides whole keys.
struct ShortKey {
  std::string_view name;
  std::string key;
};
std::span<const ShortKey> short_keys();
// KEY=VALUE, or a key alone, with the whole key where a short one stands.
std::string whole_key(const std::string& option);

// Reads a job file (a path, or a name found in configs/), merges the system's defaults below it and `overrides`
// ("parallelism.pipeline=8") above it. Throws InputError with every fault of syntax, type or range and every key that is
// missing, in file order. Whether the job is feasible is not judged here: `input` does that.
Loaded load(const std::string& config, const std::vector<std::string>& overrides = {});

// Reads a job from YAML text in memory. Fault lines show `name` where a file's name would be.
Loaded parse(const std::string& yaml, const std::string& name, const std::vector<std::string>& overrides = {});

// Reads a job from a document that another reader built (interop/launch.h). Fault lines show the document's origins.
Loaded parse(const text::Value& document, const std::vector<std::string>& overrides = {});

// Reads a cluster by name without a job, and the settings that are forced upon NCCL. With `nodes` 0 the cluster or an
// override states the number of nodes.
// Overrides set keys of `cluster` and `nccl`, the only sections of the job that are filled. Throws InputError; `option`
// names the cluster in fault lines.
Loaded network(const std::string& cluster, int nodes, const std::vector<std::string>& overrides = {},
               const std::string& option = "--cluster");

// The load of experts that overrides of `moe.balance` state, for a program without a job. Throws InputError.
job::ExpertBalance expert_balance(const std::vector<std::string>& overrides);

// Reads a device, model or system by its name in configs/.
job::Device device(const std::string& name);
job::Model model(const std::string& name);  // a name, or the path of a HuggingFace config.json
job::System system(const std::string& name);

// A key that a device must state and does not, and what was expected.
struct Lacking {
  std::string_view key;  // "memory_bandwidth"
  std::string_view expected;
};
std::vector<Lacking> lacking(const job::Device& device);

// Whether a word is the path of a file and not a name.
bool looks_like_path(const std::string& word);

// What a name or a path that a file holds means in the working directory: a relative path starts at the folder of the file
// that names it, as in job files; a name stays. Without a file (an option) a path stays as well.
std::string as_named(const text::Value& value);

// What is wrong with a value by itself, whatever the rest of the job is ("parallelism.tensor", "a"): it is not of the kind
// that its key takes, beyond its range, or names nothing. Empty for one that some job may have. Each fault lies at `where`.
std::vector<Fault> faults_of_value(const std::string& key, const std::string& value, const Origin& where);

// What a system sets for a job, including the systems that it builds on: each key with the comment that gives its source,
// and where it was written. Its limits (`cannot`) and the survey's marks are in job::System.
struct SystemDefault {
  std::string key;    // "parallelism.sharding"
  std::string value;  // as written
  std::string source;
  Origin where;
};
std::vector<SystemDefault> system_defaults(const std::string& name);
// The system of which this is only another name, or "".
std::string system_alias(const std::string& name);

// The fault of an infeasible job at its place: where its key was written, or else the nearest key that encloses it.
Fault fault_of(const Loaded& loaded, const Infeasible& why);
// The faults of several reasons in file order, without repetitions.
std::vector<Fault> faults_of(const Loaded& loaded, const std::vector<Infeasible>& reasons);

// The job with every default filled in: as JSON, and as YAML with the origin of each value as a comment.
std::string to_json(const job::Job& job);
std::string show(const Loaded& loaded);

// JSON Schema (draft 2020-12) of a job file, generated from the option table.
std::string schema();

// What configs/ offers: "models", "clusters", "systems", "devices", "jobs".
std::vector<std::string> list(const std::string& kind);

// The families of HuggingFace config.json files that are modelled, by their model_type.
std::vector<std::string> model_types();

// The model of configs/models that a name means: by the letters and digits of its last part
// ("meta-llama/Llama-3.1-8B"), or by an alias of other programs ("llama3 8B").
std::optional<std::string> known_model(std::string_view name);

}  // namespace stepcast::config
