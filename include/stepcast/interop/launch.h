// Reads a job from the files that users of a training system already have: launch scripts, its JSON, YAML or TOML.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "stepcast/base/diagnostics.h"
#include "stepcast/text/document.h"

namespace stepcast::interop {

struct LaunchRequest {
  std::string system;                  // a name of launch_systems()
  std::vector<std::string> inputs;     // files, and arguments NAME=VALUE, which take precedence over files
  std::string model;                   // a name in configs/models or a path; "": the inputs name it
  std::string cluster;                 // a name in configs/clusters or a path
  int nodes = 0;                       // 0: the inputs state it
  std::vector<std::string> variables;  // shell variables NAME=VALUE that a script does not set
  std::vector<std::string> overrides;  // --set of the job: the inputs need not state these keys
  // Inputs in memory, read before the others: a name, whose extension gives the format, and the text.
  std::vector<std::pair<std::string, std::string>> texts = {};
  int ranks = 0;  // number of GPUs where `cluster` is only a name; 0: by its file
};

// One option as it was found.
struct LaunchOption {
  std::string name;   // as the system writes it: "--num-layers", "zero_optimization.stage"
  std::string value;  // as written, with variables expanded; "" for a bare flag
  Origin origin;
  std::string note;  // the keys of the job that it sets, or why it has no meaning or is not modelled
};

// Every option found is in exactly one list.
struct Launch {
  text::Value job;  // keys of a job file, each with the origin of its option
  std::vector<LaunchOption> translated;
  std::vector<LaunchOption> meaningless;  // a forecast does not depend on them
  std::vector<LaunchOption> unmodelled;   // they would affect a forecast, and are left out
  std::vector<LaunchOption> unknown;
  std::vector<Fault> remarks;  // parts of a script that were not evaluated
};

// "megatron", "deepspeed", ...
std::vector<std::string> launch_systems();

// Throws InputError with every fault: files that cannot be read, values of another type, and required keys that neither the
// inputs nor the request state.
Launch read_launch(const LaunchRequest& request);

// "FILE:LINE:COLUMN: warning: ..." for each unknown and unmodelled option and remark.
std::vector<std::string> warnings(const Launch& launch);
// The same as faults, for callers that accept none of them.
std::vector<Fault> as_faults(const Launch& launch);

// The options by list, as comments after a job in YAML.
std::string describe(const Launch& launch);

}  // namespace stepcast::interop
