// Text to job and back.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "stepcast/base/diagnostics.h"
#include "stepcast/job/job.h"
#include "stepcast/text/document.h"

namespace stepcast::config {

struct Loaded {
  job::Job job;
  std::map<std::string, Origin> origins;  // "parallelism.tensor" -> where it was last set (file, preset, or option)
  std::vector<std::string> files;         // the job's file, then options: the order in which faults are told
};

// Reads a job file (a path, or a name found in configs/), merges the system's defaults below it and `overrides`
// ("parallelism.pipeline=8") above it. Throws InputError with every fault of syntax, type or range and every key that is
// missing, in file order. Whether the job is feasible is not judged here: `input` does that.
Loaded load(const std::string& config, const std::vector<std::string>& overrides = {});

// The same from a document in memory: rows of published data and tests use it. `name` stands in fault lines.
Loaded parse(const std::string& yaml, const std::string& name, const std::vector<std::string>& overrides = {});

// The same from a document that another reader built (interop/launch.h): its origins stand in fault lines.
Loaded parse(const text::Value& document, const std::vector<std::string>& overrides = {});

// A cluster without a job, and what is forced upon NCCL there. `nodes` 0: the cluster or an override states the number.
// Overrides set keys of `cluster` and `nccl`, the only sections of the job that are filled. Throws InputError; `option`
// names the cluster in fault lines.
Loaded network(const std::string& cluster, int nodes, const std::vector<std::string>& overrides = {},
               const std::string& option = "--cluster");

// A model, device, node, fabric, cluster or system by name from configs/.
job::Device device(const std::string& name);
job::Model model(const std::string& name);  // a name, or the path of a HuggingFace config.json
job::System system(const std::string& name);

// What a system sets for a job, merged from the systems it builds on: each key with the comment that gives its source, and
// where it was written. Its limits (`cannot`) and the survey's marks are in job::System.
struct SystemDefault {
  std::string key;    // "parallelism.sharding"
  std::string value;  // as written
  std::string source;
  Origin where;
};
std::vector<SystemDefault> system_defaults(const std::string& name);
// The system that this is only another name of, or nothing.
std::string system_alias(const std::string& name);

// The place to blame for an impossible plan: the origin of its key, or of the nearest enclosing key that was written.
Fault fault_of(const Loaded& loaded, const Infeasible& why);
// Those of several reasons, each once, in file order.
std::vector<Fault> faults_of(const Loaded& loaded, const std::vector<Infeasible>& reasons);

// The resolved job as JSON, every default filled in; and as YAML with the origin of each value as a comment.
std::string to_json(const job::Job& job);
std::string show(const Loaded& loaded);

// JSON Schema (draft 2020-12) of a job file, generated from the option table.
std::string schema();

// What configs/ offers: "models", "clusters", "systems", "devices", "jobs".
std::vector<std::string> list(const std::string& kind);

}  // namespace stepcast::config
