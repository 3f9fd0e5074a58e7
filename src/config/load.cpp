#include <fmt/core.h>

#include <memory>
#include <mutex>
#include <unordered_map>

#include "check.h"
#include "defaults.h"
#include "merge.h"
#include "named.h"
#include "stepcast/config/config.h"
#include "system_document.h"

namespace stepcast::config {

namespace fs = std::filesystem;

namespace {

// When a job names no training system (documented in README.md).
constexpr const char* kDefaultSystem = "megatron-lm";

Value read_system_file(Reader& reader, const fs::path& file) {
  Value doc;
  try {
    doc = text::read_yaml(file, kBiggestJob);
  } catch (const InputError& error) {
    reader.add(error.faults());
    return tree::map();
  }
  if (doc.kind != Value::Kind::map) {
    reader.expected(doc, "the keys of a training system");
    return tree::map();
  }
  std::optional<Value> below;
  Value own = tree::map();
  own.origin = doc.origin;
  for (auto& entry : doc.entries) {
    if (entry.key == "use") {
      below = system_document(reader, entry.value);
    } else if (entry.key == "system" || entry.key == "parallelism" || entry.key == "moe" ||
               entry.key == "kernels" || entry.key == "nccl" || entry.key == "memory" ||
               entry.key == "workload") {
      own.entries.push_back(entry);
    } else {
      reader.unknown(
          entry, {"use", "system", "parallelism", "moe", "kernels", "nccl", "memory", "workload"});
    }
  }
  Value* section = tree::find(own, "system");
  if (section == nullptr) {
    Value fresh = tree::map();
    fresh.origin = doc.origin;
    tree::put(own, "system", std::move(fresh));
    section = tree::find(own, "system");
  }
  if (section->kind == Value::Kind::map && section->find("name") == nullptr) {
    Value stem = tree::string(file.stem().string());
    stem.origin = doc.origin;
    tree::put(*section, "name", std::move(stem));
  }
  return below ? merge(*below, own, job_spec()) : own;
}

}  // namespace

Value system_document(Reader& reader, const Value& name) {
  static std::mutex mutex;
  static std::unordered_map<std::string, std::shared_ptr<const Value>> cache;
  const auto file = find_file(reader, name, "systems", "training system");
  if (!file || !enter(reader, name, *file)) {
    return tree::map();
  }
  const std::string key = file->string();
  const bool preset = is_preset(*file);
  if (preset) {
    const std::lock_guard lock(mutex);
    if (const auto found = cache.find(key); found != cache.end()) {
      reader.including.pop_back();
      return *found->second;
    }
  }
  Reader sub;
  sub.including = reader.including;
  sub.subject = "a training system";
  sub.begin(key);
  Value doc = read_system_file(sub, *file);
  reader.add(sub.faults());
  reader.including.pop_back();
  if (preset && sub.clean()) {
    const std::lock_guard lock(mutex);
    cache.emplace(key, std::make_shared<const Value>(doc));
  }
  return doc;
}

namespace {

// Merges the job that `doc` names with `use` below it.
Value with_base(Reader& reader, Value doc) {
  if (doc.kind != Value::Kind::map) {
    return doc;
  }
  const Value* found = doc.find("use");
  if (found == nullptr) {
    return doc;
  }
  const Value use = *found;
  std::erase_if(doc.entries, [](const auto& entry) { return entry.key == "use"; });
  const auto file = find_file(reader, use, "jobs", "job");
  if (!file || !enter(reader, use, *file)) {
    return doc;
  }
  Value base;
  try {
    base = with_base(reader, read_part(*file));
  } catch (const InputError& error) {
    reader.add(error.faults());
  }
  reader.including.pop_back();
  if (base.kind != Value::Kind::map) {
    if (!is_null(base) || reader.clean()) {
      reader.fault(use, fmt::format("'{}' holds no job; expected keys such as model, cluster and "
                                    "workload",
                                    shown(use.scalar)));
    }
    return doc;
  }
  return merge(base, doc, job_spec());
}

void apply(Reader& reader, Value& doc, const std::string& text) {
  const Origin where{"--set " + text, 0, 0};
  const std::string option = whole_key(text);
  reader.begin(where.file);
  const std::size_t equals = option.find('=');
  if (equals == std::string::npos || equals == 0) {
    reader.fault(where, "the option has no value; expected KEY=VALUE");
    return;
  }
  const std::string key = option.substr(0, equals);
  if (key.front() == '.' || key.back() == '.' || key.find("..") != std::string::npos) {
    reader.fault(where,
                 fmt::format("'{}' is not a key; expected one such as parallelism.tensor", key));
    return;
  }
  try {
    Value value = text::parse_yaml(option.substr(equals + 1), where.file);
    tree::relocate(value, where);
    set_path(doc, key, std::move(value), job_spec());
  } catch (const InputError& error) {
    for (const Fault& f : error.faults()) {
      reader.fault(where, f.message);
    }
  }
}

// Merges the defaults of the training system below the job.
Value with_system(Reader& reader, Value doc) {
  Value name = tree::string(kDefaultSystem);
  name.origin = doc.origin;
  bool chosen = false;
  if (Value* system = tree::find(doc, "system")) {
    if (system->kind == Value::Kind::scalar) {
      name = *system;
      chosen = true;
      Value fresh = tree::map();
      fresh.origin = system->origin;
      *system = std::move(fresh);
    } else if (system->kind == Value::Kind::map) {
      if (const Value* use = system->find("use")) {
        name = *use;
        chosen = true;
        std::erase_if(system->entries, [](const auto& entry) { return entry.key == "use"; });
      }
    } else if (!is_null(*system)) {
      return doc;  // a list, which the option table reports
    } else {
      std::erase_if(doc.entries, [](const auto& entry) { return entry.key == "system"; });
    }
  }
  Value defaults = system_document(reader, name);
  if (Value* system = tree::find(defaults, "system"); system != nullptr && !chosen) {
    // A job that names no system gets the behaviour of the default one, not its limits.
    std::erase_if(system->entries, [](const auto& entry) {
      return entry.key == "cannot" || entry.key == "schedules";
    });
  }
  return merge(defaults, doc, job_spec());
}

Loaded finish(Reader& reader, Value doc, const Origin& start,
              const std::vector<std::string>& overrides) {
  Loaded loaded;
  if (is_null(doc)) {
    doc = tree::map();
    doc.origin = start;
  }
  if (doc.kind != Value::Kind::map) {
    reader.expected(doc, "a job: keys such as model, cluster and workload");
    throw InputError(reader.faults());
  }
  doc = with_base(reader, std::move(doc));
  for (const std::string& option : overrides) {
    apply(reader, doc, option);
  }
  doc = with_system(reader, std::move(doc));
  read_table(reader, doc, job_table(), loaded.job);
  for (const auto& feature : reader.features) {
    reader.fault(feature.fault.where, feature.fault.message);
  }
  if (reader.clean()) {
    reader.record(start);
    loaded.origins = std::move(reader.origins());
    loaded.job.system.launch_stated = by_user(loaded, "system.launch");
    loaded.job.system.layer_overhead_stated = by_user(loaded, "system.layer_overhead");
    derive(loaded);
    find_named_rates(loaded.job.cluster);
    fit_defaults(loaded);
    loaded.files = reader.files();
    for (const Infeasible& why : missing(loaded)) {
      const Fault fault = fault_of(loaded, why);
      reader.fault(fault.where, fault.message);
    }
  }
  if (!reader.clean()) {
    throw InputError(reader.faults());
  }
  return loaded;
}

}  // namespace

std::vector<Fault> faults_of_value(const std::string& key, const std::string& value,
                                   const Origin& where) {
  Reader reader;
  Value doc = tree::map();
  apply(reader, doc, key + "=" + value);
  if (reader.clean()) {
    job::Job job;
    read_table(reader, with_system(reader, with_base(reader, std::move(doc))), job_table(), job);
  }
  std::vector<Fault> out = reader.faults();
  for (Fault& fault : out) {
    fault.where = fault.where.line > 0 ? fault.where : where;
  }
  return out;
}

Loaded load(const std::string& config, const std::vector<std::string>& overrides) {
  Reader reader;
  fs::path file = config;
  std::error_code error;
  if (!fs::exists(file, error)) {
    Value name = tree::string(config);
    name.origin = {"--config " + config, 0, 0};
    const auto found = find_file(reader, name, "jobs", "job");
    if (!found) {
      // "llama70b.yaml" is a name too: it lies in configs/.
      Reader retry;
      Value stem = name;
      stem.scalar = fs::path(config).stem().string();
      const auto preset =
          fs::path(config).has_parent_path() ? std::nullopt : find_file(retry, stem, "jobs", "job");
      if (!preset) {
        const bool resembles_a_name =
            !fs::path(config).has_parent_path() && !nearest(stem.scalar, "jobs").empty();
        throw InputError(looks_like_path(config) && !resembles_a_name ? reader.faults()
                                                                      : retry.faults());
      }
      file = *preset;
    } else {
      file = *found;
    }
    reader = Reader();
  }
  reader.begin(file.string());
  reader.including.push_back(fs::weakly_canonical(file, error).string());
  Value doc = read_part(file);
  return finish(reader, std::move(doc), {file.string(), 1, 1}, overrides);
}

Loaded parse(const std::string& yaml, const std::string& name,
             const std::vector<std::string>& overrides) {
  Reader reader;
  reader.begin(name);
  Value doc = text::parse_yaml(yaml, name);
  return finish(reader, std::move(doc), {name, 1, 1}, overrides);
}

Loaded parse(const Value& document, const std::vector<std::string>& overrides) {
  Reader reader;
  reader.begin(document.origin.file);
  return finish(reader, document, document.origin, overrides);
}

Loaded network(const std::string& cluster, int nodes, const std::vector<std::string>& overrides,
               const std::string& option) {
  Reader reader;
  const Origin where{option + " " + cluster, 0, 0};
  Value use = tree::string(cluster);
  Value section = tree::map();
  tree::put(section, "use", std::move(use));
  if (nodes > 0) {
    tree::put(section, "nodes", tree::number(std::int64_t{nodes}));
  }
  Value doc = tree::map();
  tree::put(doc, "cluster", std::move(section));
  tree::relocate(doc, where);
  for (const std::string& set : overrides) {
    const std::string key = set.substr(0, set.find('='));
    if (!key.starts_with("cluster") && !key.starts_with("nccl")) {
      reader.fault(Origin{"--set " + set, 0, 0},
                   "a collective has only the keys cluster and nccl; expected one of them, or a "
                   "key below it");
      continue;
    }
    apply(reader, doc, set);
  }
  Loaded loaded;
  read_table(reader, doc, job_table(), loaded.job);
  if (reader.clean()) {
    find_named_rates(loaded.job.cluster);
    reader.record(where);
    loaded.origins = std::move(reader.origins());
    loaded.files = reader.files();
    for (const Infeasible& why : missing(loaded.job.cluster)) {
      const Fault fault = fault_of(loaded, why);
      reader.fault(fault.where, fault.message);
    }
  }
  if (!reader.clean()) {
    throw InputError(reader.faults());
  }
  return loaded;
}

job::ExpertBalance expert_balance(const std::vector<std::string>& overrides) {
  Reader reader;
  Value doc = tree::map();
  for (const std::string& set : overrides) {
    apply(reader, doc, set);
  }
  job::Job job;
  read_table(reader, doc, job_table(), job);
  if (!reader.clean()) {
    throw InputError(reader.faults());
  }
  return job.moe.balance;
}

namespace {

template <class T>
T named_part(const std::string& name, const Part<T>& part) {
  Reader reader;
  Value value = tree::string(name);
  value.origin = {name, 0, 0};
  T out;
  include(reader, value, out, part);
  for (const auto& feature : reader.features) {
    reader.fault(feature.fault.where, feature.fault.message);
  }
  if (!reader.clean()) {
    throw InputError(reader.faults());
  }
  return out;
}

}  // namespace

job::Device device(const std::string& name) { return named_part(name, device_part()); }

job::Model model(const std::string& name) {
  job::Model m = named_part(name, model_part());
  derive(m);
  return m;
}

job::System system(const std::string& name) {
  Reader reader;
  Value value = tree::string(name);
  value.origin = {name, 0, 0};
  Value doc = system_document(reader, value);
  job::System out;
  if (const Value* section = doc.find("system")) {
    read_table(reader, *section, system_table(), out);
  }
  if (!reader.clean()) {
    throw InputError(reader.faults());
  }
  return out;
}

Fault fault_of(const Loaded& loaded, const Infeasible& why) {
  std::string key = why.key;
  while (true) {
    if (const auto found = loaded.origins.find(key); found != loaded.origins.end()) {
      return {found->second, why.reason};
    }
    if (key.empty()) {
      return {Origin{"job", 0, 0}, why.reason};
    }
    const std::size_t dot = key.rfind('.');
    key = dot == std::string::npos ? "" : key.substr(0, dot);
  }
}

std::vector<Fault> faults_of(const Loaded& loaded, const std::vector<Infeasible>& reasons) {
  Reader reader;
  for (const std::string& file : loaded.files) {
    reader.begin(file);
  }
  for (const Infeasible& why : reasons) {
    const Fault fault = fault_of(loaded, why);
    reader.fault(fault.where, fault.message);
  }
  return reader.faults();
}

}  // namespace stepcast::config
