// Makes a job of settings.
#include "stepcast/interop/launch.h"

#include <fmt/format.h>

#include <algorithm>

#include "../options/draft.h"
#include "classify.h"
#include "inputs.h"
#include "named_files.h"
#include "readers.h"

namespace stepcast::interop {

using launch::Draft;
using launch::Reader;
using launch::Setting;
using text::Value;

namespace {

// Applies the request, which takes precedence over the inputs.
void apply_request(Draft& draft) {
  const LaunchRequest& request = draft.request();
  Value& job = draft.job();
  const auto use = [&](const std::string& option, const std::string& name) {
    const Origin where{option + " " + name, 0, 0};
    Value map;
    map.kind = Value::Kind::map;
    map.origin = where;
    map.entries.push_back({"use", where, launch::scalar(name, where, true)});
    return map;
  };
  if (!request.model.empty()) {
    draft.drop("model");
    Value map = use("--model", request.model);
    job.entries.push_back({"model", map.origin, map});
  }
  if (!request.cluster.empty()) {
    Value map = use("--cluster", request.cluster);
    if (const Value* found = draft.job().find("cluster"); found != nullptr) {
      for (const auto& entry : found->entries) {
        // How many slices of a torus there are is the file's, how many nodes the command line's.
        if (request.nodes == 0 || entry.key == "fabric") {
          map.entries.push_back(entry);
        }
      }
    }
    draft.drop("cluster");
    job.entries.push_back({"cluster", map.origin, map});
  }
  if (request.nodes > 0) {
    const Origin where{fmt::format("--nodes {}", request.nodes), 0, 0};
    for (auto& entry : job.entries) {
      if (entry.key == "cluster" && entry.value.kind == Value::Kind::map) {
        entry.value.entries.push_back(
            {"nodes", where, launch::scalar(fmt::format("{}", request.nodes), where)});
      }
    }
  }
}

// Checks the keys that every job needs; a fault names the option that sets the key.
void check_complete(Draft& draft, const std::string& inputs) {
  const auto missing = [&](const char* option, const std::string& what, const std::string& how) {
    draft.fault({option, 0, 0}, fmt::format("{} {}; expected {}", inputs, what, how));
  };
  const bool named =
      !draft.text("model.use").empty() || draft.overridden("model.use") ||
      (draft.value("model") != nullptr && draft.value("model")->kind == Value::Kind::scalar);
  if (!named) {
    std::vector<std::string> gaps;
    for (const char* key : {"layers", "hidden", "heads", "vocab"}) {
      if (!draft.stated("model." + std::string(key))) {
        gaps.emplace_back(key);
      }
    }
    if (gaps.size() == 4) {
      missing("--model", "names no model", "--model NAME, or --set model.layers=N and so on");
    } else {
      for (const std::string& key : gaps) {
        missing("--model", fmt::format("does not state the model's {}", key),
                fmt::format("--set model.{}=N, or --model NAME", key));
      }
    }
  }
  if (draft.request().cluster.empty() && !draft.overridden("cluster")) {
    missing("--cluster", "names no cluster", "--cluster NAME (simulate --list shows the names)");
  } else if (draft.ranks() == 0) {
    missing("--nodes", "does not state the number of nodes", "--nodes N");
  }
  if (!draft.stated("workload.sequence_length")) {
    missing("--set workload.sequence_length", "does not state the sequence length",
            "--set workload.sequence_length=N");
  }
  if (!draft.stated("workload.global_batch")) {
    missing("--set workload.global_batch", "does not state the batch",
            "--set workload.global_batch=N");
  }
}

}  // namespace

std::vector<std::string> launch_systems() {
  std::vector<std::string> names;
  for (const Reader* reader : launch::readers()) {
    names.emplace_back(reader->system);
  }
  return names;
}

Launch read_launch(const LaunchRequest& request) {
  const Reader& reader = launch::reader_of(request.system);
  if (request.inputs.empty() && request.texts.empty()) {
    throw InputError(
        Fault{{"--from " + request.system, 0, 0}, "no file follows; expected --from SYSTEM FILE"});
  }
  std::vector<Fault> remarks;
  std::vector<Setting> doubts;
  std::vector<Setting> settings = launch::read_inputs(request, reader, doubts, remarks);
  launch::add_sections(reader, settings);
  launch::add_sections(reader, doubts);
  launch::add_named_files(request, reader, settings);
  std::vector<LaunchOption> overridden = launch::take_overridden(reader, settings);
  Draft draft(request, std::move(settings));
  draft.launch().meaningless = std::move(overridden);
  draft.preset = reader.preset;
  draft.launch().remarks = std::move(remarks);
  const std::string first =
      request.texts.empty() ? request.inputs.front() : request.texts.front().first;
  const Origin start{first, 1, 1};
  draft.job().origin = start;
  if (draft.settings().empty()) {
    throw InputError(
        Fault{start, fmt::format("no option of {} is in it; expected some", reader.system)});
  }
  launch::classify(draft, reader);
  launch::remark_doubts(draft, reader, doubts);
  if (draft.faults().empty()) {
    reader.finish(draft);
    draft.ranks();  // sets the number of nodes from the number of processes
  }
  apply_request(draft);
  if (draft.faults().empty()) {
    check_complete(draft, first);
  }
  if (!draft.faults().empty()) {
    auto& faults = draft.faults();
    std::stable_sort(faults.begin(), faults.end(), [](const Fault& a, const Fault& b) {
      return (a.where.line == 0 ? 1 << 30 : a.where.line) <
             (b.where.line == 0 ? 1 << 30 : b.where.line);
    });
    throw InputError(faults);
  }
  if (!draft.overridden("assumed")) {  // an option that a launch file leaves out has its default
    Value none;
    none.kind = Value::Kind::sequence;
    none.origin = start;
    draft.job().entries.push_back({"assumed", start, std::move(none)});
  }
  if (!draft.overridden("system")) {
    Value system;
    system.kind = Value::Kind::map;
    system.entries.push_back({"use", start, launch::scalar(draft.preset, start, true)});
    system.origin = start;
    if (const Value* given = draft.job().find("system")) {
      system.entries.insert(system.entries.end(), given->entries.begin(), given->entries.end());
    }
    draft.drop("system");
    draft.job().entries.push_back({"system", start, std::move(system)});
  }
  return draft.finish();
}

}  // namespace stepcast::interop
