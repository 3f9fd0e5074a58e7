// Parts that may be included by name: `h100-sxm`, `path/to/device.yaml`, {use: h100-sxm, memory: 96
// GB}, or fields.
#pragma once

#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <type_traits>
#include <unordered_map>

#include "huggingface.h"
#include "tables.h"

namespace stepcast::config {

// A folder of configs/ and what its files hold.
template <class T>
struct Part {
  std::string folder;
  std::string noun;
  const Table<T>& (*table)();
};

const Part<job::Model>& model_part();
const Part<job::Device>& device_part();
const Part<job::Node>& node_part();
const Part<job::Fabric>& fabric_part();
const Part<job::Cluster>& cluster_part();

// The file that a name or path means, or nothing after a fault. `value` tells where it was written:
// relative paths start there.
std::optional<std::filesystem::path> find_file(Reader& reader, const Value& value,
                                               const std::string& folder, const std::string& noun);
// Files of configs/ do not change while the program runs; others may.
bool is_preset(const std::filesystem::path& file);
// Pushes a file on reader.including; false after a fault when it is there already.
bool enter(Reader& reader, const Value& value, const std::filesystem::path& file);

template <class T>
void read_named(Reader& reader, const Value& value, T& out, const Part<T>& part);

// What a file says, read once.
template <class T>
struct Loaded_part {
  T value;
  std::map<std::string, Origin> origins;
  std::vector<Fault> faults;
  std::vector<Reader::Feature> features;
};

template <class T>
std::shared_ptr<const Loaded_part<T>> load_part(Reader& reader, const std::filesystem::path& file,
                                                const Part<T>& part) {
  static std::mutex mutex;
  static std::unordered_map<std::string, std::shared_ptr<const Loaded_part<T>>> cache;
  const std::string key = file.string();
  const bool preset = is_preset(file);
  if (preset) {
    const std::lock_guard lock(mutex);
    if (const auto found = cache.find(key); found != cache.end()) {
      return found->second;
    }
  }
  auto loaded = std::make_shared<Loaded_part<T>>();
  Reader sub;
  sub.including = reader.including;
  sub.subject = "a " + part.noun;
  sub.begin(key);
  try {
    const Value doc = file.extension() == ".json" ? text::read_json(file) : text::read_yaml(file);
    bool done = false;
    if constexpr (std::is_same_v<T, job::Model>) {
      if (is_huggingface(doc)) {
        read_huggingface(sub, doc, loaded->value);
        done = true;
      }
    }
    if (!done && doc.kind != Value::Kind::map) {
      sub.expected(doc, "the fields of a " + part.noun);
    } else if (!done) {
      read_named(sub, doc, loaded->value, part);
    }
    if (loaded->value.name.empty()) {
      loaded->value.name = file.stem().string();
    }
  } catch (const InputError& error) {
    sub.add(error.faults());
  }
  loaded->origins = sub.origins();
  loaded->faults = sub.faults();
  loaded->features = sub.features;
  if (preset && sub.clean()) {
    const std::lock_guard lock(mutex);
    cache.emplace(key, loaded);
  }
  return loaded;
}

template <class T>
void include(Reader& reader, const Value& value, T& out, const Part<T>& part) {
  out = T{};
  const auto file = find_file(reader, value, part.folder, part.noun);
  if (!file || !enter(reader, value, *file)) {
    return;
  }
  const auto loaded = load_part(reader, *file, part);
  reader.including.pop_back();
  out = loaded->value;
  reader.add(loaded->faults);
  for (const auto& [key, origin] : loaded->origins) {
    reader.record(key, origin);
  }
  reader.features.insert(reader.features.end(), loaded->features.begin(), loaded->features.end());
}

template <class T>
void read_named(Reader& reader, const Value& value, T& out, const Part<T>& part) {
  if (value.kind == Value::Kind::scalar) {
    include(reader, value, out, part);
    reader.record(value.origin);
    return;
  }
  if (value.kind != Value::Kind::map) {
    reader.expected(value, "the name of a " + part.noun + ", {use: NAME, ...}, or its fields");
    return;
  }
  if (const Value* use = value.find("use")) {
    include(reader, *use, out, part);
    reader.record("use", use->origin);
    std::erase_if(reader.features, [&](const Reader::Feature& feature) {
      return value.find(feature.key) != nullptr;
    });
  }
  read_table(reader, value, part.table(), out, "use");
}

template <class S, class T>
Field<S> named(std::string key, T S::*member, const Part<T>& (*part)(), std::string description) {
  Field<S> f;
  Spec use{"use",
           "The " + part().noun + " to start from: a name or a path.",
           type_schema("string"),
           false,
           false,
           {}};
  f.spec = {std::move(key), std::move(description), {}, true, true, {}};
  f.spec.children = specs(part().table());
  f.spec.children.insert(f.spec.children.begin(), std::move(use));
  f.read = [=](Reader& r, const Value& v, S& s) { read_named(r, v, s.*member, part()); };
  f.write = [=](const S& s) { return write_table(part().table(), s.*member); };
  return f;
}

}  // namespace stepcast::config
