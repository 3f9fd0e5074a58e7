// Writes a file, reads it back and compares the jobs, until no key differs or those that differ are
// faults.
#include "stepcast/interop/launch_file.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <set>

#include "../options/rule.h"
#include "../read/readers.h"
#include "named_cluster.h"
#include "stepcast/base/shell_word.h"
#include "stepcast/base/suggestion.h"
#include "stepcast/config/job_file.h"
#include "stepcast/input/input.h"
#include "stepcast/interop/launch.h"
#include "writer.h"

namespace stepcast::interop {

using config::Difference;
using launch::Writer;
using text::Value;

namespace {

const std::array<const Writer*, 5>& writers() {
  static const std::array<const Writer*, 5> all = {
      &launch::megatron_writer(), &launch::deepspeed_writer(), &launch::torchtitan_writer(),
      &launch::accelerate_writer(), &launch::nnscaler_writer()};
  return all;
}

const Writer& writer_of(const std::string& target) {
  for (const Writer* writer : writers()) {
    if (writer->target == target) {
      return *writer;
    }
  }
  throw InputError(
      Fault{{"--to", 0, 0},
            fmt::format("'{}' is not a format that is written; expected {}{}", target,
                        fmt::join(launch_targets(), " | "), suggestion(target, launch_targets()))});
}

bool is_below(std::string_view key, std::string_view above) {
  return key == above || (key.starts_with(above) && key[above.size()] == '.');
}

// Whether a key is one that launch files never have: the machine, its communication, and options of
// the forecast.
bool belongs_to_cluster(std::string_view key) {
  return (is_below(key, "cluster") && key != "cluster.order") || is_below(key, "nccl") ||
         key == "calibration" || key == "seed" || key == "assumed" || key == "model.name";
}

// The entry of a key that goes beside the file; null: the file can have it. A key of `system` that
// an option of the target sets goes into the file; the others are facts about the software.
const launch::Beside* beside(const Writer& writer, const std::string& key) {
  static const launch::Beside kSoftware = {"system", "the software as it is installed"};
  for (const launch::Beside& one : writer.beside) {
    if (is_below(key, one.key)) {
      return &one;
    }
  }
  if (!is_below(key, "system")) {
    return nullptr;
  }
  for (const auto* list : launch::reader_of(std::string(writer.target)).rules) {
    for (const launch::Rule& rule : *list) {
      if (rule.key == key) {
        return nullptr;
      }
    }
  }
  return &kSoftware;
}

bool offered(const std::string& model) {
  const auto names = config::list("models");
  return std::find(names.begin(), names.end(), model) != names.end();
}

bool states_model(const Writer& writer) { return beside(writer, "model") == nullptr; }

std::string to_text(const Value& v) {
  std::string out;
  if (v.kind == Value::Kind::scalar) {
    return v.scalar;
  }
  for (const Value& item : v.items) {
    out += (out.empty() ? "" : ", ") + to_text(item);
  }
  return "[" + out + "]";
}

void add_model(const Value& map, const std::string& above, std::vector<std::string>& out) {
  for (const auto& entry : map.entries) {
    const std::string key = above + "." + entry.key;
    if (entry.value.kind == Value::Kind::map) {
      add_model(entry.value, key, out);
    } else if (entry.value.kind != Value::Kind::null && key != "model.name") {
      out.push_back(key + "=" + to_text(entry.value));
    }
  }
}

void replace(Value& job, const Value& from, const char* key) {
  if (const Value* value = from.find(key)) {
    std::erase_if(job.entries, [&](const auto& entry) { return entry.key == key; });
    job.entries.push_back({key, value->origin, *value});
  }
}

// Reads the request's launch files with the job's own machine.
config::Loaded read(const LaunchRequest& request, const Value& resolved) {
  const Launch launch = read_launch(request);
  Value job = launch.job;
  Value machine = resolved;
  for (auto& entry : machine.entries) {
    if (entry.key == "cluster") {
      std::erase_if(entry.value.entries, [](const auto& one) { return one.key == "order"; });
    }
  }
  for (const char* key : {"cluster", "nccl", "calibration", "seed"}) {
    replace(job, machine, key);
  }
  return input::parse(job, request.overrides);
}

[[noreturn]] void refuse(const config::Loaded& loaded, const Writer& writer,
                         const std::vector<Difference>& differences) {
  std::vector<Fault> faults;
  for (const Difference& d : differences) {
    faults.push_back(config::fault_of(
        loaded, {d.key, fmt::format("{} cannot express {}: {}; expected {}, or another --to",
                                    writer.noun, d.key, d.wanted, d.found)}));
  }
  throw InputError(std::move(faults));
}

void check_system(const config::Loaded& loaded, const Writer& writer) {
  const std::string& name = loaded.job.system.name;
  const bool known =
      std::find(writer.systems.begin(), writer.systems.end(), name) != writer.systems.end();
  if (!known) {
    throw InputError(config::fault_of(
        loaded, {"system", fmt::format("{} cannot launch {}; expected --set system={}", writer.noun,
                                       name, fmt::join(writer.systems, " | "))}));
  }
}

// No target can launch ranks with different batches.
void check_batches(const config::Loaded& loaded, const Writer& writer) {
  if (loaded.job.workload.micro_batches.kind != job::MicroBatches::Kind::even) {
    throw InputError(config::fault_of(
        loaded, {"workload.micro_batches",
                 fmt::format("{} cannot express workload.micro_batches: all data-parallel ranks "
                             "run the same number; expected even",
                             writer.noun)}));
  }
}

// Stands for the path of a cluster that only the job's own file states.
constexpr const char* kOwnCluster = "CLUSTER";

// Without what transformers' modules of the model do, where the system runs its own.
job::Job without_modules(job::Job job) {
  if (!job.system.transformers_modules) {
    job.model.modules = {};
  }
  return job;
}

job::Job wanted_of(const job::Job& job, const Writer& writer) {
  return without_modules(writer.view != nullptr ? writer.view(job) : job);
}

struct Found {
  launch::Written written;
  std::vector<std::string> overrides;
};

// Writes options only where they are needed: those of keys that would differ without them.
Found settle(const config::Loaded& loaded, const Writer& writer, LaunchRequest request) {
  const job::Job wanted = wanted_of(loaded.job, writer);
  const Value resolved = config::resolved(loaded.job);
  std::set<std::string> different;
  const auto overridden = [&](const std::string& key) {
    return std::any_of(request.overrides.begin(), request.overrides.end(),
                       [&](const std::string& o) { return o.starts_with(key + "="); });
  };
  while (true) {
    const launch::Written written = writer.write({loaded.job, different});
    request.texts = {{"launch" + std::string(writer.extension), written.text}};
    request.inputs = written.arguments;
    std::vector<Difference> differences;
    try {
      differences = config::differences(wanted, without_modules(read(request, resolved).job));
    } catch (const InputError& error) {
      const Fault& first = error.faults().front();
      throw InputError(config::fault_of(
          loaded, {"", fmt::format("{} cannot express this job: the file is refused when it is "
                                   "read back ({}); expected another --to",
                                   writer.noun, first.message)}));
    }
    std::erase_if(differences, [](const Difference& d) { return belongs_to_cluster(d.key); });
    if (differences.empty()) {
      return {written, request.overrides};
    }
    bool changed = false;
    for (const Difference& d : differences) {
      changed = different.insert(d.key).second || changed;
    }
    if (changed) {
      continue;  // the writer may know an option for them
    }
    for (const Difference& d : differences) {
      if (beside(writer, d.key) != nullptr && !overridden(d.key)) {
        request.overrides.push_back(d.key + "=" + d.wanted);
        changed = true;
      }
    }
    if (!changed) {
      refuse(loaded, writer, differences);
    }
  }
}

}  // namespace

std::vector<std::string> launch_targets() {
  std::vector<std::string> names;
  for (const Writer* writer : writers()) {
    names.emplace_back(writer->target);
  }
  return names;
}

LaunchFile launch_file(const config::Loaded& loaded, const std::string& target) {
  const Writer& writer = writer_of(target);
  check_system(loaded, writer);
  check_batches(loaded, writer);
  const job::Job& job = loaded.job;
  LaunchRequest request;
  request.system = target;
  request.cluster = job.cluster.name.empty() ? kOwnCluster : job.cluster.name;
  request.nodes = job.cluster.nodes;
  request.ranks = job.cluster.ranks();
  if (job.system.name != launch::reader_of(target).preset) {
    request.overrides.push_back("system.use=" + job.system.name);
  }
  if (!states_model(writer)) {
    if (offered(job.model.name)) {
      request.model = job.model.name;
    } else {
      add_model(*config::resolved(job).find("model"), "model", request.overrides);
    }
  }
  if (beside(writer, "workload.sequence_length") != nullptr) {
    request.overrides.push_back(
        fmt::format("workload.sequence_length={}", job.workload.sequence_length));
  }
  const Found found = settle(loaded, writer, request);

  LaunchFile out;
  out.extension = writer.extension;
  out.arguments = found.written.arguments;
  out.read_back = fmt::format("simulate --from {} FILE", target);
  for (const std::string& argument : out.arguments) {
    out.read_back += " " + argument;
  }
  request.overrides = found.overrides;
  request.texts = {{"launch" + std::string(writer.extension), found.written.text}};
  request.inputs = found.written.arguments;
  const auto cluster = launch::named_cluster(loaded, wanted_of(loaded.job, writer), request);
  out.own_cluster = !cluster;
  out.read_back +=
      fmt::format(" --cluster {} --nodes {}", cluster ? shell_word(cluster->name) : kOwnCluster,
                  job.cluster.nodes);
  if (!request.model.empty()) {
    out.beside.push_back("--model " + request.model);
  }
  for (const std::string& option : found.overrides) {
    out.beside.push_back("--set " + shell_word(option));
  }
  if (cluster) {
    for (const std::string& option : cluster->overrides) {
      out.beside.push_back("--set " + shell_word(option));
    }
  }
  for (const std::string& option : out.beside) {
    out.read_back += " " + option;
  }
  std::string head = writer.extension == ".sh" ? "#!/bin/bash\n" : "";
  if (!writer.comment.empty()) {
    head += fmt::format("{}{} of this job; it is read back by\n{}  {}\n", writer.comment,
                        writer.noun, writer.comment, out.read_back);
    if (out.own_cluster) {
      head += fmt::format("{}where {} is a file of the job's own cluster\n", writer.comment,
                          kOwnCluster);
    }
  }
  out.text = head + found.written.text;
  return out;
}

}  // namespace stepcast::interop
